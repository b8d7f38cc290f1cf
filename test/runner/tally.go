package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// event is one line of go test -json; see "go doc test2json".
type event struct {
	Action, Package, Test, Output, ImportPath string
}

type testID struct{ pkg, test string }

// tally counts what became of tests. Output is held back per test until it is
// known whether anyone wants to see it.
type tally struct {
	out     io.Writer
	verbose bool

	passed, failed int
	skipped        []string // "package Test: reason"
	inapplicable   int
	elsewhere      map[string]int // tests that run elsewhere, by where
	notes          []string       // about the whole run
	held           map[testID][]string
	meter          *meter // nil where CPU time is not measured
}

func (t *tally) read(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(t.out, lines.Text()) // what is not an event is for people
			continue
		}
		t.note(e)
	}
	return lines.Err()
}

func (t *tally) note(e event) {
	id := testID{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(t.out, e.Output)
	case "output":
		t.output(id, e.Output)
	case "pass", "fail", "skip":
		t.outcome(id, e.Action)
	}
}

func (t *tally) output(id testID, text string) {
	switch {
	case t.verbose:
		fmt.Fprint(t.out, text)
		fallthrough
	case id.test != "":
		t.held[id] = append(t.held[id], text)
	case text != "PASS\n": // the package's own line, and a panic's output
		fmt.Fprint(t.out, text)
	}
}

func (t *tally) outcome(id testID, action string) {
	held := t.held[id]
	delete(t.held, id)
	if id.test == "" {
		return // of a whole package: its tests were counted
	}
	switch action {
	case "pass":
		t.passed++
	case "fail":
		t.failed++
		if !t.verbose {
			fmt.Fprint(t.out, strings.Join(held, ""))
		}
	case "skip":
		why := reason(held)
		if strings.Contains(why, inapplicable) {
			t.inapplicable++
			return
		}
		if _, where, ok := strings.Cut(why, elsewhere); ok {
			where, _, _ = strings.Cut(where, ": ")
			t.elsewhere[where]++
			return
		}
		t.skipped = append(t.skipped, fmt.Sprintf("%s %s: %s", id.pkg, id.test, why))
	}
}

// inapplicable begins the reason of a test that no machine could run: a contract
// suite asks a place for what this kind of place does not have. It is counted, and
// no lack.
const inapplicable = ": not applicable: "

// elsewhere begins the reason of a test that this kind of machine can not run, and that
// another target runs: what follows is its name, a colon, and what it needs. It is counted,
// and no lack: there a skip is a failure.
const elsewhere = ": elsewhere: "

// reason is what a test said before it skipped.
func reason(output []string) string {
	var said []string
	for _, line := range output {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			said = append(said, line)
		}
	}
	if len(said) == 0 {
		return "no reason given"
	}
	return strings.Join(said, " ")
}

// end prints the skips and the sum. Tests whose end was never told were cut off by
// a panic or a timeout: their output is shown, and they have failed.
func (t *tally) end(strict bool) error {
	for id, held := range t.held {
		if id.test != "" {
			t.failed++
			fmt.Fprintf(t.out, "%s %s did not end:\n%s", id.pkg, id.test, strings.Join(held, ""))
		}
	}
	for _, s := range t.skipped {
		fmt.Fprintln(t.out, "skipped:", s)
	}
	if t.inapplicable > 0 {
		fmt.Fprintf(t.out, "%d tests of a contract are not applicable\n", t.inapplicable)
	}
	for _, where := range slices.Sorted(maps.Keys(t.elsewhere)) {
		fmt.Fprintf(t.out, "%d tests run elsewhere: %s\n", t.elsewhere[where], where)
	}
	for _, note := range t.notes {
		fmt.Fprintln(t.out, note)
	}
	fmt.Fprintf(t.out, "%d passed, %d failed, %d skipped\n", t.passed, t.failed, len(t.skipped))
	switch {
	case t.failed > 0:
		return fmt.Errorf("%d tests failed", t.failed)
	case strict && len(t.skipped) > 0:
		return fmt.Errorf("%d tests were skipped, and DATAMOVE_STRICT=1 wants all of them", len(t.skipped))
	case t.passed == 0:
		return errors.New("no test was run")
	}
	return nil
}
