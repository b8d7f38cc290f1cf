// Package script runs the scripts of this folder, which read as a manual of the commands: those that need nothing else beside cmd/datamove/root, those of a
// service in cmd/datamoved/daemon, and those with servers in test/system/cli. The commands are the test binary (testscript.Main).
package script

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/test/must"
	"datamove.dev/test/patience"
)

// Commands are what scripts may call beside programs.
type Commands map[string]func(ts *testscript.TestScript, negated bool, args []string)

// GC is what the commands set themselves, but from the start of a process on: to collect what their packages have made until then is a quarter of what a short one uses.
const GC = "GOGC=400"

// Run runs the scripts of a pattern, which is one of paths below this folder, but those that are named. A script has a home and a working folder of its own, and
// no AWS environment; setup may add to it, and nil adds nothing. A package of tests is three folders below the module's root.
func Run(t *testing.T, pattern string, setup func(*testscript.Env), more Commands, but ...string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "test", "script", pattern))
	files = slices.DeleteFunc(files, func(file string) bool { return slices.Contains(but, filepath.Base(file)) })
	if err != nil || len(files) == 0 {
		t.Fatalf("there is no script %q: %v", pattern, err)
	}
	deploy, err := filepath.Abs(filepath.Join("..", "..", "..", "deploy"))
	must.Do(t, err)
	commands := map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "until": until}
	for name, command := range more {
		commands[name] = command
	}
	testscript.Run(t, testscript.Params{
		Files:               files,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", filepath.Join(env.WorkDir, ".home"))
			env.Setenv("NO_COLOR", "1")
			env.Setenv("GORACE", os.Getenv("GORACE"))
			env.Vars = append(env.Vars, GC)
			for name, value := range s3test.NoAuthorities {
				env.Setenv(name, value)
			}
			env.Setenv("AWS_EC2_METADATA_DISABLED", "true")                                       // the host of the tests is nobody's business
			env.Setenv("JOBUID", jobUID())                                                        // whose Slurm's jobs are
			env.Setenv("DEPLOY", deploy)                                                          // what sites install
			env.Defer(func() { _ = exec.Command("chattr", "-R", "-f", "-i", env.WorkDir).Run() }) // what is staged is sealed
			if setup != nil {
				setup(env)
			}
			return nil
		},
		Cmds: commands,
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
