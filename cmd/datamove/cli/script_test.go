package cli

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"datamove.dev/cmd/datamoved/daemon"
	"datamove.dev/mover/s3/s3test"
	"datamove.dev/test/image"
	"datamove.dev/test/patience"
	"datamove.dev/tiering/burst/notice/noticetest"
)

// TestMain makes this test binary answer as datamove, too, when a script calls it.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"datamove":  func() { os.Exit(Main("")) },
		"datamoved": func() { os.Exit(daemon.Main("")) },
	})
}

// TestScripts runs test/script/*.txt, which read as a manual. Each has a home and a
// working folder of its own, and no AWS environment.
func TestScripts(t *testing.T) { scripts(t, "", nil) }

// TestBurstScript runs test/script/burst.txt with a stand-in for AWS, which is a fake, and a real S3 store behind it.
func TestBurstScript(t *testing.T) {
	store := s3test.Start(t, false)
	scripts(t, burstScript, func(env *testscript.Env) { standsIn(env, store) })
}

// burstScript is one of the scripts in the folder itself that needs more than they do.
const burstScript = "burst.txt"

// TestS3Scripts runs test/script/s3/*.txt with a real S3 server behind the AWS
// environment. $BUCKET is a prefix of the script's own.
func TestS3Scripts(t *testing.T) {
	server := s3test.Start(t, true)
	scripts(t, "s3", func(env *testscript.Env) {
		env.Setenv("AWS_ENDPOINT_URL_S3", server.Endpoint)
		env.Setenv("AWS_ACCESS_KEY_ID", server.Access)
		env.Setenv("AWS_SECRET_ACCESS_KEY", server.Secret)
		env.Setenv("AWS_CA_BUNDLE", server.CA)
		env.Setenv("BUCKET", "s3://"+server.Bucket+"/"+filepath.Base(env.WorkDir))
	})
}

// TestAWSScripts runs test/script/aws/*.txt, where AWS is reached as users reach it: no endpoint is named, names of amazonaws.com lead to a real S3
// server by a proxy, and keys are where a script puts them. asked NAME... wants just these names to have been asked for since the last time.
func TestAWSScripts(t *testing.T) {
	amazon := s3test.StartAmazon(t)
	scripts(t, "aws", func(env *testscript.Env) {
		proxy := amazon.Proxy()
		env.Defer(proxy.Close)
		for name, value := range map[string]string{
			"HTTPS_PROXY": proxy.URL, "AWS_CA_BUNDLE": amazon.CA, "KEY": amazon.Access, "SECRET": amazon.Secret, "BUCKET": amazon.Bucket, "ENDPOINT": amazon.Endpoint,
			"ROLE": s3test.Role, "SERVICE": "unix://" + filepath.Join(env.WorkDir, "s"), "USER": "ada",
		} {
			env.Setenv(name, value)
		}
		env.Values[proxyKey{}] = proxy
	})
}

type proxyKey struct{}

// asked is a command of scripts; see TestAWSScripts.
func asked(ts *testscript.TestScript, negated bool, names []string) {
	proxy, ok := ts.Value(proxyKey{}).(*s3test.Proxy)
	if !ok || negated {
		ts.Fatalf("usage: asked name..., in a script of TestAWSScripts")
	}
	if got := proxy.Asked(); !slices.Equal(got, names) {
		ts.Fatalf("asked for %q, want %q", got, names)
	}
}

// TestServiceScripts runs test/script/service/*.txt with a real datamoved, which each
// script starts at $SERVICE, with the configuration service.yaml of its own.
func TestServiceScripts(t *testing.T) {
	store := s3test.Start(t, false)
	scripts(t, "service", func(env *testscript.Env) {
		standsIn(env, store) // of burst-service.txt
		env.Setenv("SERVICE", "unix://"+filepath.Join(env.WorkDir, "s"))
		env.Setenv("DATAMOVE_SERVICE", env.Getenv("SERVICE"))
		env.Setenv("USER", "ada")
	})
}

// TestBtrfsScripts runs test/script/btrfs/*.txt with a btrfs of their own at $BTRFS.
func TestBtrfsScripts(t *testing.T) {
	btrfs := image.Mount(t, image.Spec{Type: "btrfs", Make: []string{"-q"}})
	scripts(t, "btrfs", func(env *testscript.Env) { env.Setenv("BTRFS", btrfs) })
}

func scripts(t *testing.T, dir string, setup func(*testscript.Env)) {
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "test", "script", dir, "*.txt"))
	if strings.HasSuffix(dir, ".txt") {
		files = []string{filepath.Join("..", "..", "..", "test", "script", dir)}
	}
	files = slices.DeleteFunc(files, func(file string) bool { return dir == "" && filepath.Base(file) == burstScript })
	if err != nil || len(files) == 0 {
		t.Fatalf("there is no script in %q: %v", dir, err)
	}
	testscript.Run(t, testscript.Params{
		Files:               files,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", filepath.Join(env.WorkDir, ".home"))
			env.Setenv("NO_COLOR", "1")
			env.Setenv("GORACE", os.Getenv("GORACE"))
			env.Setenv("AWS_EC2_METADATA_DISABLED", "true")                                       // the host of the tests is nobody's business
			env.Setenv("JOBUID", jobUID())                                                        // whose Slurm's jobs are
			env.Defer(func() { _ = exec.Command("chattr", "-R", "-f", "-i", env.WorkDir).Run() }) // what is staged is sealed
			deploy, err := filepath.Abs(filepath.Join("..", "..", "..", "deploy"))
			if err != nil {
				return err
			}
			env.Setenv("DEPLOY", deploy) // what sites install
			if setup != nil {
				setup(env)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "until": until, "ec2": ec2, "aws": inAWS, "asked": asked},
		Condition: func(what string) (bool, error) {
			if what != "root" {
				return false, fmt.Errorf("there is no condition %s", what)
			}
			return os.Getuid() == 0, nil
		},
	})
}

// jobUID is somebody who is not root, and whose files these tests can make.
func jobUID() string {
	if os.Getuid() == 0 {
		return "65534"
	}
	return strconv.Itoa(os.Getuid())
}

// exits is a command of scripts: exits N PROGRAM [ARG...] runs a program that must
// end with the exit code N.
func exits(ts *testscript.TestScript, negated bool, args []string) {
	if negated || len(args) < 2 {
		ts.Fatalf("usage: exits N program [args...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
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

// until is a command of scripts: until PROGRAM [ARG...] runs a program again and again,
// until it ends well.
func until(ts *testscript.TestScript, negated bool, args []string) {
	if negated || len(args) == 0 {
		ts.Fatalf("usage: until program [args...]")
	}
	if !patience.While(patience.New(nil), func() bool { return ts.Exec(args[0], args[1:]...) == nil }) {
		ts.Fatalf("it does not come to that")
	}
}
