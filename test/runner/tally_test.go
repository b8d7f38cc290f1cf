package main

import (
	"strings"
	"testing"

	"datamove.dev/test/must"
)

// A recorded run: one test passes, one fails, one is skipped.
const events = `{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Test":"TestGood","Output":"quiet\n"}
{"Action":"pass","Package":"p","Test":"TestGood"}
{"Action":"output","Package":"p","Test":"TestBad","Output":"    p_test.go:9: got 1, want 2\n"}
{"Action":"fail","Package":"p","Test":"TestBad"}
{"Action":"output","Package":"p","Test":"TestRoot","Output":"=== RUN   TestRoot\n"}
{"Action":"output","Package":"p","Test":"TestRoot","Output":"    p_test.go:5: needs root\n"}
{"Action":"output","Package":"p","Test":"TestRoot","Output":"--- SKIP: TestRoot (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestRoot"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p"}
{"ImportPath":"q","Action":"build-output","Output":"q.go:1: syntax error\n"}
{"Action":"skip","Package":"no/tests"}
`

func told(t *testing.T, input string, strict, verbose bool) (string, error) {
	t.Helper()
	var out strings.Builder
	c := &tally{out: &out, verbose: verbose, held: map[testID][]string{}, elsewhere: map[string]int{}}
	must.Do(t, c.read(strings.NewReader(input)))
	err := c.end(strict)
	return out.String(), err
}

func TestTally(t *testing.T) {
	got, err := told(t, events, false, false)
	want := "    p_test.go:9: got 1, want 2\nFAIL\tp\t0.1s\nq.go:1: syntax error\n" +
		"skipped: p TestRoot: p_test.go:5: needs root\n1 passed, 1 failed, 1 skipped\n"
	if got != want || err == nil {
		t.Errorf("got %q, %v\nwant %q and an error", got, err, want)
	}
	if got, _ := told(t, events, false, true); !strings.Contains(got, "quiet\n") || strings.Count(got, "want 2") != 1 {
		t.Errorf("verbose: %q", got)
	}
}

func TestStrict(t *testing.T) {
	one := func(action string) string { return `{"Action":"` + action + `","Package":"p","Test":"T"}` + "\n" }
	notHere := `{"Action":"output","Package":"p","Test":"T","Output":"    x.go:1: not applicable: the place has no links\n"}` + "\n" + one("skip")
	elsewhere := `{"Action":"output","Package":"p","Test":"T","Output":"    x.go:1: elsewhere: make e2e-vm: this kernel has none\n"}` + "\n" + one("skip")
	panicked := `{"Action":"output","Package":"p","Test":"T","Output":"panic: x\n"}`
	for _, c := range []struct {
		name, input string
		strict, bad bool
	}{
		{"all passed", one("pass"), true, false},
		{"a skip is allowed", one("pass") + one("skip"), false, false},
		{"a skip is not allowed", one("pass") + one("skip"), true, true},
		{"what no machine can run is no lack", one("pass") + notHere, true, false},
		{"what another target runs is no lack", one("pass") + elsewhere, true, false},
		{"nothing ran", "", false, true},
		{"a test that never ended has failed", one("pass") + panicked, false, true},
	} {
		if out, err := told(t, c.input, c.strict, false); (err != nil) != c.bad {
			t.Errorf("%s: %v\n%s", c.name, err, out)
		}
	}
}

func TestSplit(t *testing.T) {
	ours, theirs := split([]string{"-modules", ".,a", "-level", "system", "-budget", "print", "-v", "-count=1", "-race", "-v", "./..."})
	if strings.Join(ours, " ") != "-modules .,a -level system -budget print -v" || strings.Join(theirs, " ") != "-count=1 -race -v ./..." {
		t.Errorf("%q, %q", ours, theirs)
	}
}
