package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
)

// failures is what failed in one package.
type failures struct {
	tests map[string]int // what failed of each test, itself and its subtests
	whole bool           // the package has failed
	final bool           // a panic, a data race: no second run would make it good
}

func (t *tally) in(pkg string) *failures {
	if t.failures[pkg] == nil {
		t.failures[pkg] = &failures{tests: map[string]int{}}
	}
	return t.failures[pkg]
}

// isFinal is whether a line of output tells of what is wrong however seldom it happens.
func isFinal(line string) bool {
	return strings.Contains(line, "WARNING: DATA RACE") || strings.Contains(line, "race detected during execution of test") ||
		strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")
}

// again runs what failed in a module once more, test by test with nothing beside it, and is whether all of it passed.
// Tests of the tree start whole clusters on two cores, and one of 6,000 may have to wait longer than it is patient. A
// test that fails alone too has failed, and so has all if there is more than left tests of that kind: the fault is not
// of one test then. Those that passed are named in the end.
func (t *tally) again(dir string, args []string, stderr io.Writer) bool {
	n := 0
	for _, f := range t.failures {
		if f.whole && (f.final || len(f.tests) == 0) { // none: what was built, or what a package does before and after its tests
			return false
		}
		n += len(f.tests)
	}
	if n == 0 || n > t.left || len(t.held) > 0 { // held is what did not end
		return false
	}
	t.left -= n
	good := true
	for _, pkg := range slices.Sorted(maps.Keys(t.failures)) {
		tests := t.failures[pkg].tests
		for _, test := range slices.Sorted(maps.Keys(tests)) {
			fmt.Fprintf(t.out, "== once more, alone: %s %s\n", pkg, test)
			alone := newTally(t.out, t.verbose)
			err := goTest(dir, append(flagsOf(args), "-count=1", "-run", "^"+test+"$", pkg), alone, stderr)
			if err != nil || alone.passed == 0 || alone.failed+len(alone.skipped)+len(alone.held) > 0 {
				good = false
				continue
			}
			t.failed -= tests[test]
			t.passed += tests[test]
			t.flaky = append(t.flaky, pkg+" "+test)
		}
	}
	return good
}

// exited is whether go test ran to its end, and said that something failed.
func exited(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit)
}

// flagsOf are arguments of go test without the packages, which come last.
func flagsOf(args []string) []string {
	for i, a := range args {
		if strings.HasPrefix(a, "./") || strings.HasPrefix(a, "datamove.dev") {
			return slices.Clone(args[:i])
		}
	}
	return slices.Clone(args)
}
