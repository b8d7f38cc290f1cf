package daemon

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"datamove.dev/api"
)

// TestScripts runs test/script/datamoved/*.txt, which read as a manual of the service.
// Each has a home and a working folder of its own.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("..", "..", "..", "test", "script", "datamoved"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", filepath.Join(env.WorkDir, ".home"))
			env.Setenv("GORACE", os.Getenv("GORACE"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exitsWith, "answers": answers},
	})
}

// exitsWith is a command of scripts: exits N PROGRAM [ARG...] runs a program that must
// end with the exit code N.
func exitsWith(ts *testscript.TestScript, negated bool, args []string) {
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

// answers is a command of scripts: answers SOCKET waits until a service does.
func answers(ts *testscript.TestScript, negated bool, args []string) {
	if negated || len(args) != 1 {
		ts.Fatalf("usage: answers socket")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		c, err := api.Dial(ctx, "unix://"+ts.MkAbs(args[0]), api.Options{})
		if err == nil {
			ts.Check(c.Close())
			return
		}
		if ctx.Err() != nil {
			ts.Fatalf("%v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
