package consensus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/encoding/protodelim"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/test/must"
)

// onFiles gives nodes the files of a real member, which are synced, and a snapshot after few entries.
func onFiles(n *node) { n.disk, n.every = nil, 20 }

func closeAll(nodes ...*node) {
	for _, n := range nodes {
		n.close()
	}
}

// others are the nodes but for one.
func others(nodes []*node, n *node) []*node {
	return slices.DeleteFunc(slices.Clone(nodes), func(o *node) bool { return o == n })
}

// TestAloneThreeAlone: a ledger that is alone becomes the first of three, and is alone again. Nothing is lost, and no term and no epoch comes again.
func TestAloneThreeAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := three(t, newNetwork(1), onFiles)
		l := leader(t, nodes...)
		for k := range 100 {
			must.Do(t, put(context.Background(), l.ledger, fmt.Sprint("three-", k)))
		}
		term, epoch := l.ledger.Term(), must.Get(l.ledger.Epoch(context.Background()))(t)
		if err := l.member.Dissolve(); !errors.Is(err, mover.ErrConflict) {
			t.Errorf("Dissolve of three = %v", err)
		}
		for _, n := range others(nodes, l) {
			must.Do(t, l.member.Remove(n.id))
			n.close()
		}
		want := rows(t, l.ledger)
		must.Do(t, l.member.Dissolve())
		l.stop()
		l.ended()
		if _, err := os.Stat(l.raftDir()); !errors.Is(err, mover.ErrNotExist) {
			t.Errorf("its log is left: %v", err)
		}
		l.ledger = must.Get(state.Open(l.ledgerDir(), state.Options{}))(t)
		got := rows(t, l.ledger)
		for k, v := range want {
			if k != "sequence" && !bytes.HasPrefix([]byte(k), []byte("counters/")) && got[k] != v {
				t.Errorf("%q is %q, and was %q", k, got[k], v)
			}
		}
		if l.ledger.Term() <= term || must.Get(l.ledger.Epoch(context.Background()))(t) <= epoch {
			t.Errorf("term %d after %d, or an epoch comes again", l.ledger.Term(), term)
		}
		must.Do(t, os.MkdirAll(filepath.Join(l.raftDir(), "log"), 0o700)) // what a kill left in the middle of Dissolve
		must.Do(t, os.WriteFile(filepath.Join(l.raftDir(), "log", "vote"), []byte("of the old cluster"), 0o600))
		must.Do(t, l.ledger.Close())
		l.bootstrap(nil)
		must.Do(t, put(context.Background(), leader(t, l).ledger, "again"))
		l.close()
	})
}

// TestJoinBySnapshot: a member that joins gets what the log has no longer from the snapshot, and the rest from the log.
func TestJoinBySnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newNetwork(1)
		a, b := newNode(t, net, "a", 1), newNode(t, net, "b", 2)
		onFiles(a)
		onFiles(b)
		a.bootstrap(nil)
		l := leader(t, a)
		for k := range 100 {
			must.Do(t, put(context.Background(), l.ledger, fmt.Sprint(k)))
		}
		until(t, "a shorter log", func() bool { return must.Get(l.member.stores.logs.FirstIndex())(t) > 20 })
		b.start()
		must.Do(t, l.member.Join(t.Context(), "b", "b"))
		members := must.Get(l.member.Members())(t)
		if len(members) != 2 || !members[1].Voter || members[1].Contact.IsZero() || members[1].Last == 0 {
			t.Errorf("members %v", members)
		}
		settled(t, a, b)
		same(t, a, b)
		closeAll(a, b)
	})
}

// TestLostTail: the ledger of a member loses in a power cut what it has not synced, and gets it again from the log of this member.
func TestLostTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := three(t, newNetwork(1), onFiles)
		l := leader(t, nodes...)
		for k := range 50 {
			must.Do(t, put(context.Background(), l.ledger, fmt.Sprint(k)))
		}
		settled(t, nodes...)
		for _, n := range nodes { // a snapshot, before which the ledger was synced
			until(t, "a shorter log of "+n.id, func() bool { return must.Get(n.member.stores.logs.FirstIndex())(t) > 20 })
		}
		for k := range 10 {
			must.Do(t, put(context.Background(), l.ledger, fmt.Sprint("later-", k)))
		}
		settled(t, nodes...)
		last := l.ledger.Sequence()
		for _, n := range nodes {
			n.crash(true)
			n.ledger = n.open()
			if n.ledger.Sequence() >= last {
				t.Errorf("%s has lost nothing", n.id)
			}
			must.Do(t, n.ledger.Close())
		}
		for _, n := range nodes {
			n.start()
		}
		l = leader(t, nodes...)
		for k := range 50 {
			if !has(t, l.ledger, fmt.Sprint(k)) {
				t.Errorf("change %d is lost", k)
			}
		}
		settled(t, nodes...)
		same(t, nodes...)
		closeAll(nodes...)
	})
}

// TestSnapshotNotInPlace: a process that ends when it has the snapshot of the leader, and before its ledger has it, goes on with that.
func TestSnapshotNotInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newNetwork(1)
		a, b := newNode(t, net, "a", 1), newNode(t, net, "b", 2)
		a.bootstrap(nil)
		for k := range 10 {
			must.Do(t, put(context.Background(), leader(t, a).ledger, fmt.Sprint(k)))
		}
		b.start()
		before := filepath.Join(t.TempDir(), "before")
		imageOf(t, b.ledgerDir(), before)
		must.Do(t, leader(t, a).member.Join(t.Context(), "b", "b"))
		b.crash(false)
		imageOf(t, before, b.ledgerDir())
		b.start()
		settled(t, a, b)
		same(t, a, b)
		closeAll(a, b)
	})
}

// TestStaleDraft: a change that was drafted before another leader made changes is refused, also when its member leads again by the time that it is proposed.
func TestStaleDraft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newNetwork(1)
		nodes := three(t, net, nil)
		first := leader(t, nodes...)
		drafted, release, ended := make(chan struct{}), make(chan struct{}), make(chan error)
		go func() {
			ended <- first.ledger.Update(context.Background(), state.Durable, func(tx *state.Tx) error {
				close(drafted)
				<-release
				return putIn(tx, "stale")
			})
		}()
		<-drafted
		for _, n := range others(nodes, first) {
			net.cut(first.id, n.id, true)
			net.cut(n.id, first.id, true)
		}
		second := leader(t, others(nodes, first)...)
		for k := range 3 {
			must.Do(t, put(context.Background(), second.ledger, fmt.Sprint("second-", k)))
		}
		net.heal()
		until(t, "the first leads again", func() bool {
			for _, n := range others(nodes, first) {
				if n.member.Status().Leads {
					_ = n.member.StepDown()
				}
			}
			return first.member.Status().Leads
		})
		close(release)
		if err := <-ended; !errors.Is(err, state.ErrNotLeader) {
			t.Errorf("Update = %v", err)
		}
		must.Do(t, put(context.Background(), leader(t, nodes...).ledger, "next"))
		settled(t, nodes...)
		same(t, nodes...)
		if has(t, first.ledger, "stale") {
			t.Error("the stale change is there")
		}
		closeAll(nodes...)
	})
}

// TestCutOff: a leader that reaches no majority fails its change with ErrUnknown and follows. A follower says since when it has heard of no leader, and is read meanwhile.
func TestCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newNetwork(1)
		nodes := three(t, net, nil)
		first := leader(t, nodes...)
		must.Do(t, put(context.Background(), first.ledger, "before"))
		settled(t, nodes...)
		for _, n := range others(nodes, first) {
			net.cut(first.id, n.id, true)
			net.cut(n.id, first.id, true)
		}
		begun := time.Now()
		if err := put(context.Background(), first.ledger, "lost"); !errors.Is(err, state.ErrUnknown) {
			t.Errorf("Update = %v", err)
		}
		if err := put(context.Background(), first.ledger, "more"); !errors.Is(err, state.ErrNotLeader) || first.ledger.Term() != 0 {
			t.Errorf("Update = %v, in term %d", err, first.ledger.Term())
		}
		second := leader(t, others(nodes, first)...)
		must.Do(t, put(context.Background(), second.ledger, "after"))
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("the next change is made after %v", took)
		}
		time.Sleep(time.Minute)
		s := first.member.Status()
		if s.Leads || s.Leader != "" || time.Since(s.Contact) < time.Minute || s.Sequence >= second.ledger.Sequence() {
			t.Errorf("it stands so: %+v", s)
		}
		if !has(t, first.ledger, "before") || has(t, first.ledger, "lost") || has(t, first.ledger, "after") {
			t.Error("it has what it can not have, or not what it had")
		}
		net.heal()
		settled(t, nodes...)
		same(t, nodes...)
		if s := first.member.Status(); s.Leader == "" || time.Since(s.Contact) > time.Second || s.Known == 0 || s.Applied == 0 {
			t.Errorf("it stands so: %+v", s)
		}
		closeAll(nodes...)
	})
}

// TestServe: the work of a leader is told when the lead is lost, ends before the next begins, and gives the lead away when it ends by itself. A leader that is closed gives it away at once.
func TestServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards the next two
		var terms []uint64
		working, bad := map[*node]int{}, errors.New("bad")
		fails := make(chan struct{})
		nodes := three(t, newNetwork(1), func(n *node) {
			n.work = func(ctx context.Context, n *node, term uint64) error {
				if n.ledger.Term() != term {
					t.Errorf("term %d of the ledger, and %d of its work", n.ledger.Term(), term)
				}
				mu.Lock()
				terms = append(terms, term)
				working[n]++
				many := working[n]
				mu.Unlock()
				defer func() { mu.Lock(); working[n]--; mu.Unlock() }()
				if many > 1 {
					t.Error("two work")
				}
				select {
				case <-ctx.Done():
					if !errors.Is(context.Cause(ctx), state.ErrNotLeader) && !errors.Is(context.Cause(ctx), context.Canceled) {
						t.Errorf("cause %v", context.Cause(ctx))
					}
					return ctx.Err()
				case <-fails:
					return bad
				}
			}
		})
		first := leader(t, nodes...)
		must.Do(t, first.member.StepDown())
		second := leader(t, others(nodes, first)...)
		fails <- struct{}{}
		if err := <-second.served; !errors.Is(err, bad) {
			t.Errorf("Serve = %v", err)
		}
		second.served <- nil
		second.close() // it would lead without work
		second.start()
		third := leader(t, nodes...)
		begun := time.Now()
		third.close()
		leader(t, others(nodes, third)...)
		if took := time.Since(begun); took > time.Second/2 {
			t.Errorf("there is a leader after %v: it was elected, and not given the lead", took)
		}
		closeAll(nodes...)
		if !slices.IsSorted(terms) || len(slices.Compact(terms)) < 4 {
			t.Errorf("terms %v", terms)
		}
	})
}

// record is an entry of a raft log with a record.
func record(index, term, drafted uint64, r *ledgerv1.Record) *raft.Log {
	data := bytes.NewBuffer([]byte{entryRecords, 0, 0, 0, 0, 0, 0, 0, byte(drafted)})
	_, _ = protodelim.MarshalTo(data, r) // a buffer takes all
	return &raft.Log{Index: index, Term: term, Data: data.Bytes()}
}

// TestEntries: an old record again, and one of another term, change nothing. What can not be applied ends the member with the reason, and nothing is applied from then on.
func TestEntries(t *testing.T) {
	for _, c := range []struct {
		name  string
		entry func(next uint64) *raft.Log
		want  error
	}{
		{"a gap", func(next uint64) *raft.Log { return record(99, 5, 5, &ledgerv1.Record{Sequence: next + 1}) }, mover.ErrCorrupt},
		{"a later version's entry", func(uint64) *raft.Log { return &raft.Log{Index: 99, Term: 5, Data: []byte("z")} }, mover.ErrUnsupported},
		{"a later version's table", func(next uint64) *raft.Log {
			return record(99, 5, 5, &ledgerv1.Record{Sequence: next, Changes: []*ledgerv1.Change{{Table: "later", Key: []byte("k")}}})
		}, mover.ErrUnsupported},
		{"a cut entry", func(uint64) *raft.Log { return &raft.Log{Index: 99, Term: 5, Data: []byte{entryRecords, 0}} }, mover.ErrCorrupt},
		{"no record", func(uint64) *raft.Log {
			return &raft.Log{Index: 99, Term: 5, Data: []byte{entryRecords, 0, 0, 0, 0, 0, 0, 0, 5, 255}}
		}, mover.ErrCorrupt},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t, newNetwork(1), "a", 1)
			n.bootstrap(nil)
			leader(t, n)
			m := (*machine)(n.member)
			last := n.ledger.Sequence()
			for _, e := range []*raft.Log{record(98, 5, 5, &ledgerv1.Record{Sequence: last}), record(98, 5, 4, &ledgerv1.Record{Sequence: last + 1})} {
				if err, is := m.Apply(e).(error); is && !errors.Is(err, state.ErrNotLeader) {
					t.Errorf("%s: %v", c.name, err)
				}
			}
			if err, is := m.Apply(c.entry(last + 1)).(error); !is || !errors.Is(err, c.want) {
				t.Errorf("%s: %v", c.name, err)
			}
			if err, is := m.Apply(record(100, 5, 5, &ledgerv1.Record{Sequence: last + 1})).(error); !is || !errors.Is(err, c.want) {
				t.Errorf("%s: a failed member applies: %v", c.name, err)
			}
			if err := <-n.served; !errors.Is(err, c.want) || n.ledger.Sequence() != last {
				t.Errorf("%s: Serve = %v, and the ledger ends with %d", c.name, err, n.ledger.Sequence())
			}
			must.Do(t, n.member.Close())
			must.Do(t, n.ledger.Close())
		})
	}
}

// TestRefused: a member does not begin with what is not its own.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newNetwork(1)
		n := newNode(t, net, "a", 1)
		onFiles(n)
		n.wire = net.connect("a")
		refused := func(what string, kind error) {
			t.Helper()
			n.ledger = n.open()
			if _, err := Open(n.raftDir(), n.options()); !errors.Is(err, kind) {
				t.Errorf("%s: %v", what, err)
			}
			must.Do(t, n.ledger.Close())
		}
		n.ledger = must.Get(state.Open(n.ledgerDir(), state.Options{}))(t)
		must.Do(t, n.ledger.Close())
		refused("a ledger that was alone", mover.ErrConflict)
		n.bootstrap(nil)
		leader(t, n)
		if err := Bootstrap(n.raftDir(), n.options()); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("Bootstrap of a member = %v", err)
		}
		n.close()
		must.Do(t, os.RemoveAll(n.raftDir()))
		refused("a log that is gone", mover.ErrCorrupt)
	})
}

// TestOtherCluster: a member does not get the content of another cluster.
func TestOtherCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newNetwork(1)
		a, b := newNode(t, net, "a", 1), newNode(t, net, "b", 2)
		a.bootstrap(nil)
		b.bootstrap(nil)
		leader(t, b)
		want := rows(t, b.ledger)
		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		defer stop()
		if err := leader(t, a).member.Join(ctx, "b", "b"); err == nil {
			t.Error("it joined")
		}
		until(t, "the member leads its own cluster", func() bool { // the other one may have a later term, and disturbs it
			a.net.cut("a", "b", true)
			return b.member.Status().Leads && b.ledger.Term() > 0
		})
		b.close()
		b.start()
		leader(t, b)
		for k, v := range rows(t, b.ledger) {
			if k != "sequence" && k != "counters/term\x00\x01" && want[k] != v {
				t.Errorf("%q is %q, and was %q", k, v, want[k])
			}
		}
		closeAll(a, b)
	})
}
