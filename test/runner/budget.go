package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"datamove.dev/test/level"
)

// What the tests of a package may use, in CPU seconds: user and system, with those of the processes they have waited for. CPU time does not depend on
// the load of a machine as time on the wall does.
const (
	hermeticBudget = 10
	systemBudget   = 60
	raceFactor     = 3.5 // with the race detector
	slack          = 2   // a package that uses more than twice its budget has failed: one commit used 53.6, 58.4 and 71.8 CPU s for one package within three hours of a shared host
)

// budgets are those of packages that need more, with the reason and, where files are in memory, what was measured.
var budgets = map[string]struct {
	seconds float64
	why     string
}{
	"cmd/datamove/root":       {13, "25 scripts, each of many processes: 11"},
	"cmd/datamoved/daemon":    {17, "services as processes, and a store for copies of an HSM: 14"},
	"mover/coordinator/state": {15, "kills, power cuts and damage, each look a process: 9, and 56 with the race detector"},
	"mover/backend/s3":        {20, "versitygw, parts of 5 MiB, and what an object has beside its bytes: 76 to 92 with the race detector"},
	"mover/coordinator":       {12, "a model of 300 orders of operations: 10"},
	"test/cluster":            {15, "52 sites of agents and workers: 13"},
	"test/simulation/service": {60, "200 worlds of agents, workers and a coordinator: 45"},
	"test/slurm":              {62, "a Slurm and its jobs, most of the time asleep: 37 on a busy machine; it begins first"},
	"test/system/service":     {61, "agents and stores of real processes: 33; it begins early, because it takes two minutes"},
	"tiering/burst/lifecycle": {16, "a burst dies after each kind of effect: 13"},
}

// budget is what a package may use without the race detector.
func budget(folder string) float64 {
	if b, ok := budgets[folder]; ok {
		return b.seconds
	}
	return usualBudget(folder)
}

func usualBudget(folder string) float64 {
	if level.Of(folder) == level.System {
		return systemBudget
	}
	return hermeticBudget
}

// spent is what the test process of a package has used.
type spent struct {
	folder  string
	seconds float64
	race    bool
}

func (s spent) budget() float64 {
	if s.race {
		return raceFactor * budget(s.folder)
	}
	return budget(s.folder)
}

// meter has go test run its test binaries by "run measure", which never takes results from the cache, and collects what they use.
type meter struct {
	file  string // one line for each test process: its directory and its CPU seconds
	root  string // of the module
	self  string
	spent []spent
}

func newMeter() (*meter, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	f, err := os.CreateTemp("", "datamove-cpu-*")
	if err != nil {
		return nil, err
	}
	return &meter{file: f.Name(), root: root, self: self}, f.Close()
}

// flags are those of go test.
func (m *meter) flags() []string {
	return []string{"-exec", fmt.Sprintf("'%s' measure '%s' '%s'", m.self, m.file, m.root)}
}

// collect reads what has been measured since the last time.
func (m *meter) collect(race bool) error {
	text, err := os.ReadFile(m.file)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		dir, number, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		seconds, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return fmt.Errorf("%s: %w", m.file, err)
		}
		folder, err := filepath.Rel(m.root, dir)
		if err != nil {
			return err
		}
		m.spent = append(m.spent, spent{folder, seconds, race})
	}
	return os.Truncate(m.file, 0)
}

// report is the ten packages that use most and the sum, and an error that names those that are over their budgets.
func report(all []spent) (lines []string, over error) {
	slices.SortFunc(all, func(a, b spent) int {
		return cmp.Or(cmp.Compare(b.seconds, a.seconds), cmp.Compare(a.folder, b.folder))
	})
	sum := 0.0
	for i, s := range all {
		sum += s.seconds
		line := fmt.Sprintf("%7.1f CPU s of %5.1f  %s", s.seconds, s.budget(), s.folder)
		if s.race {
			line += " (race)"
		}
		if i < 10 {
			lines = append(lines, line)
		}
		if s.seconds > slack*s.budget() {
			over = errors.Join(over, fmt.Errorf("over twice its budget: %s", strings.TrimSpace(line)))
		}
	}
	return append(lines, fmt.Sprintf("%7.1f CPU s in %d packages", sum, len(all))), over
}

// measure runs a test binary, appends what it has used to the file, and returns its exit code. What it is told by a signal it tells the binary, which
// prints its goroutines when go test asks for them; and the binary does not outlive it. Root is that of the module.
func measure(file, root string, args []string, stdin, stdout, stderr *os.File) int {
	fail := func(err error) int { fmt.Fprintln(stderr, "test/runner measure:", err); return 2 }
	runtime.LockOSThread() // Pdeathsig is about the thread
	defer runtime.UnlockOSThread()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)
	dir, err := os.Getwd()
	if err != nil {
		return fail(err)
	}
	folder, err := filepath.Rel(root, dir)
	if err != nil {
		return fail(err)
	}
	env := os.Environ()
	if level.Of(folder) == level.Hermetic && !level.Disk(folder) {
		env = append(env, inMemory()...)
	}
	cmd, err := start(args, env, stdin, stdout, stderr)
	if err != nil {
		return fail(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // its state says it all
	}()
	for waiting := true; waiting; {
		select {
		case s := <-signals:
			_ = cmd.Process.Signal(s) // it may have ended
		case <-ended:
			waiting = false
		}
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return fail(err)
	}
	state := cmd.ProcessState
	_, err = fmt.Fprintf(f, "%s\t%.3f\n", dir, (state.UserTime() + state.SystemTime()).Seconds()) // one write, of several processes
	if err := errors.Join(err, f.Close()); err != nil {
		return fail(err)
	}
	if status := state.Sys().(syscall.WaitStatus); status.Signaled() {
		fmt.Fprintln(stderr, "signal:", status.Signal())
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// start starts a program that the go tool has just written: where a process that the go tool forks meanwhile has it open for writing still, the kernel
// refuses for a moment (go.dev/issue/22315); the go tool itself does the same.
func start(args, env []string, stdin, stdout, stderr *os.File) (*exec.Cmd, error) {
	for {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, stdin, stdout, stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); !errors.Is(err, syscall.ETXTBSY) {
			return cmd, err
		}
	}
}
