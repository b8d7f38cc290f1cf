package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/faulty"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/location"
	"datamove.dev/test/must"
)

// items is an Observer of what was done, in order.
type items struct {
	mu  sync.Mutex
	all []string
}

func (*items) State(Phase, string) {}
func (i *items) Item(it Item) {
	i.mu.Lock()
	defer i.mu.Unlock()
	text := it.Op.String() + " " + it.Name
	if it.Err != nil {
		text = "failed " + it.Name
	}
	i.all = append(i.all, text)
}

// TestDeleteFirst: removals come before all else where that was asked for, and not at all where something is not known, or a limit says no.
func TestDeleteFirst(t *testing.T) {
	listing := func(c faulty.Call) faulty.Fault {
		if c.Op == faulty.List && c.Name == "d" {
			return faulty.Denied
		}
		return faulty.None
	}
	for _, row := range []struct {
		name  string
		fault func(faulty.Call) faulty.Fault // of the source
		most  int64
		want  []string
		err   error
	}{
		{"all is known", nil, 2, []string{"remove dir/extra", "remove dir", "create d/new"}, nil},
		{"not all of the source is known", listing, 2, []string{"failed d", "failed dir", "failed dir/extra"}, mover.ErrPermission},
		{"more than may go", nil, 1, []string{"create d/new"}, mover.ErrRefused},
	} {
		t.Run(row.name, func(t *testing.T) {
			source, target := mem.NewTree().Files(map[string]string{"d/new": "n", "same": "s"}), mem.NewTree().Files(map[string]string{"dir/extra": "e", "d/": "", "same": "s"})
			open := func(_ context.Context, l location.Location, _ OpenOptions) (mover.Backend, error) {
				if l.Path == "/s" {
					return faulty.New(mem.New(source, mem.Options{}), faulty.Options{Script: row.fault}), nil
				}
				return mem.New(target, mem.Options{}), nil
			}
			var done items
			r := Request{Work: Sync, Delete: true, DeleteFirst: true, MaxDelete: MaxDelete{Set: true, Entries: row.most}, CompareBy: plan.ByContent, Preserve: mover.FactMode, StateDir: t.TempDir(), Observer: &done,
				Source: location.Location{Scheme: location.POSIX, Path: "/s"}, Target: location.Location{Scheme: location.POSIX, Path: "/d"}, Jobs: 1}
			_, err := must.Get(Start(t.Context(), r, open))(t).Wait()
			if !errors.Is(err, row.err) || !slices.Equal(done.all, row.want) {
				t.Errorf("%v; did %q, want %q", err, done.all, row.want)
			}
		})
	}
}

// TestPausing: a wait for room is one phase, any other wait another one; a sync whose removals would free room says how they come first.
func TestPausing(t *testing.T) {
	for _, row := range []struct {
		why  error
		r    Request
		want Phase
		text string
	}{
		{nil, Request{}, Moving, ""},
		{mover.ErrFull, Request{}, Paused, "no room"},
		{mover.ErrFull, Request{Delete: true}, Paused, "no room; what the source does not have is removed only at the end: sync --delete-before removes it first"},
		{mover.ErrFull, Request{Delete: true, DeleteFirst: true}, Paused, "no room"},
		{errors.New("2 files come back"), Request{Delete: true}, Waiting, "2 files come back"},
	} {
		var told phases
		row.r.Observer = &told
		(&watch{task: &run{request: row.r}}).Paused(row.why)
		helperObserver{&Helper{request: &row.r}}.Paused(row.why)
		if want := string(row.want) + " " + row.text; !slices.Equal(told.all, []string{want, want}) {
			t.Errorf("%v: told %q, want %q", row.why, told.all, want)
		}
	}
}
