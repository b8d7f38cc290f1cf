package faulty_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/backendtest"
	"datamove.dev/mover/backend/faulty"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var owner = mover.WriterID{Task: "t", Epoch: 1}

// A place that nothing happens to is the place itself.
func TestContract(t *testing.T) {
	backendtest.Run(t, func(*testing.T) func() mover.Backend {
		tree := mem.NewTree()
		return func() mover.Backend { return faulty.New(mem.New(tree, mem.Options{Reflinks: true}), faulty.Options{}) }
	})
}

// once injects f at the first call of op.
func once(f faulty.Fault, op faulty.Op) faulty.Options {
	return faulty.Options{Script: func(c faulty.Call) faulty.Fault {
		if c.Op == op && c.Nth == 0 {
			return f
		}
		return faulty.None
	}}
}

// bed is a faulty place over a tree with the file f, "0123456789".
func bed(o faulty.Options) (*faulty.Backend, *mem.Tree) {
	tree := mem.NewTree().Files(map[string]string{"f": "0123456789"})
	return faulty.New(mem.New(tree, mem.Options{}), o), tree
}

func TestFaults(t *testing.T) {
	update := mover.Entry{Name: "f", Kind: mover.File, Known: mover.FactMode, Mode: 0o600}
	for _, row := range []struct {
		fault faulty.Fault
		op    faulty.Op
		kind  error
		done  bool // what was asked for happened all the same
	}{
		{faulty.Transient, faulty.Update, mover.ErrTransient, false},
		{faulty.Unreachable, faulty.Update, mover.ErrUnreachable, false},
		{faulty.Denied, faulty.Update, mover.ErrPermission, false},
		{faulty.Full, faulty.Update, mover.ErrFull, false},
		{faulty.TimedOut, faulty.Update, mover.ErrTimeout, false},
		{faulty.Unsupported, faulty.Update, mover.ErrUnsupported, false},
		{faulty.Lost, faulty.Update, mover.ErrTransient, true},
	} {
		t.Run(row.fault.String(), func(t *testing.T) {
			p, _ := bed(once(row.fault, row.op))
			if err := p.Update(t.Context(), update); !errors.Is(err, row.kind) {
				t.Errorf("update: %v", err)
			}
			e, err := p.Stat(t.Context(), "f")
			if err != nil || (e.Mode == 0o600) != row.done {
				t.Errorf("mode is %o, %v", e.Mode, err)
			}
			if err := p.Update(t.Context(), update); err != nil {
				t.Errorf("update again: %v", err)
			}
			if got := p.Injected(); len(got) != 1 || got[0].Fault != row.fault || got[0].Name != "f" {
				t.Errorf("injected %v", got)
			}
		})
	}
}

func TestReadFaults(t *testing.T) {
	for _, row := range []struct {
		fault faulty.Fault
		bytes string
		kind  error
	}{
		{faulty.Short, "01234", mover.ErrTransient},
		{faulty.Changed, "01234", mover.ErrChanged},
		{faulty.Flipped, "01234" + "4" + "6789", nil},
		{faulty.Transient, "", mover.ErrTransient},
	} {
		p, _ := bed(once(row.fault, faulty.Read))
		got, err := readAll(t.Context(), p)
		if string(got) != row.bytes || !errors.Is(err, row.kind) {
			t.Errorf("%v: read %q, %v", row.fault, got, err)
		}
		if got, err := readAll(t.Context(), p); string(got) != "0123456789" || err != nil {
			t.Errorf("%v: read again %q, %v", row.fault, got, err)
		}
	}
}

func TestStalledWaitsForItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := bed(once(faulty.Stalled, faulty.Read))
		why := errors.New("stopped by the test")
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error)
		go func() { _, err := readAll(ctx, p); ended <- err }()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("did not stall: %v", err)
		default:
		}
		cancel(why)
		if err := <-ended; !errors.Is(err, why) {
			t.Errorf("read: %v", err)
		}
	})
}

func TestWriteFaults(t *testing.T) {
	for _, f := range []faulty.Fault{faulty.Transient, faulty.Full, faulty.Torn, faulty.Lost, faulty.Flipped} {
		p, tree := bed(once(f, faulty.Write))
		e := mover.Entry{Name: "g", Kind: mover.File, Size: 10}
		d, err := p.Draft(t.Context(), e, mover.Hints{By: owner})
		must.Do(t, err)
		part, feed := backendtest.Parts(10, 10)[0], backendtest.NewFeed([]byte("abcdefghij"))
		r, err := d.WritePart(t.Context(), part, feed)
		if f == faulty.Flipped {
			if err != nil || r.CRC != backendtest.Sum([]byte("abcdefghij")) {
				t.Errorf("a flipped byte is told: %v", err)
			}
			finish(t, p, d, e, r)
			if got, _ := tree.Content("g"); got == "abcdefghij" || len(got) != 10 {
				t.Errorf("no byte was flipped: %q", got)
			}
			continue
		}
		if err == nil {
			t.Errorf("%v: no error", f)
		}
		must.Do(t, feed.Rewind())
		if r, err = d.WritePart(t.Context(), part, feed); err != nil {
			t.Errorf("%v: write again: %v", f, err)
		}
		finish(t, p, d, e, r)
		if got, _ := tree.Content("g"); got != "abcdefghij" {
			t.Errorf("%v: content %q", f, got)
		}
	}
}

func TestDeniedHidesADirectory(t *testing.T) {
	tree := mem.NewTree().Files(map[string]string{"a/x": "", "a/y/z": "", "a-": "", "b/c": ""})
	p := faulty.New(mem.New(tree, mem.Options{}), faulty.Options{Script: func(c faulty.Call) faulty.Fault {
		if c.Op == faulty.List && c.Name == "a" {
			return faulty.Denied
		}
		return faulty.None
	}})
	var got []string
	for e, err := range p.Walk(t.Context(), mover.WalkOptions{}) {
		if err != nil {
			got = append(got, "denied "+e.Name)
			continue
		}
		got = append(got, e.Name)
	}
	if want := []string{"a-", "a", "denied a", "b", "b/c"}; !slices.Equal(got, want) {
		t.Errorf("walk %q, want %q", got, want)
	}
}

func TestPublishFaults(t *testing.T) {
	names := []string{"one", "two", "three"}
	for _, row := range []struct {
		fault   faulty.Fault // of "two"
		errs    []bool
		visible []string
	}{
		{faulty.Transient, []bool{false, true, false}, []string{"one", "three"}},
		{faulty.Lost, []bool{false, true, false}, []string{"one", "three", "two"}},
		{faulty.Killed, []bool{true, true, true}, []string{"one"}},
	} {
		tree := mem.NewTree()
		p := faulty.New(mem.New(tree, mem.Options{}), faulty.Options{Script: func(c faulty.Call) faulty.Fault {
			if c.Op == faulty.Publish && c.Name == "two" && c.Nth == 0 {
				return row.fault
			}
			return faulty.None
		}})
		batch := drafts(t, p, names)
		for i, out := range p.Publish(t.Context(), batch) {
			if (out.Err != nil) != row.errs[i] {
				t.Errorf("%v: outcome of %s: %v", row.fault, names[i], out.Err)
			}
		}
		if got := listing(t, mem.New(tree, mem.Options{})); !slices.Equal(got, row.visible) {
			t.Errorf("%v: visible %q, want %q", row.fault, got, row.visible)
		}
		if row.fault == faulty.Killed {
			if err := p.Sync(t.Context()); err == nil {
				t.Error("a killed place works")
			}
			if len(tree.Drafts()) != 2 {
				t.Errorf("strays %q", tree.Drafts())
			}
			continue
		}
		if out := p.Publish(t.Context(), batch[1:2]); out[0].Err != nil || out[0].Level != mover.Written {
			t.Errorf("%v: publish again: %+v", row.fault, out[0])
		}
	}
}

// What goes wrong depends on the seed only, not on who comes first.
func TestChanceIsRepeatable(t *testing.T) {
	run := func(seed uint64) []faulty.Injected {
		p, _ := bed(faulty.Options{Seed: seed, Rates: map[faulty.Fault]float64{faulty.Transient: 0.2, faulty.Lost: 0.1}})
		var wg sync.WaitGroup
		for w := range 8 {
			wg.Go(func() {
				for range 20 {
					_ = p.Mkdir(t.Context(), mover.Entry{Name: fmt.Sprint(w), Kind: mover.Dir})
				}
			})
		}
		wg.Wait()
		return p.Injected()
	}
	a, b, c := run(1), run(1), run(2)
	if !slices.Equal(a, b) || slices.Equal(a, c) {
		t.Errorf("seed 1: %v\nagain:  %v\nseed 2: %v", a, b, c)
	}
	if n := len(a); n < 20 || n > 90 {
		t.Errorf("%d faults in 160 calls at a rate of 0.3", n)
	}
}

func TestStreakEnds(t *testing.T) {
	p, _ := bed(faulty.Options{Rates: map[faulty.Fault]float64{faulty.Transient: 1}, Streak: 3})
	var failed []bool
	for range 8 {
		failed = append(failed, p.Sync(t.Context()) != nil)
	}
	if want := []bool{true, true, true, false, true, true, true, false}; !slices.Equal(failed, want) {
		t.Errorf("failed %v", failed)
	}
}

func readAll(ctx context.Context, p mover.Backend) ([]byte, error) {
	e, err := p.Stat(ctx, "f")
	if err != nil {
		return nil, err
	}
	c, err := p.Open(ctx, e)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	r, err := c.Range(ctx, 0, e.Size)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

func finish(t *testing.T, p mover.Backend, d mover.Draft, e mover.Entry, r ...mover.Receipt) {
	t.Helper()
	must.Do(t, d.Finish(t.Context(), e, r))
	if out := p.Publish(t.Context(), []mover.Draft{d}); out[0].Err != nil {
		t.Fatal(out[0].Err)
	}
}

// drafts returns finished drafts of empty files.
func drafts(t *testing.T, p mover.Backend, names []string) []mover.Draft {
	t.Helper()
	var batch []mover.Draft
	for _, name := range names {
		e := mover.Entry{Name: name, Kind: mover.File}
		d := must.Get(p.Draft(t.Context(), e, mover.Hints{By: owner}))(t)
		must.Do(t, d.Finish(t.Context(), e, nil))
		batch = append(batch, d)
	}
	return batch
}

func listing(t *testing.T, p mover.Backend) []string {
	t.Helper()
	var names []string
	for e, err := range p.Walk(t.Context(), mover.WalkOptions{}) {
		must.Do(t, err)
		names = append(names, e.Name)
	}
	return names
}
