package doctor

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fault is something that is wrong, and what the doctor should say about it.
type fault struct {
	name   string
	seed   func(t *testing.T) []Finding // makes the fault and looks
	status Status
	check  string
	detail string // part of it
	mend   string // part of it
}

// TestEveryFaultIsNamed seeds one fault at a time. Each is found by the check that
// is for it, and its mend is named.
func TestEveryFaultIsNamed(t *testing.T) {
	for _, row := range slices.Concat(configFaults, folderFaults, endpointFaults, bucketFaults, slurmFaults) {
		t.Run(row.name, func(t *testing.T) {
			found := row.seed(t)
			for _, f := range found {
				if f.Status == row.status && f.Check == row.check && strings.Contains(f.Detail, row.detail) && strings.Contains(f.Mend, row.mend) {
					return
				}
			}
			t.Errorf("want %s %s: …%s… mend: …%s…, found:\n%s", row.status, row.check, row.detail, row.mend, text(found))
		})
	}
}

func text(found []Finding) string {
	var b strings.Builder
	for _, f := range found {
		fmt.Fprintf(&b, "%s  %s  %s: %s\n      mend: %s\n", f.Status, f.Subject, f.Check, f.Detail, f.Mend)
	}
	return b.String()
}

var configFaults = []fault{
	{"broken YAML", reads("tiers: [\n"), Fail, "configuration", "is not valid YAML", "look at the indentation"},
	{"unknown key", reads("tiers:\n  sc: {pth: /x, level: hot}\n"), Fail, "configuration", "tiers.sc.pth: unknown key", "did you mean path?"},
	{"the file of DATAMOVE_CONFIG is missing", func(t *testing.T) []Finding {
		missing := filepath.Join(t.TempDir(), "nothing.yaml")
		return Configuration(config.Load(func(string) string { return missing }))
	}, Fail, "configuration", "no such file", "config init"},
	{"credentials that others can read", func(t *testing.T) []Finding {
		return []Finding{CredentialsFile(file(t, "AWS_ACCESS_KEY_ID=a\n", 0o644))}
	}, Warn, "credentials", "mode 0644", "chmod 600"},
	{"credentials that are missing", func(t *testing.T) []Finding {
		return []Finding{CredentialsFile(filepath.Join(t.TempDir(), "x.env"))}
	}, Fail, "credentials", "no such file", "AWS_SECRET_ACCESS_KEY="},
	{"too few open files", func(*testing.T) []Finding { return []Finding{openFiles(256)} }, Fail, "open files", "at most 256", "ulimit -Hn"},
	{"few open files", func(*testing.T) []Finding { return []Finding{openFiles(1024)} }, Warn, "open files", "at most 1,024", "LimitNOFILE="},
	{"a small control group", func(*testing.T) []Finding {
		return []Finding{memory(memoryLimit(fstest.MapFS{
			"proc/self/cgroup":                       {Data: []byte("0::/job/step\n")},
			"sys/fs/cgroup/job/memory.max":           {Data: []byte("134217728\n")},
			"sys/fs/cgroup/job/step/memory.max":      {Data: []byte("max\n")},
			"sys/fs/cgroup/memory/memory.limit_in_x": {Data: []byte("1\n")},
		}))}
	}, Fail, "memory", "128 MiB", "--memory"},
	{"no place for the journal", func(t *testing.T) []Finding {
		return []Finding{State(filepath.Join(file(t, "", 0o600), "datamove"), nil)}
	}, Fail, "journal", "not a directory", "XDG_STATE_HOME"},
}

// reads makes the configuration text and reads it.
func reads(text string) func(t *testing.T) []Finding {
	return func(t *testing.T) []Finding {
		return Configuration(config.Parse(file(t, text, 0o600), []byte(text), func(string) string { return "" }))
	}
}

func file(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	must.Do(t, errors.Join(os.WriteFile(name, []byte(text), 0o600), os.Chmod(name, mode)))
	return name
}

var folderFaults = []fault{
	{"a folder that is missing", func(t *testing.T) []Finding { return Folder(filepath.Join(t.TempDir(), "nothing")) },
		Fail, "folder", "is not there", "mkdir -p"},
	{"a file instead of a folder", func(t *testing.T) []Finding { return Folder(file(t, "", 0o600)) },
		Fail, "folder", "is a file", "name the folder"},
	{"mounted read-only", mounted("tmpfs", unix.MS_RDONLY, "size=1g", nil), Fail, "write", "read-only", "remount,rw"},
	{"no space", mounted("tmpfs", 0, "size=1m", func(dir string) error {
		err := os.WriteFile(filepath.Join(dir, "full"), make([]byte, 2<<20), 0o600)
		if !errors.Is(err, unix.ENOSPC) {
			return fmt.Errorf("it is not full: %w", err)
		}
		return nil
	}), Fail, "space", "0 B free of 1.00 MiB", "remove what is not needed"},
	{"no inodes", mounted("tmpfs", 0, "size=1g,nr_inodes=2", func(dir string) error {
		return os.WriteFile(filepath.Join(dir, "last"), nil, 0o600)
	}), Fail, "inodes", "0 free of 2", "more inodes"},
	{"no extended attributes", mounted("ramfs", 0, "", nil), Warn, "xattr", "not kept", "user_xattr"},
	{"not writable", func(t *testing.T) []Finding {
		dir := t.TempDir()
		if err := immutable(dir, true); err != nil {
			t.Skip("no immutable folders here: ", err)
		}
		defer func() { _ = immutable(dir, false) }()
		return Folder(dir)
	}, Fail, "write", "not permitted", "the right to write here"},
	{"what a killed run left", func(t *testing.T) []Finding {
		dir := t.TempDir()
		draft := filepath.Join(dir, mover.WriterID{Task: "abc", Epoch: 1}.TempName(7))
		old := time.Now().Add(-48 * time.Hour)
		must.Do(t, errors.Join(os.WriteFile(draft, nil, 0o600), os.Chtimes(draft, old, old)))
		return Folder(dir)
	}, Warn, "leftovers", "1 unfinished file", "run the same copy or sync again"},
	{"the lock of a killed run", func(t *testing.T) []Finding {
		dir := t.TempDir()
		must.Do(t, os.WriteFile(filepath.Join(dir, lockName), nil, 0o600))
		return Folder(dir)
	}, Warn, "lock", "no process holds it", "run the same command again"},
}

// mounted mounts a file system, spoils it, and looks at it.
func mounted(kind string, flags uintptr, options string, spoil func(dir string) error) func(t *testing.T) []Finding {
	return func(t *testing.T) []Finding {
		dir := t.TempDir()
		if err := unix.Mount("none", dir, kind, flags, options); err != nil {
			t.Skipf("mount %s: %v (root can)", kind, err)
		}
		defer func() { _ = unix.Unmount(dir, 0) }()
		if spoil != nil {
			must.Do(t, spoil(dir))
		}
		return Folder(dir)
	}
}

// immutable sets or clears the flag that keeps even root from writing (chattr +i).
func immutable(dir string, on bool) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
	if err != nil {
		return err
	}
	const immutableFlag = 0x10 // FS_IMMUTABLE_FL of linux/fs.h
	flags &^= immutableFlag
	if on {
		flags |= immutableFlag
	}
	return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags)
}

var endpointFaults = []fault{
	{"nobody listens", func(t *testing.T) []Finding {
		l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		addr := l.Addr().String()
		l.Close()
		return Endpoint(t.Context(), "http://"+addr, "")
	}, Fail, "reach", "connection refused", "that the server runs"},
	{"a port that hangs up", func(t *testing.T) []Finding { return Endpoint(t.Context(), says(t, ""), "") },
		Fail, "reach", "ends the connection without an answer", "the port"},
	{"a port of something else", func(t *testing.T) []Finding { return Endpoint(t.Context(), says(t, "SSH-2.0-OpenSSH\r\n"), "") },
		Fail, "reach", "SSH-2.0", "its port"},
	{"an unknown host", func(t *testing.T) []Finding { return Endpoint(t.Context(), "https://s3.invalid", "") },
		Fail, "reach", "host name is not known", "endpoint:"},
	{"not a URL", func(t *testing.T) []Finding { return Endpoint(t.Context(), "s3.site:9000", "") }, Fail, "reach", "is not a URL", "https://"},
	{"an authority that is not trusted", func(t *testing.T) []Finding { return Endpoint(t.Context(), secure(t).URL, "") },
		Fail, "certificate", "does not trust", "ca: of the tier"},
	{"a certificate for another host", func(t *testing.T) []Finding {
		server := secure(t)
		ca := file(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})), 0o600)
		return Endpoint(t.Context(), strings.Replace(server.URL, "127.0.0.1", "localhost", 1), ca)
	}, Fail, "certificate", "is for another host", "the name in the certificate"},
	{"an empty file of certificates", func(t *testing.T) []Finding { return Endpoint(t.Context(), "https://localhost", file(t, "x", 0o600)) },
		Fail, "certificates", "has no certificate", "PEM"},
	{"https to a plain port", func(t *testing.T) []Finding {
		return Endpoint(t.Context(), strings.Replace(plain(t, 0).URL, "http:", "https:", 1), "")
	}, Fail, "reach", "does not speak TLS", "http://"},
	{"plain http", func(t *testing.T) []Finding { return Endpoint(t.Context(), plain(t, 0).URL, "") }, Warn, "encryption", "plain http", "use https"},
	{"a clock an hour ahead", func(t *testing.T) []Finding { return Endpoint(t.Context(), plain(t, time.Hour).URL, "") },
		Fail, "clock", "ahead of this machine: it will refuse every request", "NTP"},
	{"a clock five minutes behind", func(t *testing.T) []Finding { return Endpoint(t.Context(), plain(t, -5*time.Minute).URL, "") },
		Warn, "clock", "behind this machine", "NTP"},
}

// says is a server that reads a request, says what it says, and hangs up.
func says(t *testing.T, text string) (endpoint string) {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 4096))
			_, _ = c.Write([]byte(text))
			c.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-ended
	})
	return "http://" + l.Addr().String()
}

// plain is a server whose clock is wrong by skew.
func plain(t *testing.T, skew time.Duration) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(skew).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(s.Close)
	return s
}

// secure is a server with a certificate for 127.0.0.1 that nobody knows.
func secure(t *testing.T) *httptest.Server {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// TestNothingIsLeft shows that a folder is after the checks what it was before, and
// that a healthy one has no findings but passes.
func TestNothingIsLeft(t *testing.T) {
	dir := t.TempDir()
	for _, f := range Folder(dir) {
		if f.Status == Fail || f.Mend != "" && f.Status == Pass {
			t.Errorf("%+v", f)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestMemoryOfVersionOne(t *testing.T) {
	limit, known := memoryLimit(fstest.MapFS{
		"proc/self/cgroup":                                 {Data: []byte("5:cpu:/x\n4:memory:/job\n0::/\n")},
		"sys/fs/cgroup/memory/memory.limit_in_bytes":       {Data: []byte("9223372036854771712\n")},
		"sys/fs/cgroup/memory/job/memory.limit_in_bytes":   {Data: []byte("1073741824\n")},
		"sys/fs/cgroup/memory/other/memory.limit_in_bytes": {Data: []byte("1\n")},
	})
	if !known || limit != 1<<30 {
		t.Errorf("%d, %t", limit, known)
	}
	if limit, known := memoryLimit(fstest.MapFS{}); known {
		t.Errorf("without control groups: %d", limit)
	}
}
