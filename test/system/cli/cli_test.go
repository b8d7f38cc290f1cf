// Package cli has the tests of the command datamove that need what a process has not by itself: a service, an S3 server, what stands in for AWS, and file systems
// that are mounted for them. All that needs none of these is in cmd/datamove/root.
package cli

import (
	"bytes"
	"flag"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"datamove.dev/cmd/datamove/root"
	"datamove.dev/cmd/datamoved/daemon"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/test/casefold"
	"datamove.dev/test/loopfs"
	"datamove.dev/test/must"
	"datamove.dev/test/patience"
	"datamove.dev/test/script"
	"datamove.dev/tiering/burst/spotnotice/noticetest"
)

// TestMain makes this test binary answer as the commands, too.
func TestMain(m *testing.M) {
	testscript.Main(wide{m}, map[string]func(){
		"datamove":  func() { os.Exit(root.Main("")) },
		"datamoved": func() { os.Exit(daemon.Main("")) },
	})
}

// wide runs more tests at once than there are processors: most of what scripts do is to wait for a service.
type wide struct{ *testing.M }

func (m wide) Run() int {
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	return m.M.Run()
}

// TestScripts runs the scripts that need a server, all at once.
func TestScripts(t *testing.T) {
	store, another, encrypted, amazon := s3test.Start(t, false), s3test.Start(t, false), s3test.Start(t, true), s3test.StartAmazon(t)
	for name, group := range map[string]struct {
		pattern string
		setup   func(*testscript.Env)
	}{
		"burst":   {"burst.txt", func(env *testscript.Env) { standsIn(env, another) }}, // whose names are those of burst-service.txt
		"service": {"service/*.txt", func(env *testscript.Env) { withService(env, store) }},
		"s3":      {"s3/*.txt", func(env *testscript.Env) { withStore(env, encrypted) }},
		"aws":     {"aws/*.txt", func(env *testscript.Env) { withAmazon(env, amazon) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runs(t, group.pattern, group.setup)
		})
	}
}

// TestBtrfs runs test/script/btrfs/*.txt with a btrfs of their own at $BTRFS.
func TestBtrfs(t *testing.T) {
	t.Parallel()
	btrfs := loopfs.Mount(t, loopfs.Spec{Type: "btrfs", Make: []string{"-q"}})
	runs(t, "btrfs/*.txt", func(env *testscript.Env) { env.Setenv("BTRFS", btrfs) })
}

// TestCoarse runs test/script/coarse/*.txt with a file system that keeps whole seconds at $COARSE: ext4 whose inodes have no room for more.
func TestCoarse(t *testing.T) {
	coarse, store := loopfs.Mount(t, loopfs.Spec{Type: "ext4", Make: []string{"-q", "-I", "128"}}), s3test.Start(t, false)
	runs(t, "coarse/*.txt", func(env *testscript.Env) {
		withStore(env, store)
		env.Setenv("COARSE", coarse)
	})
}

// TestCasefold runs test/script/casefold/*.txt with a file system that compares names without case at $FOLDED.
func TestCasefold(t *testing.T) {
	t.Parallel()
	folded := casefold.Mount(t)
	runs(t, "casefold/*.txt", func(env *testscript.Env) { env.Setenv("FOLDED", folded) })
}

// TestReads runs test/script/reads/*.txt with file systems at $RELATIME and $NOATIME that are mounted so.
func TestReads(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root mounts what scripts need")
	}
	mount := func(flag uintptr) string {
		dir := t.TempDir()
		must.Do(t, unix.Mount("none", dir, "tmpfs", flag, "size=8m"))
		t.Cleanup(func() { must.Do(t, unix.Unmount(dir, unix.MNT_DETACH)) })
		return dir
	}
	relatime, noatime := mount(unix.MS_RELATIME), mount(unix.MS_NOATIME)
	store := s3test.Start(t, false)
	runs(t, "reads/*.txt", func(env *testscript.Env) {
		withService(env, store)
		env.Setenv("RELATIME", relatime)
		env.Setenv("NOATIME", noatime)
	})
}

// TestMounts runs test/script/mounts/*.txt, of which each command has mounts of its own.
func TestMounts(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root mounts what scripts need")
	}
	runs(t, "mounts/*.txt", nil)
}

// runs runs the scripts of a pattern.
func runs(t *testing.T, pattern string, setup func(*testscript.Env)) {
	t.Helper()
	script.Run(t, pattern, setup, script.Commands{"ec2": ec2, "aws": inAWS, "asked": asked, "ready": ready, "rawkey": rawKey})
}

// withStore has a real S3 server behind the AWS environment. $BUCKET is a prefix of the script's own.
func withStore(env *testscript.Env, server *s3test.Server) {
	env.Setenv("AWS_ENDPOINT_URL_S3", server.Endpoint)
	env.Setenv("AWS_ACCESS_KEY_ID", server.Access)
	env.Setenv("AWS_SECRET_ACCESS_KEY", server.Secret)
	env.Setenv("AWS_CA_BUNDLE", server.CA)
	env.Setenv("BUCKET", "s3://"+server.Bucket+"/"+filepath.Base(env.WorkDir))
}

// withService has a script start a real datamoved at $SERVICE, with the configuration service.yaml of its own.
func withService(env *testscript.Env, store *s3test.Server) {
	standsIn(env, store) // of burst-service.txt
	env.Setenv("SERVICE", "unix://"+filepath.Join(env.WorkDir, "s"))
	env.Setenv("DATAMOVE_SERVICE", env.Getenv("SERVICE"))
	env.Setenv("USER", "ada")
}

// withAmazon has AWS reached as users reach it: no endpoint is named, names of amazonaws.com lead to a real S3 server by a proxy, and keys are where a script
// puts them. asked NAME... wants just these names to have been asked for since the last time.
func withAmazon(env *testscript.Env, amazon *s3test.Amazon) {
	proxy := amazon.Proxy()
	env.Defer(proxy.Close)
	for name, value := range map[string]string{
		"HTTPS_PROXY": proxy.URL, "AWS_CA_BUNDLE": amazon.CA, "KEY": amazon.Access, "SECRET": amazon.Secret, "BUCKET": amazon.Bucket, "ENDPOINT": amazon.Endpoint,
		"ROLE": s3test.Role, "SERVICE": "unix://" + filepath.Join(env.WorkDir, "s"), "USER": "ada",
	} {
		env.Setenv(name, value)
	}
	env.Values[proxyKey{}] = proxy
}

type proxyKey struct{}

// ready is a command of scripts: it waits until the service has an agent that is ready, and starts no process for that.
func ready(ts *testscript.TestScript, negated bool, args []string) {
	if negated || len(args) > 0 {
		ts.Fatalf("usage: ready")
	}
	if !patience.While(patience.New(nil), func() bool { return isReady(ts.Getenv("SERVICE")) }) {
		ts.Fatalf("no agent is ready")
	}
}

// asked is a command of scripts; see withAmazon.
func asked(ts *testscript.TestScript, negated bool, names []string) {
	proxy, ok := ts.Value(proxyKey{}).(*s3test.Proxy)
	if !ok || negated {
		ts.Fatalf("usage: asked name..., in a script of test/script/aws")
	}
	if got := proxy.Asked(); !slices.Equal(got, names) {
		ts.Fatalf("asked for %q, want %q", got, names)
	}
}

// ec2 is a command of scripts: ec2 begins a metadata service of an instance, ec2 ITEM TEXT has it say something, and ec2 ITEM TEXT TIME with the
// time that is so far ahead in place of TIME.
func ec2(ts *testscript.TestScript, negated bool, args []string) {
	if negated || len(args) == 1 || len(args) > 3 {
		ts.Fatalf("usage: ec2 [item text [time]]")
	}
	if len(args) == 0 {
		service := &noticetest.Server{}
		server := httptest.NewServer(service)
		ts.Defer(server.Close)
		ec2s.Store(ts.Getenv("WORK"), service)
		ts.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.URL)
		ts.Setenv("AWS_EC2_METADATA_DISABLED", "false")
		return
	}
	service, begun := ec2s.Load(ts.Getenv("WORK"))
	if !begun {
		ts.Fatalf("no metadata service was begun")
	}
	text := args[1]
	if len(args) == 3 {
		ahead, err := time.ParseDuration(args[2])
		ts.Check(err)
		text = strings.ReplaceAll(text, "TIME", time.Now().Add(ahead).UTC().Format(time.RFC3339))
	}
	service.(*noticetest.Server).Set(args[0], text)
}

// ec2s are the metadata services of scripts, by their folders.
var ec2s sync.Map

// said is what a command printed, and how it ended.
type said struct {
	out, err string
	code     int
}

// ended is what a command printed that is run to its end.
func ended(command *exec.Cmd) said {
	var out, err bytes.Buffer
	command.Stdout, command.Stderr = &out, &err
	_ = command.Run() // the code tells
	return said{out.String(), err.String(), command.ProcessState.ExitCode()}
}

// wants checks what was said: the exit code, and expressions that some line matches.
func (s said) wants(t *testing.T, code int, lines ...string) {
	t.Helper()
	if s.code != code {
		t.Errorf("exit %d, want %d", s.code, code)
	}
	for _, line := range lines {
		if !regexp.MustCompile("(?m)" + line).MatchString(s.out + s.err) {
			t.Errorf("no line is %s", line)
		}
	}
	if t.Failed() {
		t.Fatalf("stdout:\n%s\nstderr:\n%s", s.out, s.err)
	}
}
