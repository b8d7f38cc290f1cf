package transfer_test

import (
	"context"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/faulty"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/transfer"
)

// hung is a place with calls for some names that return late, whatever becomes of their context: so the kernel does on a mount with a server
// that is away.
type hung struct {
	mover.Backend
	op   faulty.Op
	at   func(name string) bool
	back <-chan struct{} // is closed when the server is back
}

func (h hung) hangs(op faulty.Op, name string) {
	if op == h.op && h.at(name) {
		<-h.back
	}
}

func (h hung) Open(ctx context.Context, e mover.Entry) (mover.Content, error) {
	h.hangs(faulty.Open, e.Name)
	c, err := h.Backend.Open(ctx, e)
	if err != nil {
		return nil, err
	}
	return hungContent{c, h}, nil
}

func (h hung) Draft(ctx context.Context, e mover.Entry, o mover.Hints) (mover.Draft, error) {
	h.hangs(faulty.Draft, e.Name)
	return h.Backend.Draft(ctx, e, o)
}

func (h hung) Unwrap() any { return h.Backend }

type hungContent struct {
	mover.Content
	hung hung
}

func (c hungContent) Unwrap() any { return c.Content }

func (c hungContent) Range(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	c.hung.hangs(faulty.Read, c.Entry().Name)
	return c.Content.Range(ctx, off, n)
}

// TestHung: a call that does not return, and can not be ended, holds back its own entry only.
func TestHung(t *testing.T) {
	flat := map[string]string{"a": "1", "b": "22", "c": "333", "d": "4444"}
	deep := map[string]string{"d/a": "1", "d/b": "22", "d/c/x": "333", "d/c/y": "4", "d/e": "5", "f": "6"}
	is := func(name string) func(string) bool { return func(n string) bool { return n == name } }
	for name, row := range map[string]struct {
		source, target map[string]string
		from, to       hung
		least          int // files that are there long before the call returns
	}{
		"opening one":            {source: flat, from: hung{op: faulty.Open, at: is("b")}, least: 3},
		"reading one":            {source: flat, from: hung{op: faulty.Read, at: is("b")}, least: 3},
		"reading the first":      {source: flat, from: hung{op: faulty.Read, at: is("a")}, least: 3},
		"reading the last":       {source: flat, from: hung{op: faulty.Read, at: is("d")}, least: 3},
		"drafting one":           {source: flat, to: hung{op: faulty.Draft, at: is("c")}, least: 3},
		"in a new directory":     {source: deep, from: hung{op: faulty.Read, at: is("d/b")}, least: 5},
		"drafting there":         {source: deep, to: hung{op: faulty.Draft, at: is("d/b")}, least: 5},
		"deeper":                 {source: deep, from: hung{op: faulty.Open, at: is("d/c/x")}, least: 5},
		"at the end of it":       {source: deep, from: hung{op: faulty.Read, at: is("d/c/y")}, least: 5},
		"behind a new directory": {source: deep, from: hung{op: faulty.Read, at: is("f")}, least: 5},
		"two":                    {source: deep, from: hung{op: faulty.Read, at: func(n string) bool { return n == "d/b" || n == "d/e" }}, least: 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source, target := mem.NewTree().Files(row.source), mem.NewTree().Files(row.target)
				row.from.Backend, row.to.Backend = mem.New(source, mem.Options{}), mem.New(target, mem.Options{})
				back := make(chan struct{})
				time.AfterFunc(time.Hour, func() { close(back) })
				row.from.back, row.to.back = back, back
				told := &timely{began: time.Now(), at: map[string]time.Duration{}}
				actions := plan.Diff(row.from.Walk(t.Context(), mover.WalkOptions{}), row.to.Walk(t.Context(), mover.WalkOptions{}), plan.Options{})
				var n transfer.Counters
				if err := transfer.Run(t.Context(), row.from, row.to, actions, transfer.Options{By: by, Observer: told, Jobs: 1, Counters: &n}); err != nil {
					t.Fatal(err)
				}
				if n := told.files(row.source, 5*time.Minute); n < row.least {
					t.Errorf("%d files are there while a call hangs, want %d", n, row.least)
				}
				same(t, source, target, mem.Options{})
				var size int64
				for _, content := range row.source {
					size += int64(len(content))
				}
				if files, bytes := n.Files.Load(), n.Bytes.Load(); files != int64(len(row.source)) || bytes != size {
					t.Errorf("counted %d files of %d bytes, want %d of %d", files, bytes, len(row.source), size)
				}
				if name, _ := n.InWork.Oldest(); name != "" {
					t.Errorf("%q is in work still", name)
				}
			})
		})
	}
}

// TestHungIsTold: the name that is in work for the longest time is that of the call.
func TestHungIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := mem.NewTree()
		for i := range 100 {
			source.Files(map[string]string{fmt.Sprintf("f%02d", i): "x"})
		}
		back := make(chan struct{})
		time.AfterFunc(time.Hour, func() { close(back) })
		from := hung{mem.New(source, mem.Options{}), faulty.Read, func(n string) bool { return n == "f41" }, back}
		to := mem.New(nil, mem.Options{})
		var n transfer.Counters
		actions := plan.Diff(from.Walk(t.Context(), mover.WalkOptions{}), to.Walk(t.Context(), mover.WalkOptions{}), plan.Options{})
		ended := make(chan error)
		go func() {
			ended <- transfer.Run(t.Context(), from, to, actions, transfer.Options{By: by, Jobs: 1, Counters: &n})
		}()
		time.Sleep(10 * time.Minute)
		if name, age := n.InWork.Oldest(); name != "f41" || age < 9*time.Minute || n.Files.Load() != 99 {
			t.Errorf("%q is in work for %v, and %d files are there", name, age, n.Files.Load())
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestFullBetweenCalls: a batch that finds no room while it finishes a directory, which is between its calls, publishes what it has and goes on.
func TestFullBetweenCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := time.AfterFunc(24*time.Hour, func() { panic("the batch waits for itself") })
		defer hangs.Stop()
		source, target := mem.NewTree().Files(map[string]string{"a": "1", "d/a": "2", "d/b": "3", "e": "4"}), mem.NewTree()
		from := mem.New(source, mem.Options{})
		to := faulty.New(mem.New(target, mem.Options{}), faulty.Options{Script: func(c faulty.Call) faulty.Fault {
			if c.Op == faulty.Finish && c.Name == "d" && c.Nth < 3 {
				return faulty.Full
			}
			return faulty.None
		}})
		actions := plan.Diff(from.Walk(t.Context(), mover.WalkOptions{}), to.Walk(t.Context(), mover.WalkOptions{}), plan.Options{})
		if err := transfer.Run(t.Context(), from, to, actions, transfer.Options{By: by, Jobs: 1}); err != nil {
			t.Error(err)
		}
		same(t, source, target, mem.Options{})
	})
}
