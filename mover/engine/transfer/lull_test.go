package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/faulty"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/transfer"
)

// sleepy is a source with a listing that stands still before one name.
type sleepy struct {
	mover.Source
	before string
	still  time.Duration
}

func (s sleepy) Walk(ctx context.Context, o mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		for e, err := range s.Source.Walk(ctx, o) {
			if e.Name == s.before {
				time.Sleep(s.still)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// TestLull: what was listed before a listing stands still is moved meanwhile, and the rest as ever.
func TestLull(t *testing.T) {
	const still = 5 * time.Minute
	for name, row := range map[string]struct {
		source, target map[string]string
		before         string
		drafts         bool
		least          int // of what was listed before
	}{
		"in the root":                    {source: map[string]string{"a": "1", "b": "22", "c": "333", "d": "4"}, before: "d", least: 3},
		"in a new directory":             {source: map[string]string{"a/b": "1", "a/c/d": "2", "a/c/e": "3", "f": "4"}, before: "a/c/e", drafts: true, least: 2},
		"in a directory that is there":   {source: map[string]string{"a/b": "1", "a/c": "2", "a/d": "3"}, target: map[string]string{"a/b": "00", "a/x": "9"}, before: "a/d", drafts: true, least: 2},
		"before anything":                {source: map[string]string{"a": "1"}, before: "a"},
		"behind a file for a directory":  {source: map[string]string{"a": "1", "b": "2", "c": "3"}, target: map[string]string{"a/x": "9"}, before: "c", least: 1},
		"behind a directory for a file":  {source: map[string]string{"a/x": "1", "b": "2", "c": "3"}, target: map[string]string{"a": "9"}, before: "c", drafts: true, least: 2},
		"at the end of a directory tree": {source: map[string]string{"a/b/c/d": "1", "e": "2"}, before: "e", drafts: true, least: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source, target := mem.NewTree().Files(row.source), mem.NewTree().Files(row.target)
				from := sleepy{mem.New(source, mem.Options{}), row.before, still}
				to := mem.New(target, mem.Options{Adjust: func(t *mover.Capabilities) { t.DirDrafts = row.drafts }})
				o := plan.Options{Delete: true}
				told := &timely{began: time.Now(), at: map[string]time.Duration{}}
				actions := plan.Diff(from.Walk(t.Context(), mover.WalkOptions{}), to.Walk(t.Context(), mover.WalkOptions{}), o)
				if err := transfer.Run(t.Context(), from, to, actions, transfer.Options{By: by, Observer: told, Plan: o, Jobs: 1}); err != nil {
					t.Fatal(err)
				}
				if n := told.files(row.source, 30*time.Second); n < row.least {
					t.Errorf("%d files are there while the listing stands still, want %d", n, row.least)
				}
				same(t, source, target, mem.Options{})
			})
		})
	}
}

// TestFaultInALull: a fault of the target while a listing stands still ends the run: nothing that is listed later is moved.
func TestFaultInALull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := map[string]string{"a/b": "1", "a/c": "2"}
		for i := range 5000 { // more than the queue takes
			files[fmt.Sprintf("b%04d", i)] = "3"
		}
		target := mem.NewTree()
		from := sleepy{mem.New(mem.NewTree().Files(files), mem.Options{}), "a/c", time.Minute}
		to := faulty.New(mem.New(target, mem.Options{}), faulty.Options{Script: func(c faulty.Call) faulty.Fault {
			if c.Op == faulty.Mkdir && c.Nth == 0 {
				return faulty.Unreachable
			}
			return faulty.None
		}})
		actions := plan.Diff(from.Walk(t.Context(), mover.WalkOptions{}), to.Walk(t.Context(), mover.WalkOptions{}), plan.Options{})
		if err := transfer.Run(t.Context(), from, to, actions, transfer.Options{By: by, Jobs: 1}); !errors.Is(err, mover.ErrUnreachable) {
			t.Errorf("the run ended with %v", err)
		}
		same(t, mem.NewTree(), target, mem.Options{})
	})
}

// files counts the names of want that were there after so long.
func (o *timely) files(want map[string]string, within time.Duration) (n int) {
	for _, name := range o.by(within) {
		if _, ok := want[name]; ok {
			n++
		}
	}
	return n
}
