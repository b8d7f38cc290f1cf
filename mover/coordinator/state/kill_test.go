package state

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	"datamove.dev/mover"
	"datamove.dev/test/kill"
	"datamove.dev/test/must"
)

// write changes a ledger until it is killed, and says what was done when it is.
func write(dir string) error {
	l, err := Open(dir, Options{})
	if err != nil {
		return err
	}
	kill.Say("term", l.Term())
	ctx := context.Background()
	begin := int(l.Term()) * 1_000_000
	failed := make(chan error)
	turns := make(chan struct{}, 32) // of what waits for no disk, for each change that does: else a slow disk has thousands of the others between two
	for kind, d := range []Durability{Soon, Durable, Soon} {
		go func() {
			for n := begin + kind; ; n += 3 {
				if d == Soon {
					<-turns
				}
				if err := l.Update(ctx, d, func(tx *Tx) error { return five(tx, n) }); err != nil {
					failed <- err
					return
				}
				kill.Say([]string{"soon", "durable"}[d], n)
				for more := d == Durable; more; {
					select {
					case turns <- struct{}{}:
					default:
						more = false
					}
				}
			}
		}()
	}
	go func() {
		for range turns {
			epoch, err := l.Epoch(ctx)
			if err != nil {
				failed <- err
				return
			}
			kill.Say("epoch", epoch)
		}
	}()
	return <-failed
}

// five puts a task with all that can be its own.
func five(tx *Tx, n int) error {
	id := queuedTask(n).Id
	return errors.Join(Tasks.Put(tx, queuedTask(n)), Keys.Put(tx, &ledgerv1.Key{Caller: "c", Key: strconv.Itoa(n), Task: id}),
		Batches.Put(tx, &ledgerv1.Batch{Task: id, Id: "1"}), Works.Put(tx, &ledgerv1.Work{Task: id, Batch: "1", Work: make([]byte, 2000)}),
		Drafts.Put(tx, &ledgerv1.Draft{Task: id, Name: "big"}))
}

// fiveThere reports whether they are there, and an error if only some are.
func fiveThere(tx *Tx, n int) (bool, error) {
	id := queuedTask(n).Id
	_, err1 := Tasks.Get(tx, id)
	_, err2 := Keys.Get(tx, "c", strconv.Itoa(n))
	_, err3 := Batches.Get(tx, id, "1")
	_, err4 := Works.Get(tx, id, "1")
	_, err5 := Drafts.Get(tx, id, "big")
	there := 0
	for _, err := range []error{err1, err2, err3, err4, err5} {
		if err == nil {
			there++
		} else if !errors.Is(err, mover.ErrNotExist) {
			return false, err
		}
	}
	if there > 0 && there < 5 {
		return false, fmt.Errorf("task %d: %d of 5 rows", n, there)
	}
	return there == 5, nil
}

// told is what children said.
type told struct {
	terms, epochs []uint64
	soon, durable []int
}

// hear takes a line.
func (s *told) hear(t testing.TB) func(line string) {
	return func(line string) {
		word, rest, _ := strings.Cut(line, " ")
		n, err := strconv.ParseUint(rest, 10, 64)
		if err != nil {
			t.Error(line)
		}
		switch word {
		case "term":
			s.terms = append(s.terms, n)
		case "epoch":
			s.epochs = append(s.epochs, n)
		case "soon":
			s.soon = append(s.soon, int(n))
		case "durable":
			s.durable = append(s.durable, int(n))
		}
	}
}

// compare opens the ledger and looks for what was said; what was Soon only after a kill.
func (s *told) compare(t testing.TB, dir string, killed bool) {
	t.Helper()
	l := opened(t, dir, Options{})
	defer closed(t, l)
	for _, term := range s.terms {
		if l.Term() <= term {
			t.Errorf("term %d after %d", l.Term(), term)
		}
	}
	epoch := must.Get(l.Epoch(t.Context()))(t)
	for _, e := range s.epochs {
		if epoch <= e {
			t.Errorf("epoch %d after %d", epoch, e)
		}
	}
	want := s.durable
	if killed {
		want = append(want[:len(want):len(want)], s.soon...)
	}
	view(t, l, func(tx *Tx) error {
		for _, n := range want {
			if there, err := fiveThere(tx, n); !there || err != nil {
				t.Errorf("task %d is lost: %v", n, err)
			}
		}
		for m, err := range Tasks.All(tx, Range{}) {
			must.Do(t, err)
			n, _ := strconv.Atoi(strings.TrimPrefix(m.GetId(), "01HZX"))
			if _, err := fiveThere(tx, n); err != nil {
				t.Error(err)
			}
		}
		return nil
	})
	sameIndexes(t, l)
}

// sameIndexes compares the indexes with the rows.
func sameIndexes(t testing.TB, l *Ledger) {
	t.Helper()
	want := map[string]string{}
	got := map[string]string{}
	for k, v := range dump(t, l) {
		if k[0] == keyIndex {
			got[k] = v
			continue
		}
		for _, table := range tables {
			if key, ok := strings.CutPrefix(k, string(table.row(nil))); ok {
				entries := must.Get(table.entries([]byte(key), []byte(v)))(t)
				for _, e := range entries {
					want[string(e)] = ""
				}
			}
		}
	}
	sameDump(t, want, got)
}

// TestKill kills a process again and again. All that it said is there, changes
// are there whole or not at all, and no term or epoch comes again.
//
//safety:3 a real process is killed while it records in the ledger of the service, or opens one, also a new one: all that a method returned for is there, and no kill is damage
func TestKill(t *testing.T) {
	random := kill.Random(t)
	dir, s := t.TempDir(), &told{}
	for n := range kill.Times(3, 85) {
		kill.AtLine(t, "write", dir, []string{"soon", "durable", "epoch"}[n%3], 1+random.IntN(60), s.hear(t))
		if s.compare(t, dir, true); t.Failed() {
			return
		}
	}
	if len(s.durable) == 0 || len(s.soon) == 0 || len(s.epochs) == 0 {
		t.Errorf("%d and %d changes, and %d epochs", len(s.durable), len(s.soon), len(s.epochs))
	}
}

// live opens and closes a ledger again and again.
func live(dir string) error {
	for {
		if err := liveOnce(dir); err != nil {
			return err
		}
	}
}

func liveOnce(dir string) error {
	l, err := Open(dir, Options{})
	if err != nil {
		return err
	}
	if err := l.Update(context.Background(), Soon, func(tx *Tx) error { return five(tx, int(l.Term())) }); err != nil {
		return err
	}
	if err := l.Close(); err != nil {
		return err
	}
	kill.Say("term", l.Term())
	return nil
}

// TestKillOpening kills processes at calls with which they make and close a ledger, and some in the same one. That is
// no damage, and what was closed is there.
//
//safety:3 with TestKill
func TestKillOpening(t *testing.T) {
	random := kill.Random(t)
	whole := func(dir string, said []string) {
		t.Helper()
		l := opened(t, dir, Options{})
		defer closed(t, l)
		view(t, l, func(tx *Tx) error {
			for _, line := range said {
				n := must.Get(strconv.Atoi(strings.TrimPrefix(line, "term ")))(t)
				if there, err := fiveThere(tx, n); !there || err != nil {
					t.Errorf("task %d is lost: %v", n, err)
				}
			}
			for m, err := range Tasks.All(tx, Range{}) {
				must.Do(t, err)
				n, _ := strconv.Atoi(strings.TrimPrefix(m.GetId(), "01HZX"))
				if there, err := fiveThere(tx, n); !there || err != nil {
					t.Errorf("task %d: %v", n, err)
				}
			}
			return nil
		})
	}
	step := kill.Times(3, 1)
	calls := 1 + random.IntN(step)
	for killed := true; killed; calls += step {
		var said []string
		dir := t.TempDir()
		said, killed = kill.AtCall(t, "live once", dir, calls)
		whole(dir, said)
	}
	dir := t.TempDir()
	for range kill.Times(3, 50) {
		said, _ := kill.AtCall(t, "live", dir, 1+random.IntN(2*calls))
		whole(dir, said)
	}
}

// TestKilledBeforeReady: a process that was killed when its new ledger had its first
// record, and before the ledger was said to be ready, leaves nothing that the next one
// takes for a loss.
//
//safety:3 with TestKill
func TestKilledBeforeReady(t *testing.T) {
	dir := t.TempDir()
	l := opened(t, dir, Options{})
	must.Do(t, l.Sync())
	closed(t, l)
	id := must.Get(readIdentity(dir))(t)
	id.State = stateNew
	must.Do(t, id.write(dir))
	l = opened(t, dir, Options{})
	if l.Sequence() != 1 || l.Term() != 1 {
		t.Errorf("it goes on with record %d and term %d of what was never there", l.Sequence(), l.Term())
	}
	closed(t, l)
}
