package recall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"datamove.dev/mover"
)

// archive is a tree of which all files but every tenth are in an archive, which brings back some each minute, in the order in which it was asked.
type archive struct {
	files    []mover.Entry
	slots    int             // files a minute
	loses    int             // the first requests
	denied   map[string]bool // nobody can ask for these
	stranger map[string]bool // another file has their name by now
	lost     error           // of every question

	mu    sync.Mutex // guards all below
	calls []int      // how many files each request had
	queue []string
	back  map[string]bool
	most  int // files that were asked for, and not back, at once
}

func newArchive(files int) *archive {
	a := &archive{slots: 100, back: map[string]bool{}, denied: map[string]bool{}, stranger: map[string]bool{}}
	for i := range files {
		name := fmt.Sprintf("d/%05d", i)
		a.files = append(a.files, mover.Entry{Name: name, Kind: mover.File, Size: 10})
		a.back[name] = i%10 == 0
	}
	return a
}

// serve brings contents back until ctx ends.
func (a *archive) serve(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Minute):
		}
		a.mu.Lock()
		n := min(a.slots, len(a.queue))
		for _, name := range a.queue[:n] {
			a.back[name] = true
		}
		a.queue = a.queue[n:]
		a.mu.Unlock()
	}
}

func (a *archive) Walk(ctx context.Context, o mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		if o.After == "" && !yield(mover.Entry{Name: "d", Kind: mover.Dir}, nil) {
			return
		}
		for _, e := range a.files {
			if ctx.Err() != nil {
				yield(mover.Entry{}, ctx.Err())
				return
			}
			if e.Name > o.After && !yield(e, nil) {
				return
			}
		}
	}
}

func (a *archive) Recall(_ context.Context, entries []mover.Entry) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range entries {
		if a.denied[e.Name] {
			return mover.ErrPermission
		}
	}
	a.calls = append(a.calls, len(entries))
	if a.loses--; a.loses >= 0 {
		return nil
	}
	for _, e := range entries {
		a.queue = append(a.queue, e.Name)
	}
	a.most = max(a.most, len(a.queue))
	return nil
}

func (a *archive) Away(_ context.Context, e mover.Entry) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stranger[e.Name] {
		return false, mover.ErrChanged
	}
	return !a.back[e.Name], a.lost
}

// TestRun: what a run asks for, and what it comes to.
func TestRun(t *testing.T) {
	for _, c := range []struct {
		what    string
		files   int
		change  func(*archive)
		options Options
		want    Report
		most    int
		kind    error
	}{
		{"everything", 3000, nil, Options{}, Report{Files: 3000, Bytes: 30000, Asked: 2700, AskedBytes: 27000, Back: 2700, BackBytes: 27000}, DefaultMost, nil},
		{"a small window", 300, nil, Options{Most: 7}, Report{Files: 300, Bytes: 3000, Asked: 270, AskedBytes: 2700, Back: 270, BackBytes: 2700}, 7, nil},
		{"nothing", 0, nil, Options{}, Report{}, 0, nil},
		{"a limit of bytes", 100, nil, Options{Bytes: 95}, Report{Files: 11, Bytes: 110, Asked: 9, AskedBytes: 90, Back: 9, BackBytes: 90, Next: "d/00010", More: true}, DefaultMost, nil},
		{"the rest of that", 100, nil, Options{After: "d/00010"}, Report{Files: 89, Bytes: 890, Asked: 81, AskedBytes: 810, Back: 81, BackBytes: 810}, DefaultMost, nil},
		{"it forgets", 300, func(a *archive) { a.loses = 2 }, Options{}, Report{Files: 300, Bytes: 3000, Asked: 270, AskedBytes: 2700, Back: 270, BackBytes: 2700}, DefaultMost, nil},
		{"one is denied", 300, func(a *archive) { a.denied["d/00013"] = true }, Options{},
			Report{Files: 300, Bytes: 3000, Asked: 270, AskedBytes: 2700, Back: 269, BackBytes: 2690, Failed: 1}, DefaultMost, mover.ErrPermission},
		{"all are denied", 3000, func(a *archive) {
			for _, e := range a.files {
				a.denied[e.Name] = true
			}
		}, Options{}, Report{Files: 256, Bytes: 2560, Asked: 230, AskedBytes: 2300, Failed: 230, Next: "d/00255"}, 0, mover.ErrPermission},
		{"one is another by now", 20, func(a *archive) { a.stranger["d/00013"] = true }, Options{}, Report{Files: 20, Bytes: 200, Asked: 17, AskedBytes: 170, Back: 17, BackBytes: 170}, DefaultMost, nil},
		{"the servers are away", 20, func(a *archive) { a.lost = mover.ErrUnreachable }, Options{}, Report{}, 0, mover.ErrUnreachable},
		{"a mistake", 20, nil, Options{Most: -1}, Report{}, 0, mover.ErrUsage},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newArchive(c.files)
				if c.change != nil {
					c.change(a)
				}
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				go a.serve(ctx)
				told := Report{}
				c.options.Progress = func(r Report) {
					if r.Back < told.Back || r.Files < told.Files {
						t.Errorf("it goes back: %+v, %+v", told, r)
					}
					told = r
				}
				got, err := Run(ctx, a, c.options)
				if got != c.want || !errors.Is(err, c.kind) || (err == nil) != (c.kind == nil) {
					t.Errorf("%+v, %v\nwant %+v", got, err, c.want)
				}
				if a.most > c.most {
					t.Errorf("%d files were asked for at once", a.most)
				}
				for _, n := range a.calls {
					if n > cmp.Or(c.options.Most, batchMost) {
						t.Errorf("a request of %d files", n)
					}
				}
				if err != nil && strings.Count(err.Error(), "\n") > errorMost {
					t.Errorf("the error has no end: %v", err)
				}
			})
		})
	}
}

// TestStopped: a run that is told to end does, and another one goes on: what is back is not asked for again.
func TestStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newArchive(500)
		serving, done := context.WithCancel(t.Context())
		defer done()
		go a.serve(serving)
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		first, err := Run(ctx, a, Options{Most: 200})
		if !errors.Is(err, context.DeadlineExceeded) || first.Back != 100 {
			t.Fatalf("%+v, %v", first, err)
		}
		second, err := Run(t.Context(), a, Options{Most: 200})
		if err != nil || second.Asked != 450-100 || second.Back != second.Asked {
			t.Errorf("%+v, %v", second, err)
		}
	})
}
