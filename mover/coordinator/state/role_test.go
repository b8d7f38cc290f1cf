package state

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/test/kill"
	"datamove.dev/test/must"
)

// cluster gives each record to all of some ledgers that follow, and then returns what it is to return.
type cluster struct {
	all       []*Ledger
	fails     error
	meanwhile func() // is called before records are stored
	appended  []int  // records at a time
}

func (c *cluster) Append(ctx context.Context, records []*ledgerv1.Record) error {
	if c.meanwhile != nil {
		c.meanwhile()
	}
	if c.fails != nil {
		return c.fails
	}
	c.appended = append(c.appended, len(records))
	var err error
	for _, r := range records {
		for _, l := range c.all {
			err = errors.Join(err, l.Apply(ctx, r))
		}
	}
	return err
}

// A ledger leads and follows by turns. A term and its epochs are above all that an earlier leader had, and can still give out.
func TestLead(t *testing.T) {
	c := &cluster{all: []*Ledger{fresh(t, Options{Follow: true}), fresh(t, Options{Follow: true})}}
	a, b := c.all[0], c.all[1]
	put := func(l *Ledger, n int) error {
		return l.Update(t.Context(), Durable, func(tx *Tx) error { return Tasks.Put(tx, queuedTask(n)) })
	}
	refused := func(l *Ledger) {
		t.Helper()
		if err := put(l, 0); !errors.Is(err, ErrNotLeader) || !errors.Is(err, mover.ErrTransient) {
			t.Errorf("Update = %v", err)
		}
		if _, err := l.Epoch(t.Context()); !errors.Is(err, ErrNotLeader) {
			t.Errorf("Epoch = %v", err)
		}
		if l.Term() != 0 {
			t.Errorf("term %d", l.Term())
		}
	}
	refused(a)
	must.Do(t, a.Lead(t.Context(), c))
	if a.Term() != 1 {
		t.Errorf("term %d is the first", a.Term())
	}
	must.Do(t, put(a, 1))
	for range 50 * epochChunk { // epochs run ahead of the clock
		must.Get(a.Epoch(t.Context()))(t)
	}
	must.Do(t, b.Lead(t.Context(), c)) // a does not know
	if b.Term() != 2 {
		t.Errorf("term %d after 1", b.Term())
	}
	next := must.Get(b.Epoch(t.Context()))(t)
	for a.role.Load().epochs.last < a.role.Load().epochs.reserved {
		if old := must.Get(a.Epoch(t.Context()))(t); old >= next {
			t.Fatalf("the earlier leader gives out epoch %d, and the later one %d", old, next)
		}
	}
	a.Follow()
	refused(a)
	must.Do(t, put(b, 2))
	sameDump(t, dump(t, a), dump(t, b))
	for _, err := range []error{ErrNotLeader, ErrUnknown} {
		c.fails = err
		before := dump(t, b)
		if got := put(b, 3); !errors.Is(got, err) {
			t.Errorf("Update = %v, want %v", got, err)
		}
		sameDump(t, before, dump(t, b))
		refused(b)
		c.fails = nil
		must.Do(t, b.Lead(t.Context(), c))
	}
	c.fails = mover.ErrTransient // nothing is decided: the leader stays one
	if got := put(b, 3); !errors.Is(got, mover.ErrTransient) || b.Term() == 0 {
		t.Errorf("Update = %v, in term %d", got, b.Term())
	}
	if err := fresh(t, Options{}).Lead(t.Context(), c); !errors.Is(err, mover.ErrUsage) {
		t.Errorf("Lead of a ledger that is alone = %v", err)
	}
}

// A leader whose role was taken while it began to lead does not lead.
func TestLeadLost(t *testing.T) {
	l := fresh(t, Options{Follow: true})
	err := l.Lead(t.Context(), losing{&cluster{all: []*Ledger{l}}, l})
	if !errors.Is(err, ErrNotLeader) || l.Term() != 0 {
		t.Errorf("Lead = %v, in term %d", err, l.Term())
	}
}

// losing is the log of a ledger that is told to follow while a record is stored.
type losing struct {
	*cluster
	l *Ledger
}

func (s losing) Append(ctx context.Context, r []*ledgerv1.Record) error {
	s.l.Follow()
	return s.cluster.Append(ctx, r)
}

// The ledger of a member is not opened as if it were alone, and one that has left is.
func TestMember(t *testing.T) {
	dir := t.TempDir()
	closed(t, opened(t, dir, Options{}))
	l := opened(t, dir, Options{Follow: true})
	must.Do(t, l.SetMember(true))
	closed(t, l)
	if _, err := Open(dir, Options{}); !errors.Is(err, mover.ErrConflict) {
		t.Errorf("Open = %v", err)
	}
	l = opened(t, dir, Options{Follow: true})
	if !l.Member() {
		t.Error("it is no member")
	}
	must.Do(t, l.SetMember(false))
	closed(t, l)
	closed(t, opened(t, dir, Options{}))
}

// later returns a backup of a ledger, and one of it with more.
func later(t testing.TB) (id string, early, late []byte) {
	l := fresh(t, Options{})
	for n := range 20 {
		mess(t, l, n)
	}
	early = backedUp(t, l)
	update(t, l, func(tx *Tx) error {
		return errors.Join(Tasks.Delete(tx, queuedTask(1).Id), Tasks.Put(tx, queuedTask(777)))
	})
	return l.id.Ledger, early, backedUp(t, l)
}

func isLate(t testing.TB, tx *Tx) bool {
	t.Helper()
	_, err1 := Tasks.Get(tx, queuedTask(1).Id)
	_, err2 := Tasks.Get(tx, queuedTask(777).Id)
	if (err1 == nil) == (err2 == nil) {
		t.Errorf("it is neither as early nor as late: %v, %v", err1, err2)
	}
	return err2 == nil
}

// A ledger that follows gets the content of another one while views go on; each sees one moment.
func TestReplace(t *testing.T) {
	id, early, late := later(t)
	dir := t.TempDir()
	l := opened(t, dir, Options{Follow: true})
	must.Do(t, l.Replace(bytes.NewReader(early)))
	view(t, l, func(tx *Tx) error {
		if isLate(t, tx) {
			t.Error("it is the late one already")
		}
		must.Do(t, l.Replace(bytes.NewReader(late)))
		if isLate(t, tx) {
			t.Error("a view has changed")
		}
		return nil
	})
	want := l.Sequence()
	must.Do(t, l.Replace(bytes.NewReader(early))) // nothing new
	view(t, l, func(tx *Tx) error {
		if !isLate(t, tx) || l.Sequence() != want {
			t.Error("an earlier backup was taken")
		}
		return nil
	})
	sameIndexes(t, l)
	_, _, other := later(t)
	if err := l.Replace(bytes.NewReader(other)); !errors.Is(err, mover.ErrConflict) {
		t.Errorf("Replace by another ledger = %v", err)
	}
	must.Do(t, l.Apply(t.Context(), &ledgerv1.Record{Sequence: want + 1}))
	must.Do(t, l.Sync())
	closed(t, l)
	stores := must.Get(filepath.Glob(filepath.Join(dir, "store*")))(t)
	if len(stores) != 1 {
		t.Errorf("stores %q are left", stores)
	}
	l = opened(t, dir, Options{})
	defer closed(t, l)
	if l.id.Ledger != id || l.Sequence() != want+2 {
		t.Errorf("ledger %q ends with %d, want %q and %d", l.id.Ledger, l.Sequence(), id, want+2)
	}
	if err := l.Replace(bytes.NewReader(late)); !errors.Is(err, mover.ErrUsage) {
		t.Errorf("Replace of one that is alone = %v", err)
	}
}

// A backup that is cut off leaves the ledger as it was.
func TestReplaceHostile(t *testing.T) {
	_, early, late := later(t)
	l := fresh(t, Options{Follow: true})
	must.Do(t, l.Replace(bytes.NewReader(early)))
	for _, b := range [][]byte{late[:len(late)/2], late[:len(late)-1], nil, append(bytes.Clone(late), 0)} {
		if err := l.Replace(bytes.NewReader(b)); !errors.Is(err, mover.ErrCorrupt) {
			t.Errorf("Replace = %v", err)
		}
	}
	view(t, l, func(tx *Tx) error {
		if isLate(t, tx) {
			t.Error("it is the late one")
		}
		return nil
	})
	must.Do(t, l.Replace(bytes.NewReader(late)))
}

// replaceOnce opens a ledger and gives it the backup beside it.
func replaceOnce(dir string) error {
	b, err := os.ReadFile(dir + ".late")
	if err != nil {
		return err
	}
	l, err := Open(dir, Options{Follow: true, SyncEvery: time.Hour})
	if err != nil {
		return err
	}
	if err := l.Replace(bytes.NewReader(b)); err != nil {
		return err
	}
	kill.Say("replaced", 1)
	return l.Close()
}

// TestKillReplacing kills a process at calls while it replaces the content of a ledger. The ledger is as early or as late, and late when that was said.
//
//safety:3 a process is killed while a member of a cluster replaces its ledger by the snapshot of the leader: the ledger is the one before or the one after
func TestKillReplacing(t *testing.T) {
	random := kill.Random(t)
	_, early, late := later(t)
	step := kill.Times(9, 1)
	seen := map[bool]int{}
	calls := 1 + random.IntN(step)
	for killed := true; killed; calls += step {
		dir := filepath.Join(t.TempDir(), "ledger")
		l := opened(t, dir, Options{Follow: true})
		must.Do(t, l.Replace(bytes.NewReader(early)))
		closed(t, l)
		must.Do(t, os.WriteFile(dir+".late", late, 0o600))
		var said []string
		said, killed = kill.AtCall(t, "replace", dir, calls)
		l = opened(t, dir, Options{Follow: true})
		view(t, l, func(tx *Tx) error {
			is := isLate(t, tx)
			seen[is]++
			if !is && len(said) > 0 {
				t.Error("what was said is not there")
			}
			return nil
		})
		must.Do(t, l.Replace(bytes.NewReader(late)))
		sameIndexes(t, l)
		closed(t, l)
	}
	if seen[true] == 0 || seen[false] == 0 {
		t.Errorf("%d times before, %d times after", seen[false], seen[true])
	}
}

// What a ledger that leads counts ends with its role, and a later leader counts anew.
func TestCountOfRole(t *testing.T) {
	c := &cluster{all: []*Ledger{fresh(t, Options{Follow: true})}}
	l := c.all[0]
	must.Do(t, l.Lead(t.Context(), c))
	for range 2 {
		_ = must.Get(Count(t.Context(), l, Tasks, (*datamovev1.Task).GetState))(t)
		l.Follow()
		if len(l.tallies) != 0 {
			t.Errorf("%d tallies are kept", len(l.tallies))
		}
		must.Do(t, l.Lead(t.Context(), c))
	}
}

// Changes that wait while others are stored are stored together: each sees those before it, one that fails or panics leaves nothing, and one that is given up is not made.
func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := make(chan struct{})
		c := &cluster{all: []*Ledger{opened(t, t.TempDir(), Options{Follow: true}), opened(t, t.TempDir(), Options{Follow: true})}}
		l := c.all[0]
		must.Do(t, l.Lead(t.Context(), c))
		c.appended = nil
		c.meanwhile = func() {
			c.meanwhile = nil
			<-first
		}
		bad := errors.New("bad")
		var all sync.WaitGroup
		change := func(ctx context.Context, want error, do func(*Tx) error) {
			all.Go(func() {
				if err := l.Update(ctx, Durable, do); !errors.Is(err, want) {
					t.Errorf("Update = %v, want %v", err, want)
				}
			})
			synctest.Wait()
		}
		put := func(n int) func(*Tx) error { return func(tx *Tx) error { return Tasks.Put(tx, queuedTask(n)) } }
		change(t.Context(), nil, put(0))
		change(t.Context(), nil, put(1))
		change(t.Context(), bad, func(tx *Tx) error {
			return errors.Join(Tasks.Put(tx, queuedTask(2)), Tasks.Delete(tx, queuedTask(1).Id), bad)
		})
		change(t.Context(), nil, func(tx *Tx) error {
			_, err1 := Tasks.Get(tx, queuedTask(1).Id)
			_, err2 := Tasks.Get(tx, queuedTask(2).Id)
			if err1 != nil || err2 == nil {
				t.Errorf("it sees %v and %v", err1, err2)
			}
			return Tasks.Put(tx, queuedTask(3))
		})
		all.Go(func() {
			defer func() {
				if recover() != "oops" {
					t.Error("the caller does not panic")
				}
			}()
			_ = l.Update(t.Context(), Durable, func(tx *Tx) error { must.Do(t, Tasks.Put(tx, queuedTask(4))); panic("oops") })
		})
		synctest.Wait()
		gone, give := context.WithCancel(t.Context())
		change(gone, context.Canceled, put(5))
		give()
		synctest.Wait()
		change(t.Context(), nil, put(6))
		change(t.Context(), nil, func(*Tx) error { return nil })
		close(first)
		all.Wait()
		if !slices.Equal(c.appended, []int{1, 3}) {
			t.Errorf("so many records at a time: %v", c.appended)
		}
		view(t, l, func(tx *Tx) error {
			for n, want := range []bool{true, true, false, true, false, false, true} {
				if _, err := Tasks.Get(tx, queuedTask(n).Id); (err == nil) != want {
					t.Errorf("task %d: %v", n, err)
				}
			}
			return nil
		})
		sameDump(t, dump(t, l), dump(t, c.all[1]))
		for _, err := range []error{mover.ErrTransient, ErrUnknown} { // all of them fail
			hold := make(chan struct{})
			c.meanwhile = func() { <-hold; c.fails = err }
			for n := range 3 {
				change(t.Context(), err, put(10+n))
			}
			close(hold)
			all.Wait()
			c.fails, c.meanwhile = nil, nil
		}
		if l.Term() != 0 {
			t.Error("it leads on")
		}
		for _, l := range c.all {
			closed(t, l)
		}
	})
}

// What is stored together has a bound.
func TestTogetherBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		c := &cluster{all: []*Ledger{opened(t, t.TempDir(), Options{Follow: true})}}
		l := c.all[0]
		must.Do(t, l.Lead(t.Context(), c))
		c.appended = nil
		c.meanwhile = func() { c.meanwhile = nil; <-hold }
		var all sync.WaitGroup
		for n := range 1 + 2*joinedChanges {
			all.Go(func() {
				must.Tell(t, l.Update(t.Context(), Soon, func(tx *Tx) error { return Keys.Put(tx, &ledgerv1.Key{Caller: "c", Key: strconv.Itoa(n)}) }))
			})
			synctest.Wait()
		}
		for n := range 3 {
			all.Go(func() {
				must.Tell(t, l.Update(t.Context(), Soon, func(tx *Tx) error {
					return Works.Put(tx, &ledgerv1.Work{Task: "t", Batch: strconv.Itoa(n), Work: make([]byte, RecordBytes-100)})
				}))
			})
			synctest.Wait()
		}
		close(hold)
		all.Wait()
		if !slices.Equal(c.appended, []int{1, joinedChanges, joinedChanges, 1, 1, 1}) {
			t.Errorf("so many records at a time: %v", c.appended)
		}
		closed(t, l)
	})
}
