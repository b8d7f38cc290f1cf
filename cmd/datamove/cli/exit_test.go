package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"datamove.dev/cmd/datamove/manual"
	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/remedy"
	"datamove.dev/mover/task/convert"
)

// TestEveryKindHasACode fails when mover has a kind of error that codes has not.
//
//safety:9 every kind of error through the table
func TestEveryKindHasACode(t *testing.T) {
	for _, kind := range mover.Kinds() {
		if !slices.ContainsFunc(codes, func(c translation) bool { return errors.Is(kind, c.kind) }) {
			t.Errorf("%v has no exit code", kind)
		}
	}
}

// TestEveryCodeIsExplained: the manual has each exit code.
func TestEveryCodeIsExplained(t *testing.T) {
	for _, code := range gravity {
		if !slices.ContainsFunc(manual.ExitCodes, func(m manual.Entry) bool { return m.Word == strconv.Itoa(code) }) {
			t.Errorf("the manual does not say what %d is", code)
		}
	}
}

//safety:9 with TestEveryKindHasACode
func TestExitCode(t *testing.T) {
	at := func(kind error) error { return &mover.Error{Op: "open", Location: "/x", Name: "a", Err: kind} }
	some := func(kinds ...error) error {
		return &PartialError{Failed: int64(len(kinds)), Err: errors.Join(kinds...)}
	}
	for _, row := range []struct {
		name string
		err  error
		want int
	}{
		{"all there, all verified", nil, 0},
		{"something else", errors.New("?"), 1},
		{"usage", mover.Misusef("no such flag"), 2},
		{"not found", at(fs.ErrNotExist), 3},
		{"denied", at(mover.ErrPermission), 4},
		{"held", at(mover.ErrHeld), 5},
		{"changed underneath", at(mover.ErrChanged), 5},
		{"conflict", at(mover.ErrConflict), 5},
		{"full", at(mover.ErrFull), 7},
		{"--max-delete", at(mover.ErrRefused), 7},
		{"unreachable", at(mover.ErrUnreachable), 8},
		{"verification failed", at(mover.ErrCorrupt), 9},
		{"timed out", at(mover.ErrTimeout), 10},
		{"deadline", context.DeadlineExceeded, 10},
		{"interrupted", fmt.Errorf("copy: %w", context.Canceled), 130},

		{"some not found", some(at(mover.ErrNotExist)), 6},
		{"some unsupported", some(at(mover.ErrUnsupported)), 6},
		{"some, nothing known", some(), 6},
		{"some denied: 4 before 6", some(at(mover.ErrNotExist), at(mover.ErrPermission)), 4},
		{"5 before 4", some(at(mover.ErrPermission), at(mover.ErrChanged)), 5},
		{"7 before 5", some(at(mover.ErrHeld), at(mover.ErrFull)), 7},
		{"9 before 7", some(at(mover.ErrFull), at(mover.ErrCorrupt)), 9},
		{"9 before all", some(mover.Kinds()...), 9},
		{"advice changes no code", Advise(at(mover.ErrPermission), "sudo"), 4},
	} {
		if got := ExitCode(row.err); got != row.want {
			t.Errorf("%s: exit %d, want %d", row.name, got, row.want)
		}
	}
}

// TestGravestDecides: of any two failures the one decides that README says, in this process and where the service says it: 9 before 7, 5, 4, and 6.
//
//safety:9 every pair of kinds of errors, as failures of two items
func TestGravestDecides(t *testing.T) {
	rank := []int{ExitPartial, ExitPermission, ExitConflict, ExitLimit, ExitCorrupt, ExitInterrupted}
	alone := func(kind error) int { return ExitCode(&PartialError{Failed: 1, Err: kind}) }
	for _, a := range mover.Kinds() {
		for _, b := range mover.Kinds() {
			want := max(slices.Index(rank, alone(a)), slices.Index(rank, alone(b)))
			if want < 0 {
				t.Fatalf("%v, %v: exit %d, %d", a, b, alone(a), alone(b))
			}
			gravest := engine.Gravest(a, b)
			if here, there := ExitCode(&PartialError{Failed: 2, Err: gravest}), convert.ExitCode(mover.KindName(gravest), 2); here != rank[want] || there != rank[want] {
				t.Errorf("%v and %v: exit %d, of the service %d, want %d", a, b, here, there, rank[want])
			}
		}
	}
}

// TestRemedyOfTheCode: of two kinds of an error the remedy is that of the one whose exit code it has.
func TestRemedyOfTheCode(t *testing.T) {
	for i, a := range codes {
		for _, b := range codes[i:] {
			if got, want := remedy.About(errors.Join(b.kind, a.kind)), remedy.For(remedy.Case{Kind: a.kind}); got != want {
				t.Errorf("%v and %v: %q, want %q", a.kind, b.kind, got, want)
			}
		}
	}
}

// TestNamesBeginNoLine: each of several errors has a line, and a name begins none.
func TestNamesBeginNoLine(t *testing.T) {
	open := &fs.PathError{Op: "open", Path: "/x\ndatamove: all is well", Err: fs.ErrNotExist}
	link := &os.LinkError{Op: "rename", Old: "a\nb", New: "c", Err: fs.ErrExist}
	var said strings.Builder
	a := App{Err: &said}
	a.explain(&cobra.Command{Use: "do"}, fmt.Errorf("first: %w", Advise(errors.Join(open, errors.New("full"), link), "less")))
	const want = `do: first: open "/x\ndatamove: all is well": file does not exist
do: full
do: rename "a\nb" c: file already exists
try: less
`
	if said.String() != want {
		t.Errorf("%swant\n%s", said.String(), want)
	}
}

// TestCodesAgree compares what the service says with what this process would.
func TestCodesAgree(t *testing.T) {
	for _, kind := range append(mover.Kinds(), errors.New("?")) {
		if got, want := convert.ExitCode(mover.KindName(kind), 0), ExitCode(kind); got != want {
			t.Errorf("%v: the service says %d, and we %d", kind, got, want)
		}
		if got, want := convert.ExitCode(mover.KindName(kind), 1), ExitCode(&PartialError{Failed: 1, Err: kind}); got != want {
			t.Errorf("an item %v: the service says %d, and we %d", kind, got, want)
		}
	}
	for _, c := range append(codes, translation{code: 42}, translation{code: ExitPartial}) {
		if GraverExit(0, c.code) != c.code || GraverExit(c.code, 0) != c.code {
			t.Errorf("%d has no gravity", c.code)
		}
	}
}
