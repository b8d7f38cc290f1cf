package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/faulty"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/location"
)

// asked are the ways to ask for what a store has, and to change it.
var asked = map[string]func(context.Context, location.Location, Request, Opener) error{
	"list": func(ctx context.Context, l location.Location, _ Request, open Opener) error {
		return listedAll(List(ctx, l, true, open))
	},
	"list of one level": func(ctx context.Context, l location.Location, _ Request, open Opener) error {
		for _, err := range List(ctx, l, false, open) {
			if err != nil {
				return err
			}
		}
		return nil
	},
	"usage": func(ctx context.Context, l location.Location, _ Request, open Opener) error {
		sum, err := Usage(ctx, l, open)
		if err == nil && sum.Files != 30 {
			err = fmt.Errorf("counted %d files", sum.Files)
		}
		return err
	},
	"access probe": func(ctx context.Context, l location.Location, _ Request, open Opener) error {
		return ProbeAccess(ctx, l, open)
	},
	"manifest": func(ctx context.Context, l location.Location, _ Request, open Opener) error {
		return WriteManifest(ctx, l, io.Discard, open)
	},
	"copy": func(ctx context.Context, l location.Location, r Request, open Opener) error {
		r.Work, r.Source, r.Target = Copy, l, location.Location{Scheme: location.S3, Bucket: "other", TrailingSlash: true}
		task, err := Start(ctx, r, open)
		if err == nil {
			_, err = task.Wait()
		}
		return err
	},
	"verify": func(ctx context.Context, l location.Location, r Request, open Opener) error {
		r.Work, r.Source, r.Target = Verify, l, l
		r.Target.Bucket = "same"
		task, err := Start(ctx, r, open)
		if err == nil {
			_, err = task.Wait()
		}
		return err
	},
	"plan": func(ctx context.Context, l location.Location, r Request, open Opener) error {
		r.Work, r.Source, r.Target = Copy, l, location.Location{Scheme: location.S3, Bucket: "other", TrailingSlash: true}
		n := 0
		for _, err := range Plan(ctx, r, open) {
			if n++; err != nil {
				return err
			}
		}
		if n < 30 {
			return fmt.Errorf("planned %d", n)
		}
		return nil
	},
	"remove": func(ctx context.Context, l location.Location, r Request, open Opener) error {
		report, err := RemoveAll(ctx, l, r, open)
		if err == nil && report.Removed < 30 {
			err = fmt.Errorf("removed %d", report.Removed)
		}
		return err
	},
}

func listedAll(all func(func(mover.Entry, error) bool)) error {
	n := 0
	for e, err := range all {
		if err != nil {
			return err
		}
		if e.Kind == mover.File {
			n++
		}
	}
	if n != 30 {
		return fmt.Errorf("listed %d files", n)
	}
	return nil
}

// storeOpener opens stores in memory, of which each refuses its first openings with an error, and fails after that as o says.
func storeOpener(refusals int, refusal error, o faulty.Options) Opener {
	files := map[string]string{}
	for n := range 30 {
		files[fmt.Sprintf("d%d/f%02d", n%3, n)] = "content"
	}
	trees := map[string]*mem.Tree{"store": mem.NewTree().Files(files), "same": mem.NewTree().Files(files), "other": mem.NewTree()}
	var mu sync.Mutex
	refused := map[string]int{}
	return func(_ context.Context, l location.Location, _ OpenOptions) (mover.Backend, error) {
		mu.Lock()
		defer mu.Unlock()
		if refused[l.Bucket]++; refused[l.Bucket] <= refusals {
			return nil, &mover.Error{Op: "open", Location: l.String(), Err: refusal}
		}
		s3 := func(t *mover.Capabilities) { t.Store = true }
		return faulty.New(mem.New(trees[l.Bucket], mem.Options{ObjectStore: true, Adjust: s3}), o), nil
	}
}

var theStore = location.Location{Scheme: location.S3, Bucket: "store", TrailingSlash: true}

// TestBusyStore: each way to ask bears a store that refuses at first, and one that fails at a third of all calls.
func TestBusyStore(t *testing.T) {
	for name, ask := range asked {
		for _, kind := range []error{mover.ErrTransient, mover.ErrUnreachable, mover.ErrTimeout} {
			t.Run(name+"/"+mover.KindName(kind), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := Request{StateDir: t.TempDir()}
					open := storeOpener(3, kind, faulty.Options{Seed: 3, Streak: 3, Rates: map[faulty.Fault]float64{faulty.Transient: 0.33}})
					if err := ask(t.Context(), theStore, r, open); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// TestHopelessStore: what no wait ends is not waited for.
func TestHopelessStore(t *testing.T) {
	for name, ask := range asked {
		for _, refusal := range []error{mover.ErrPermission, mover.ErrNotExist, mover.ErrUsage, mover.Lasting(mover.ErrUnreachable), mover.Lasting(mover.ErrTransient)} {
			t.Run(name+"/"+mover.KindName(refusal), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tries := 0
					open := func(context.Context, location.Location, OpenOptions) (mover.Backend, error) {
						tries++
						return nil, refusal
					}
					if err := ask(t.Context(), theStore, Request{StateDir: t.TempDir()}, open); !errors.Is(err, refusal) || tries != 1 {
						t.Errorf("%d tries: %v", tries, err)
					}
				})
			})
		}
	}
}

// phases is an Observer of states.
type phases struct {
	mu  sync.Mutex
	all []string
}

func (*phases) Item(Item) {}
func (p *phases) State(phase Phase, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, string(phase)+" "+why)
}

// TestWaitingIsTold: a task that waits for a store says for which, why, and how long.
func TestWaitingIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told phases
		r := Request{StateDir: t.TempDir(), Observer: &told}
		if err := asked["copy"](t.Context(), theStore, r, storeOpener(8, mover.ErrUnreachable, faulty.Options{})); err != nil {
			t.Fatal(err)
		}
		waits := slices.DeleteFunc(slices.Clone(told.all), func(s string) bool { return !strings.HasPrefix(s, "waiting ") })
		if len(waits) != 2 || !strings.Contains(waits[0], "open s3://store/: can not be reached; it is tried again until about ") || !strings.Contains(waits[1], "s3://other/") {
			t.Errorf("told %q", told.all)
		}
		if last := told.all[len(told.all)-1]; last != "finished " {
			t.Errorf("ended with %q", last)
		}
	})
}
