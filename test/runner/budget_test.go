package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"datamove.dev/test/must"
)

// TestMain makes the test binary one that is measured.
func TestMain(m *testing.M) {
	switch os.Getenv("MEASURED") {
	case "burns": // 50 ms of CPU
		for u := (syscall.Rusage{}); u.Utime.Nano() < 50e6; {
			if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
				os.Exit(1)
			}
		}
	case "hangs":
		fmt.Println("hangs")
		_, _ = io.Copy(io.Discard, os.Stdin)
	default:
		os.Exit(m.Run())
	}
}

// measured runs a command by measure, and returns its code, what it has used, and what it said.
func measured(t *testing.T, mode, script string, meanwhile func(said *os.File)) (code int, used []spent, said string) {
	t.Helper()
	t.Setenv("MEASURED", mode)
	self, err := os.Executable()
	must.Do(t, err)
	m, err := newMeter()
	must.Do(t, err)
	defer os.Remove(m.file)
	stdin, held, err := os.Pipe()
	must.Do(t, err)
	defer stdin.Close()
	defer held.Close()
	out, in, err := os.Pipe()
	must.Do(t, err)
	defer out.Close()
	ended := make(chan int)
	go func() {
		code := measure(m.file, m.root, []string{"sh", "-c", script, self}, stdin, in, in)
		in.Close()
		ended <- code
	}()
	meanwhile(out)
	rest, err := io.ReadAll(out)
	must.Do(t, err)
	code = <-ended
	must.Do(t, m.collect(true))
	if err := m.collect(false); err != nil || len(m.spent) != 1 {
		t.Errorf("what was collected is collected again: %+v, %v", m.spent, err)
	}
	return code, m.spent, string(rest)
}

// TestMeasure: codes, signals, and what children of children use, come through.
func TestMeasure(t *testing.T) {
	nothing := func(*os.File) {}
	if code, used, _ := measured(t, "burns", `"$0"; exit 3`, nothing); code != 3 || used[0].seconds < 0.05 || used[0].folder != "." || !used[0].race {
		t.Errorf("a child burns CPU: code %d, %+v", code, used)
	}
	if code, _, said := measured(t, "", `kill -9 $$`, nothing); code != 137 || said != "signal: killed\n" {
		t.Errorf("it is killed: code %d, %q", code, said)
	}
	t.Setenv("TMPDIR", "")
	if _, _, said := measured(t, "", `printf "%s" "$TMPDIR"`, nothing); said != memory(shm) {
		t.Errorf("its files are in %q, and memory is %q", said, memory(shm))
	}
	code, _, said := measured(t, "hangs", `exec "$0"`, func(out *os.File) {
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		must.Do(t, syscall.Kill(os.Getpid(), syscall.SIGQUIT))
	})
	if code != 2 || !strings.Contains(said, "SIGQUIT: quit") || !strings.Contains(said, "goroutine 1 ") { // without frames, if it ran in the runtime just then
		t.Errorf("go test asks for goroutines: code %d, %q", code, said)
	}
}

func TestReport(t *testing.T) {
	all := []spent{{"mover/engine/plan", 21, false}, {"mover/checksum", 1, false}, {"mover/backend/throttle", 16, true}, {"test/crash", 80, false}}
	for i := range 10 {
		all = append(all, spent{fmt.Sprintf("p%d", i), 0.1, false})
	}
	lines, over := report(all)
	if len(lines) != 11 || !strings.Contains(lines[0], "80.0 CPU s of  60.0  test/crash") || !strings.Contains(lines[2], "16.0 CPU s of  35.0  mover/backend/throttle (race)") || strings.TrimSpace(lines[10]) != "119.0 CPU s in 14 packages" {
		t.Errorf("%q", lines)
	}
	if over == nil || over.Error() != "over twice its budget: 21.0 CPU s of  10.0  mover/engine/plan" {
		t.Errorf("over: %v", over)
	}
}

// Each budget is of a package that is there, says why, and is more than it would have without.
func TestBudgets(t *testing.T) {
	for folder, b := range budgets {
		if files, err := filepath.Glob(filepath.Join("../..", folder, "*_test.go")); err != nil || len(files) == 0 {
			t.Errorf("%s has a budget, and no tests: %v", folder, err)
		}
		if usual := usualBudget(folder); b.why == "" || b.seconds <= usual {
			t.Errorf("%s has %g s, %q", folder, b.seconds, b.why)
		}
	}
}
