package vm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"datamove.dev/test/must"
	"datamove.dev/test/vm/wire"
)

// TestCommand runs a test binary of a guest so that Replay understands it.
func TestCommand(binary string, args ...string) wire.Command {
	return wire.Command{Args: append([]string{binary, "-test.v=test2json"}, args...), Optional: true}
}

// Replay makes subtests of t of what a test binary said in a guest: each has the
// name and the verdict that it had there, and its output. What was skipped there has
// failed, because a guest is made for its tests: unless a contract said that it does
// not apply, or expected has the test's full name and why it can not run in a guest.
func Replay(t *testing.T, o Outcome, expected map[string]string) {
	t.Helper()
	if !o.Ended {
		t.Errorf("the test binary was not run to its end")
	}
	root := must.Get(verdicts(o.Stdout))(t)
	r := replay{expected, map[string]bool{}}
	r.children(t, root)
	for name := range expected {
		if !r.met[name] {
			t.Errorf("%s was to be skipped, and was not: take it from the list", name)
		}
	}
	if len(root.order) == 0 {
		t.Errorf("no test was run; the binary said:\n%s%s", o.Stdout, o.Stderr)
	}
	if o.Code != 0 && !t.Failed() {
		t.Errorf("exit code %d (%s), and no test failed; the binary said:\n%s%s", o.Code, o.Reason, Tail(o.Stdout), o.Stderr)
	}
}

// verdict is a test as it was in the guest.
type verdict struct {
	name   string // in full
	action string // "" when its end was never told
	output strings.Builder
	order  []string
	below  map[string]*verdict
}

// verdicts reads the output of a test binary, through test2json.
func verdicts(said string) (*verdict, error) {
	cmd := exec.Command("go", "tool", "test2json")
	cmd.Stdin = strings.NewReader(said)
	events, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("test2json: %w", err)
	}
	root := &verdict{below: map[string]*verdict{}}
	decoder := json.NewDecoder(bytes.NewReader(events))
	for decoder.More() {
		var e struct{ Action, Test, Output string }
		if err := decoder.Decode(&e); err != nil {
			return nil, fmt.Errorf("test2json: %w", err)
		}
		v := root.at(e.Test)
		switch e.Action {
		case "output":
			v.output.WriteString(e.Output)
		case "pass", "fail", "skip":
			v.action = e.Action
		}
	}
	return root, nil
}

// at returns the verdict on a test by its full name; "" is the binary's own.
func (v *verdict) at(name string) *verdict {
	if name == "" {
		return v
	}
	full := ""
	for part := range strings.SplitSeq(name, "/") {
		full = strings.TrimPrefix(full+"/"+part, "/")
		next := v.below[part]
		if next == nil {
			next = &verdict{name: full, below: map[string]*verdict{}}
			v.below[part] = next
			v.order = append(v.order, part)
		}
		v = next
	}
	return v
}

type replay struct {
	expected map[string]string
	met      map[string]bool // which of the expected ones were skipped
}

func (r *replay) children(t *testing.T, v *verdict) {
	for _, part := range v.order {
		t.Run(part, func(t *testing.T) {
			r.children(t, v.below[part])
			r.one(t, v.below[part])
		})
	}
}

func (r *replay) one(t *testing.T, v *verdict) {
	said := v.output.String()
	why, expected := r.expected[v.name]
	switch {
	case v.action == "":
		t.Errorf("did not end in the guest:\n%s", said)
	case v.action == "fail":
		t.Errorf("failed in the guest:\n%s", said)
	case v.action == "skip" && expected:
		r.met[v.name] = true
		t.Skipf("not applicable: in a guest: %s", why)
	case v.action == "skip" && strings.Contains(said, ": not applicable: "):
		_, why, _ := strings.Cut(said, ": not applicable: ")
		t.Skipf("not applicable: %s", strings.TrimSpace(why))
	case v.action == "skip":
		t.Errorf("was skipped in the guest, which is made for it:\n%s", said)
	default:
		t.Log(said)
	}
}

// Tail is the end of what a command said, as much of it as anyone reads.
func Tail(s string) string {
	const most = 8000
	if len(s) > most {
		return "..." + s[len(s)-most:]
	}
	return s
}
