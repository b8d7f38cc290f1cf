// Package s3test starts an S3 server for a test: versitygw, embedded in the
// command test/s3dev, which is built once and kept in the user's cache folder.
//
// A test that can not have one is skipped with the reason, or fails when
// DATAMOVE_STRICT is 1. DATAMOVE_E2E_S3=URL,ACCESS,SECRET,BUCKET[,CA-FILE] names a
// server that is there already; then that one is used, whatever it is. It may have
// two addresses, one for http and one for https, with a space between.
package s3test

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"datamove.dev/mover/backend/s3"
)

// Server is a running S3 server. Its bucket exists.
type Server struct {
	Endpoint       string // URL
	CA             string // file with the certificate to trust; "" over plain http
	Access, Secret string
	Bucket         string
	Dir            string // of the bucket's objects; "" when the server is not ours
	Sort           string // servers of one sort can do the same: flags of the embedded one, or the URL of another
}

// NoAuthorities is an environment without the authorities of this machine: no test is about them, and to read 140 of them is a third of a short command on S3.
var NoAuthorities = map[string]string{"SSL_CERT_FILE": os.DevNull, "SSL_CERT_DIR": "/nonexistent"}

const strict = "DATAMOVE_STRICT"

// Start starts a server that ends with the test, over https when tls is set.
func Start(t testing.TB, tls bool) *Server {
	t.Helper()
	t.Setenv("AWS_CA_BUNDLE", "") // of this machine, and not the test's business
	if named := os.Getenv("DATAMOVE_E2E_S3"); named != "" {
		return existing(t, named, tls)
	}
	return started(t, "--tls="+strconv.FormatBool(tls))
}

// StartVersioned starts the embedded server with a bucket that keeps all versions, and gives ETags like those of a bucket with KMS.
func StartVersioned(t testing.TB) *Server {
	t.Helper()
	t.Setenv("AWS_CA_BUNDLE", "") // of this machine, and not the test's business
	return started(t, "--tls=false", "--versions", "--kms")
}

// started starts the embedded server.
func started(t testing.TB, flags ...string) *Server {
	t.Helper()
	bin, err := Binary()
	if err != nil {
		if os.Getenv(strict) == "1" {
			t.Fatalf("no S3 server: %v", err)
		}
		t.Skipf("no S3 server: %v", err)
	}
	for name, value := range NoAuthorities {
		t.Setenv(name, value)
	}
	s := &Server{Access: "datamove", Secret: "datamove-secret", Bucket: "test", Sort: strings.Join(flags, " ")}
	if err := s.run(t, bin, flags...); err != nil {
		t.Fatalf("S3 server: %v", err)
	}
	return s
}

func existing(t testing.TB, named string, tls bool) *Server {
	for address := range strings.FieldsSeq(named) {
		f := strings.Split(address, ",")
		if len(f) < 4 || len(f) > 5 {
			t.Fatalf("%q in DATAMOVE_E2E_S3 is not URL,ACCESS,SECRET,BUCKET[,CA-FILE]", address)
		}
		if tls == strings.HasPrefix(f[0], "https:") {
			f = append(f, "")
			return &Server{Endpoint: f[0], Access: f[1], Secret: f[2], Bucket: f[3], CA: f[4], Sort: f[0]}
		}
	}
	t.Skipf("DATAMOVE_E2E_S3 has no address for https=%v: %q", tls, named)
	return nil
}

// run starts the process. It ends when its standard input does: with us, at the latest.
func (s *Server) run(t testing.TB, bin string, flags ...string) error {
	root := t.TempDir()
	s.Dir = filepath.Join(root, s.Bucket)
	cmd := exec.Command(bin, append([]string{"--dir", root, "--buckets", s.Bucket, "--access", s.Access, "--secret", s.Secret, "--parent"}, flags...)...)
	log, err := os.Create(filepath.Join(t.TempDir(), "server.log")) // it is chatty: told when a test fails
	if err != nil {
		return err
	}
	cmd.Stderr = log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("the server said:\n%s", text)
		}
		_ = log.Close()
	})
	return s.read(stdout)
}

// read takes over what the server says of itself, until it is ready.
func (s *Server) read(stdout io.Reader) error {
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		word, value, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "endpoint":
			s.Endpoint = value
		case "ca":
			s.CA = value
		case "ready":
			return nil
		}
	}
	return errors.New("it ended before it was ready")
}

var prefixes atomic.Uint64

// Options are the options of a place of its own on the server, writable, with a
// state directory that all places of the test share.
func (s *Server) Options(t testing.TB) s3.Options {
	t.Helper()
	dir := t.TempDir()
	keys := filepath.Join(dir, "keys.env")
	text := fmt.Sprintf("AWS_ACCESS_KEY_ID=%s\nAWS_SECRET_ACCESS_KEY=%s\n", s.Access, s.Secret)
	if err := os.WriteFile(keys, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return s3.Options{
		Endpoint: s.Endpoint, Bucket: s.Bucket, CABundle: s.CA, Credentials: "file:" + keys,
		Prefix:   fmt.Sprintf("test-%d-%d", os.Getpid(), prefixes.Add(1)),
		StateDir: filepath.Join(dir, "state"), Writable: true,
	}
}

// Open opens a place that the test closes.
func Open(t testing.TB, o s3.Options) *s3.Backend {
	t.Helper()
	p, err := s3.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return p
}

// Binary is the path of s3dev, built from its sources as they are now.
var Binary = sync.OnceValues(func() (string, error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "datamove.dev").Output()
	if err != nil {
		return "", fmt.Errorf("go list -m: %w", err)
	}
	source := filepath.Join(strings.TrimSpace(string(root)), "test", "s3dev")
	version, err := hashOf(source)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	bin := filepath.Join(cache, "datamove", "s3dev-"+version)
	if _, err := os.Stat(bin); err == nil {
		return bin, nil
	}
	return bin, build(source, bin)
})

// build replaces bin in one step, because other tests may build it too.
func build(source, bin string) error {
	if err := os.MkdirAll(filepath.Dir(bin), 0o755); err != nil {
		return err
	}
	fresh := fmt.Sprintf("%s.%d", bin, os.Getpid())
	cmd := exec.Command("go", "build", "-trimpath", "-o", fresh, ".") // as make demo does, which fills the cache
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building test/s3dev: %w\n%s", err, out)
	}
	return os.Rename(fresh, bin)
}

func hashOf(source string) (string, error) {
	sum := sha256.New()
	files, err := filepath.Glob(filepath.Join(source, "*.*"))
	if err != nil || len(files) == 0 {
		return "", fmt.Errorf("no sources in %s", source)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n", filepath.Base(path), len(text))
		sum.Write(text)
	}
	fmt.Fprintln(sum, runtime.Version(), runtime.GOARCH)
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}
