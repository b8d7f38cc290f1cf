package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/test/kill"
	"datamove.dev/test/must"
)

func TestMain(m *testing.M) {
	kill.Main(map[string]func(string) error{"write": write, "live": live, "live once": liveOnce, "look": look, "flood": flood, "replace": replaceOnce})
	goleak.VerifyTestMain(m)
}

func opened(t testing.TB, dir string, o Options) *Ledger {
	t.Helper()
	l := must.Get(Open(dir, o))(t)
	return l
}

func closed(t testing.TB, l *Ledger) {
	t.Helper()
	must.Do(t, l.Close())
}

// fresh returns a ledger that is closed when the test ends.
func fresh(t testing.TB, o Options) *Ledger {
	l := opened(t, t.TempDir(), o)
	t.Cleanup(func() { closed(t, l) })
	return l
}

func update(t testing.TB, l *Ledger, change func(*Tx) error) {
	t.Helper()
	must.Do(t, l.Update(context.Background(), Soon, change))
}

func view(t testing.TB, l *Ledger, look func(*Tx) error) {
	t.Helper()
	must.Do(t, l.View(look))
}

// task makes the n'th task of some people and projects.
func queuedTask(n int) *datamovev1.Task {
	return &datamovev1.Task{
		Id: fmt.Sprintf("01HZX%015d", n),
		Spec: &datamovev1.TaskSpec{
			Kind: datamovev1.TaskKind_TASK_KIND_COPY, Project: "p" + strconv.Itoa(n%10),
			Source: "/lustre/project/vision/run" + strconv.Itoa(n), Target: "s3://archive/vision/run" + strconv.Itoa(n),
			Labels: map[string]string{"slurm_job": strconv.Itoa(n / 10)},
		},
		Owner:      &datamovev1.Account{Name: "user" + strconv.Itoa(n%7), Uid: uint32(1000 + n%7)},
		State:      datamovev1.TaskState_TASK_STATE_QUEUED,
		CreateTime: timestamppb.New(time.Unix(1_790_000_000+int64(n), 0)),
	}
}

// ended makes a task that ended n seconds after some time.
func ended(n int) *datamovev1.Task {
	m := queuedTask(n)
	m.State = datamovev1.TaskState_TASK_STATE_DONE
	m.EndTime = timestamppb.New(time.Unix(1_790_100_000+int64(n), 0))
	return m
}

func batch(n int) *ledgerv1.Batch {
	return &ledgerv1.Batch{Task: queuedTask(0).Id, Id: fmt.Sprintf("%010d", n), State: ledgerv1.BatchState_BATCH_STATE_WAITING,
		LeadEpoch: 1_790_000_000_000, Bytes: 1 << 30, Entries: 1000}
}

// all collects what an iterator yields, by a name.
func all[M any](t testing.TB, name func(M) string, seq iter.Seq2[M, error]) (names []string) {
	t.Helper()
	for m, err := range seq {
		must.Do(t, err)
		names = append(names, name(m))
	}
	return names
}

func draftName(d *ledgerv1.Draft) string { return d.GetName() }

func TestRows(t *testing.T) {
	l := fresh(t, Options{})
	update(t, l, func(tx *Tx) error {
		for _, of := range []string{"t", "t\x00", "u"} {
			for _, name := range []string{"b", "a\x00b", "a", "􏿿", "a\x01"} {
				if err := Drafts.Put(tx, &ledgerv1.Draft{Task: of, Name: name, Draft: []byte(of)}); err != nil {
					return err
				}
			}
		}
		return Drafts.Delete(tx, "t", "b")
	})
	view(t, l, func(tx *Tx) error {
		d, err := Drafts.Get(tx, "t\x00", "a\x00b")
		if err != nil || string(d.GetDraft()) != "t\x00" {
			t.Errorf("Get = %v, %v", d, err)
		}
		if _, err := Drafts.Get(tx, "t", "b"); !errors.Is(err, mover.ErrNotExist) {
			t.Errorf("Get of a deleted row = %v", err)
		}
		of := Range{Prefix: []string{"t"}}
		if got := all(t, draftName, Drafts.All(tx, of)); !slices.Equal(got, []string{"a", "a\x00b", "a\x01", "􏿿"}) {
			t.Errorf("forth: %q", got)
		}
		of.Reverse, of.After = true, Drafts.Token(&ledgerv1.Draft{Task: "t", Name: "a\x01"})
		if got := all(t, draftName, Drafts.All(tx, of)); !slices.Equal(got, []string{"a\x00b", "a"}) {
			t.Errorf("back, from the middle: %q", got)
		}
		if got := all(t, draftName, Drafts.All(tx, Range{})); len(got) != 14 {
			t.Errorf("%d rows", len(got))
		}
		return nil
	})
}

// Rows of an index move with their messages.
func TestIndex(t *testing.T) {
	l := fresh(t, Options{})
	lease := &datamovev1.Lease{Id: "1", Dataset: "d", Digest: "x", Tier: "hot", Node: "n1", ExpireTime: timestamppb.New(time.Unix(7, 0))}
	id := func(m *datamovev1.Lease) string { return m.GetId() }
	under := func(tx *Tx, node string) []string {
		return all(t, id, LeasesByReplica.All(tx, Range{Prefix: []string{"d", "x", "hot", node}}))
	}
	update(t, l, func(tx *Tx) error { return Leases.Put(tx, lease) })
	update(t, l, func(tx *Tx) error {
		other := proto.Clone(lease).(*datamovev1.Lease)
		other.Id, other.ExpireTime = "2", timestamppb.New(time.Unix(5, 0))
		lease.Node = "n2"
		return errors.Join(Leases.Put(tx, lease), Leases.Put(tx, other))
	})
	view(t, l, func(tx *Tx) error {
		if one, two := under(tx, "n1"), under(tx, "n2"); !slices.Equal(one, []string{"2"}) || !slices.Equal(two, []string{"1"}) {
			t.Errorf("n1 has %q, n2 has %q", one, two)
		}
		first := all(t, id, LeasesByExpiry.All(tx, Range{}))
		rest := all(t, id, LeasesByExpiry.All(tx, Range{After: LeasesByExpiry.Token(&datamovev1.Lease{Id: "2", ExpireTime: timestamppb.New(time.Unix(5, 0))})}))
		if !slices.Equal(first, []string{"2", "1"}) || !slices.Equal(rest, []string{"1"}) {
			t.Errorf("by expiry: %q, then %q", first, rest)
		}
		return nil
	})
	update(t, l, func(tx *Tx) error { return Leases.Delete(tx, "1") })
	view(t, l, func(tx *Tx) error {
		if two := under(tx, "n2"); len(two) != 0 {
			t.Errorf("a deleted lease is found: %q", two)
		}
		return nil
	})
}

// An update sees itself, in loops within loops too, and pages do not cut anything off.
func TestLoops(t *testing.T) {
	l := fresh(t, Options{})
	const many = 3*lastPage + 5
	update(t, l, func(tx *Tx) error {
		for n := range many {
			if err := Batches.Put(tx, batch(n)); err != nil {
				return err
			}
		}
		seen, inner := 0, 0
		for b, err := range Batches.All(tx, Range{}) {
			must.Do(t, err)
			if seen++; seen%100 == 0 {
				inner += len(all(t, (*ledgerv1.Batch).GetId, Batches.All(tx, Range{Reverse: true})))
			}
			b.State = ledgerv1.BatchState_BATCH_STATE_TAKEN
			must.Do(t, Batches.Put(tx, b))
		}
		if seen != many || inner != many/100*many {
			t.Errorf("%d rows, %d in inner loops", seen, inner)
		}
		waiting := all(t, (*ledgerv1.Batch).GetId, BatchesByState.All(tx, Range{Prefix: []string{"BATCH_STATE_WAITING"}}))
		if len(waiting) != 0 {
			t.Errorf("%d still wait", len(waiting))
		}
		return nil
	})
}

func TestRefused(t *testing.T) {
	l := fresh(t, Options{})
	ctx := t.Context()
	wrong := errors.New("wrong")
	long := strings.Repeat("x", keyBytes)
	stopped, stop := context.WithCancel(ctx)
	stop()
	for name, c := range map[string]struct {
		err error
		got error
	}{
		"what the change says": {wrong, l.Update(ctx, Durable, func(tx *Tx) error { return errors.Join(Tasks.Put(tx, queuedTask(1)), wrong) })},
		"too large": {mover.ErrUsage, l.Update(ctx, Soon, func(tx *Tx) error {
			return Works.Put(tx, &ledgerv1.Work{Task: "t", Batch: "b", Work: make([]byte, RecordBytes)})
		})},
		"too many": {mover.ErrUsage, l.Update(ctx, Soon, func(tx *Tx) error {
			for n := range 1 << 16 {
				if err := Batches.Put(tx, batch(n)); err != nil {
					return err
				}
			}
			return nil
		})},
		"no name":     {mover.ErrUsage, l.Update(ctx, Soon, func(tx *Tx) error { return Tasks.Put(tx, &datamovev1.Task{}) })},
		"a long name": {mover.ErrUsage, l.Update(ctx, Soon, func(tx *Tx) error { return Tasks.Put(tx, &datamovev1.Task{Id: long}) })},
		"a view":      {mover.ErrUsage, l.View(func(tx *Tx) error { return Tasks.Put(tx, queuedTask(1)) })},
		"stopped before": {context.Canceled, func() error {
			l.writer <- struct{}{}
			defer func() { <-l.writer }()
			return l.Update(stopped, Soon, func(tx *Tx) error { return Tasks.Put(tx, queuedTask(1)) })
		}()},
		"a follower's": {mover.ErrUsage, l.Apply(ctx, &ledgerv1.Record{Sequence: l.Sequence() + 1})},
		"a wild token": {mover.ErrUsage, l.View(func(tx *Tx) error { return first(Tasks.All(tx, Range{After: "%"})) })},
		"another's token": {mover.ErrUsage, l.View(func(tx *Tx) error {
			return first(Drafts.All(tx, Range{Prefix: []string{"t"}, After: Drafts.Token(&ledgerv1.Draft{Task: "u", Name: "a"})}))
		})},
		"a long token": {mover.ErrUsage, l.View(func(tx *Tx) error { return first(Tasks.All(tx, Range{After: long + long + long})) })},
	} {
		if !errors.Is(c.got, c.err) {
			t.Errorf("%s: %v, want %v", name, c.got, c.err)
		}
	}
	view(t, l, func(tx *Tx) error {
		if got := all(t, (*datamovev1.Task).GetId, Tasks.All(tx, Range{})); len(got) != 0 {
			t.Errorf("something is left: %q", got)
		}
		return nil
	})
}

// first returns the error of the first row.
func first[M any](seq iter.Seq2[M, error]) error {
	for _, err := range seq {
		return err
	}
	return nil
}

// A row of the largest size goes in and comes back, and so does a backup of it.
func TestLargest(t *testing.T) {
	l := fresh(t, Options{})
	w := &ledgerv1.Work{Task: "t", Batch: "b", Work: bytes.Repeat([]byte{7}, RecordBytes-100)}
	update(t, l, func(tx *Tx) error { return Works.Put(tx, w) })
	other := restored(t, l)
	view(t, other, func(tx *Tx) error {
		got, err := Works.Get(tx, "t", "b")
		if !proto.Equal(got, w) {
			t.Error("it is another one")
		}
		return err
	})
}

// Changes happen one after the other, whatever is wanted of them.
func TestOneAfterTheOther(t *testing.T) {
	l := fresh(t, Options{})
	var workers sync.WaitGroup
	for n := range 8 {
		workers.Go(func() {
			for range 50 {
				if err := l.Update(context.Background(), Durability(n%2), func(tx *Tx) error {
					c, err := counter(tx, "test")
					return errors.Join(err, setCounter(tx, "test", c+1))
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	workers.Wait()
	view(t, l, func(tx *Tx) error {
		if c, err := counter(tx, "test"); c != 400 || err != nil {
			t.Errorf("%d of 400, %v", c, err)
		}
		return nil
	})
}

// gate is a log whose Sync can be held up, or fail.
type gate struct {
	Log
	appended chan struct{}

	mu    sync.Mutex // guards all below
	syncs int
	hold  chan struct{} // until it is closed; nil lets pass
	held  chan struct{}
	err   error
}

func (g *gate) Append(ctx context.Context, r *ledgerv1.Record) error {
	err := g.Log.Append(ctx, r)
	g.appended <- struct{}{}
	return err
}

func (g *gate) Sync(ctx context.Context) error {
	g.mu.Lock()
	g.syncs++
	hold, err := g.hold, g.err
	g.hold = nil
	g.mu.Unlock()
	if hold != nil {
		close(g.held)
		<-hold
	}
	return errors.Join(err, g.Log.Sync(ctx))
}

// gated opens a ledger behind a gate that lets pass.
func gated(t *testing.T) (*gate, *Ledger) {
	g := &gate{appended: make(chan struct{}, 100), held: make(chan struct{})}
	l := opened(t, t.TempDir(), Options{SyncEvery: time.Hour, Log: func(own Log) Log { g.Log = own; return g }})
	<-g.appended
	g.syncs = 0
	return g, l
}

// Those who want stable storage while a sync is under way share the next one.
func TestGroupCommit(t *testing.T) {
	g, l := gated(t)
	defer closed(t, l)
	release := make(chan struct{})
	g.hold = release
	var all sync.WaitGroup
	durable := func(n int) {
		all.Go(func() {
			must.Tell(t, l.Update(context.Background(), Durable, func(tx *Tx) error { return Tasks.Put(tx, queuedTask(n)) }))
		})
	}
	durable(0)
	<-g.held
	for n := range 20 {
		durable(n)
	}
	for range 21 {
		<-g.appended
	}
	close(release)
	all.Wait()
	if g.syncs != 2 {
		t.Errorf("21 changes took %d syncs, want 2", g.syncs)
	}
	// Who only looked waits for what it saw, which is safe by now.
	must.Do(t, l.Update(t.Context(), Durable, func(*Tx) error { return nil }))
	if g.syncs != 2 {
		t.Error("a change of nothing took a sync")
	}
}

// After a failed sync nobody knows what is on the disk: no change is taken any more.
func TestFailedSync(t *testing.T) {
	g, l := gated(t)
	bad := errors.New("input/output error")
	g.err = bad
	put := func(tx *Tx) error { return Tasks.Put(tx, queuedTask(1)) }
	if err := l.Update(t.Context(), Durable, put); !errors.Is(err, bad) {
		t.Errorf("Update = %v", err)
	}
	g.mu.Lock()
	g.err = nil
	g.mu.Unlock()
	for _, d := range []Durability{Soon, Durable} {
		if err := l.Update(t.Context(), d, put); !errors.Is(err, bad) {
			t.Errorf("the next Update = %v", err)
		}
	}
	view(t, l, func(*Tx) error { return nil })
	if err := l.Close(); !errors.Is(err, bad) {
		t.Errorf("Close = %v", err)
	}
}

// A term never comes twice; an epoch is never below one that was, nor below the clock.
func TestTermAndEpoch(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	var term, epoch uint64
	for range 4 {
		l := opened(t, dir, Options{})
		if l.Term() <= term {
			t.Errorf("term %d after %d", l.Term(), term)
		}
		term = l.Term()
		for range 3 * epochChunk {
			before := uint64(time.Now().UnixMilli())
			next := must.Get(l.Epoch(ctx))(t)
			if next <= epoch || next < before {
				t.Fatalf("epoch %d after %d, at %d", next, epoch, before)
			}
			epoch = next
		}
		closed(t, l)
	}
}

// Many take epochs, and no two get the same.
func TestEpochsDiffer(t *testing.T) {
	l := fresh(t, Options{})
	var mu sync.Mutex
	seen := map[uint64]bool{}
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for range 500 {
				e, err := l.Epoch(context.Background())
				mu.Lock()
				if err != nil || seen[e] {
					t.Errorf("epoch %d again, %v", e, err)
				}
				seen[e] = true
				mu.Unlock()
			}
		})
	}
	workers.Wait()
}

// tape remembers what went through a log.
type tape struct {
	Log
	records []*ledgerv1.Record
}

func (s *tape) Append(ctx context.Context, r *ledgerv1.Record) error {
	if err := s.Log.Append(ctx, r); err != nil {
		return err
	}
	s.records = append(s.records, r)
	return nil
}

// dump returns all that is stored, but for the ledger's id.
func dump(t testing.TB, l *Ledger) map[string]string {
	t.Helper()
	m := map[string]string{}
	must.Do(t, l.store.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			v, err := it.Item().ValueCopy(nil)
			if err != nil {
				return err
			}
			m[string(it.Item().Key())] = string(v)
		}
		return nil
	}))
	delete(m, string([]byte{keyStore, storeID}))
	return m
}

// sameDump compares two ledgers to the last byte, indexes included.
func sameDump(t testing.TB, want, got map[string]string) {
	t.Helper()
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if v, ok := got[k]; !ok || v != want[k] {
			t.Errorf("%q: %q, want %q", k, v, want[k])
		}
	}
	for _, k := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[k]; !ok {
			t.Errorf("%q is too much", k)
		}
	}
}

// mess does things of all kinds.
func mess(t testing.TB, l *Ledger, n int) {
	t.Helper()
	update(t, l, func(tx *Tx) error {
		key := &ledgerv1.Key{Caller: "c", Key: strconv.Itoa(n), Task: queuedTask(n).Id}
		b := batch(n)
		b.Task = queuedTask(n).Id
		return errors.Join(Tasks.Put(tx, queuedTask(n)), Keys.Put(tx, key), Batches.Put(tx, b),
			Works.Put(tx, &ledgerv1.Work{Task: b.Task, Batch: b.Id, Work: []byte{1, 2, 3}}),
			Drafts.Put(tx, &ledgerv1.Draft{Task: b.Task, Name: "big"}))
	})
	if n%3 == 0 {
		update(t, l, func(tx *Tx) error { return Tasks.Put(tx, ended(n)) })
	}
	if n%5 == 0 {
		update(t, l, func(tx *Tx) error {
			return errors.Join(Works.Delete(tx, queuedTask(n).Id, batch(n).Id), Batches.Delete(tx, queuedTask(n).Id, batch(n).Id))
		})
	}
}

// The records of one ledger make another one that is equal, in one go or not.
func TestReplay(t *testing.T) {
	s := &tape{}
	l := fresh(t, Options{Log: func(own Log) Log { s.Log = own; return s }})
	for n := range 40 {
		mess(t, l, n)
	}
	if _, err := l.Prune(t.Context(), time.Now().Add(100*365*24*time.Hour), 3); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for len(s.records) > 0 {
		follower := opened(t, dir, Options{Follow: true})
		some := s.records[:min(len(s.records), 30)]
		for _, r := range some {
			sent := must.Get(proto.Marshal(r))(t)
			got := &ledgerv1.Record{}
			must.Do(t, proto.Unmarshal(sent, got))
			must.Do(t, follower.Apply(t.Context(), got))
			must.Do(t, follower.Apply(t.Context(), got)) // once more is no error
		}
		if err := follower.Apply(t.Context(), &ledgerv1.Record{Sequence: follower.Sequence() + 2}); !errors.Is(err, mover.ErrConflict) {
			t.Errorf("a gap: %v", err)
		}
		s.records = s.records[len(some):]
		if len(s.records) == 0 {
			sameDump(t, dump(t, l), dump(t, follower))
		}
		closed(t, follower)
	}
}

// Two processes can not have one ledger.
func TestHeld(t *testing.T) {
	dir := t.TempDir()
	l := opened(t, dir, Options{})
	if _, err := Open(dir, Options{}); !errors.Is(err, mover.ErrHeld) {
		t.Errorf("Open = %v", err)
	}
	if err := Restore(dir, strings.NewReader(""), nil); !errors.Is(err, mover.ErrHeld) {
		t.Errorf("Restore = %v", err)
	}
	closed(t, l)
	closed(t, l) // twice is no error
	if err := l.View(func(*Tx) error { return nil }); !errors.Is(err, mover.ErrUsage) {
		t.Errorf("View of a closed ledger = %v", err)
	}
	closed(t, opened(t, dir, Options{}))
}

// Keys sort as their parts do, and a prefix is one of whole parts.
func TestKeyOrder(t *testing.T) {
	part := rapid.Custom(func(t *rapid.T) string {
		return string(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 2, 'a', 254, 255}), 0, 4).Draw(t, "part"))
	})
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SliceOfN(part, 0, 4).Draw(t, "a")
		b := rapid.SliceOfN(part, 0, 4).Draw(t, "b")
		x, y := appendKey(nil, a...), appendKey(nil, b...)
		if slices.Compare(a, b) != bytes.Compare(x, y) {
			t.Errorf("%q and %q are %x and %x", a, b, x, y)
		}
		isPrefix := len(a) <= len(b) && slices.Equal(a, b[:len(a)])
		if isPrefix != bytes.HasPrefix(y, x) {
			t.Errorf("%q and %q: prefix %v", a, b, isPrefix)
		}
		if isPrefix && !bytes.Equal(after(y, len(a)), appendKey(nil, b[len(a):]...)) {
			t.Errorf("%x without %d parts is %x", y, len(a), after(y, len(a)))
		}
	})
}

// No two tables, and no two indexes of one, share a letter: they are in files.
func TestLetters(t *testing.T) {
	seen := map[string]string{}
	for name, table := range tables {
		prefix := string(table.row(nil))
		if other, ok := seen[prefix]; ok {
			t.Errorf("%s and %s share a letter", name, other)
		}
		seen[prefix] = name
	}
}

func copied(t testing.TB, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	must.Do(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}
