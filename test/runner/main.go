// Command run runs go test and tells the truth at the end: how many tests passed,
// failed and were skipped, and why each of the skipped ones was.
//
//	go run ./test/runner [-level hermetic|system] [-race] [-budget print|fail] [-modules .,test/s3dev] [-v] [arguments of go test]
//
// It prints what go test prints: one line per package, and the output of what
// failed. With -level the packages are those of one level (package level), with
// the race detector, where -race asks for it and the machine has gcc, for those
// that start goroutines. With -budget it runs all of them anew, and prints which
// used the most CPU time; with -budget fail, a package that is far over its budget
// (budget.go) has failed. The files of hermetic packages are in memory, where there is
// room (memory.go). With DATAMOVE_STRICT=1 a skipped test is a failure,
// because a machine that should run everything does. What another target runs
// ("elsewhere: make e2e-vm: ...") is counted apart.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"datamove.dev/test/level"
)

func main() {
	if len(os.Args) > 4 && os.Args[1] == "measure" { // by go test -exec
		os.Exit(measure(os.Args[2], os.Args[3], os.Args[4:], os.Stdin, os.Stdout, os.Stderr))
	}
	if err := run(os.Args[1:], os.Getenv("DATAMOVE_STRICT") == "1", os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "test/runner:", err)
		os.Exit(1)
	}
}

func run(args []string, strict bool, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	modules := flags.String("modules", ".", "folders of the modules to test, separated by commas")
	of := flags.String("level", "", "run the packages of this level: hermetic or system")
	race := flags.Bool("race", false, "with the race detector, where it can find something")
	budget := flags.String("budget", "", "print which packages use the most CPU time, or fail those that are over their budgets")
	verbose := flags.Bool("v", false, "print the output of every test")
	ours, theirs := split(args)
	if err := flags.Parse(ours); err != nil {
		return err
	}
	t := &tally{out: stdout, verbose: *verbose, held: map[testID][]string{}, elsewhere: map[string]int{}}
	var failed error
	if *budget != "" {
		if *budget != "print" && *budget != "fail" {
			return fmt.Errorf("-budget is print or fail, and not %q", *budget)
		}
		m, err := newMeter()
		if err != nil {
			return err
		}
		defer os.Remove(m.file)
		t.meter = m
	}
	for dir := range strings.SplitSeq(*modules, ",") {
		if *of != "" {
			failed = errors.Join(failed, oneLevel(dir, level.Level(*of), *race, theirs, t, stderr))
		} else {
			failed = errors.Join(failed, goTest(dir, theirs, nil, t, stderr))
		}
	}
	if t.meter != nil {
		lines, over := report(t.meter.spent)
		t.notes = append(t.notes, lines...)
		if *budget == "fail" {
			failed = errors.Join(failed, over)
		} else if over != nil {
			t.notes = append(t.notes, over.Error())
		}
	}
	return errors.Join(failed, t.end(strict))
}

// oneLevel runs the packages of a level, and has the tally tell what it left out.
func oneLevel(dir string, of level.Level, race bool, args []string, t *tally, stderr io.Writer) error {
	all, err := list(dir)
	if err != nil {
		return err
	}
	if _, err := exec.LookPath("gcc"); race && err != nil {
		t.notes = append(t.notes, "without the race detector: there is no gcc")
		race = false
	}
	batches, others, err := plan(of, all, race, t.meter != nil) // measuring is running
	if err != nil {
		return err
	}
	if of == level.Hermetic && others > 0 {
		t.notes = append(t.notes, fmt.Sprintf("make system and make soak run %d more packages", others))
	}
	var failed error
	files := inMemory()
	for _, b := range batches {
		flags, env := args, []string(nil)
		if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
			env = append(env, "GOGC=400") // heaps of tests are small, and those of the programs that they start: collecting them is a quarter of the time
		}
		if b.race {
			flags, env = append([]string{"-race"}, flags...), append(env, "CGO_ENABLED=1", "GORACE=atexit_sleep_ms=10") // a second for each process, unless it is told
		}
		if b.memory {
			env = append(env, files...)
		}
		if b.fresh {
			flags = append([]string{"-count=1"}, flags...)
		}
		failed = errors.Join(failed, goTest(dir, append(slices.Clone(flags), b.packages...), env, t, stderr))
	}
	return failed
}

// split parts our flags from those of go test: ours come first, and each names itself.
func split(args []string) (ours, theirs []string) {
	for len(args) > 0 {
		switch {
		case args[0] == "-v", args[0] == "-race":
			ours, args = append(ours, args[0]), args[1:]
		case (args[0] == "-modules" || args[0] == "-level" || args[0] == "-budget") && len(args) > 1:
			ours, args = append(ours, args[:2]...), args[2:]
		default:
			return ours, args
		}
	}
	return ours, nil
}

func goTest(dir string, args, env []string, t *tally, stderr io.Writer) error {
	flags := []string{"test", "-json"}
	if t.meter != nil {
		flags = append(flags, t.meter.flags()...)
	}
	cmd := exec.Command("go", append(flags, args...)...)
	cmd.Dir, cmd.Stderr, cmd.Env = dir, stderr, append(os.Environ(), env...)
	events, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	readErr := t.read(events)
	err = cmd.Wait()
	if t.meter != nil {
		readErr = errors.Join(readErr, t.meter.collect(slices.Contains(args, "-race")))
	}
	if err != nil {
		return fmt.Errorf("go test in %s: %w", dir, err)
	}
	return readErr
}
