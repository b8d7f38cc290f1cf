package state

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	datamovev1 "datamove.dev/api/datamove/v1"

	"datamove.dev/test/must"
)

// What a tally counts is what is there, also when it begins while others change tasks.
func TestTally(t *testing.T) {
	l := fresh(t, Options{})
	change := func(dice *rand.Rand, from int) {
		update(t, l, func(tx *Tx) error {
			for range 1 + dice.IntN(4) { // some of them the same one
				m := queuedTask(from + dice.IntN(50))
				m.State = states[dice.IntN(len(states))]
				err := Tasks.Put(tx, m)
				if dice.IntN(5) == 0 {
					err = Tasks.Delete(tx, m.Id)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	dice := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		change(dice, 0)
	}
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			dice := rand.New(rand.NewPCG(3, uint64(n)))
			for range 100 {
				change(dice, 20*n)
			}
		})
	}
	y := must.Get(Count(t.Context(), l, Tasks, (*datamovev1.Task).GetState))(t)
	sums := must.Get(Sum(t.Context(), l, Tasks, func(m *datamovev1.Task, bytes int, add func(string, int64)) {
		add("bytes", int64(bytes))
		add(m.GetState().String(), 1)
	}))(t)
	all.Wait()
	want, bytes := map[datamovev1.TaskState]int64{}, int64(0)
	view(t, l, func(tx *Tx) error {
		for m, err := range Tasks.All(tx, Range{}) {
			if err != nil {
				return err
			}
			want[m.State]++
			bytes += int64(proto.Size(m))
		}
		return nil
	})
	if got := y.Counts(); !maps.Equal(got, want) {
		t.Errorf("counted %v, there are %v", got, want)
	}
	if got := sums.Of("bytes"); got != bytes {
		t.Errorf("the rows have %d bytes, and are said to have %d", bytes, got)
	}
	for state, n := range want {
		if got := sums.Of(state.String()); got != n {
			t.Errorf("%v: %d, there are %d", state, got, n)
		}
	}
}

func TestTallyIsStopped(t *testing.T) {
	l := fresh(t, Options{})
	update(t, l, func(tx *Tx) error { return Tasks.Put(tx, queuedTask(1)) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Count(ctx, l, Tasks, (*datamovev1.Task).GetState); !errors.Is(err, context.Canceled) {
		t.Errorf("count: %v", err)
	}
}

func TestOldestQueued(t *testing.T) {
	l := fresh(t, Options{})
	classes := []datamovev1.TaskClass{datamovev1.TaskClass_TASK_CLASS_STAGE, datamovev1.TaskClass_TASK_CLASS_TIER}
	update(t, l, func(tx *Tx) error {
		for n := range 20 {
			m := queuedTask(n)
			m.Spec.Class, m.State = classes[n%2], datamovev1.TaskState_TASK_STATE_QUEUED
			if n < 6 {
				m.State = datamovev1.TaskState_TASK_STATE_RUNNING
			}
			if err := Tasks.Put(tx, m); err != nil {
				return err
			}
		}
		return nil
	})
	view(t, l, func(tx *Tx) error {
		for i, want := range []string{queuedTask(6).Id, queuedTask(7).Id} {
			if m, err := OldestQueued(tx, classes[i]); err != nil || m.GetId() != want {
				t.Errorf("%v: %s, %v, want %s", classes[i], m.GetId(), err, want)
			}
		}
		if m, err := OldestQueued(tx, datamovev1.TaskClass_TASK_CLASS_SCRUB); m != nil || err != nil {
			t.Errorf("of a class that nobody asked for: %v, %v", m, err)
		}
		return nil
	})
}

// Changes that are stored are told with their time, others with why not, and what
// changes nothing is not told.
func TestCommitted(t *testing.T) {
	var stored, refused atomic.Int64
	var broken atomic.Bool
	l := fresh(t, Options{
		Committed: func(took time.Duration, err error) {
			switch {
			case err != nil:
				refused.Add(1)
			case took <= 0:
				t.Error("a change took no time")
			default:
				stored.Add(1)
			}
		},
		Log: func(own Log) Log { return breaking{own, &broken} },
	})
	put := func(tx *Tx) error { return Tasks.Put(tx, queuedTask(1)) }
	for _, row := range []struct {
		name            string
		durable         Durability
		change          func(*Tx) error
		broken          bool
		stored, refused int64
	}{
		{"durable", Durable, put, false, 1, 0},
		{"soon", Soon, put, false, 0, 0},
		{"nothing", Durable, func(*Tx) error { return nil }, false, 0, 0},
		{"its own mistake", Durable, func(*Tx) error { return io.ErrUnexpectedEOF }, false, 0, 0},
		{"not stored", Soon, put, true, 0, 1},
	} {
		stored.Store(0)
		refused.Store(0)
		broken.Store(row.broken)
		_ = l.Update(t.Context(), row.durable, row.change)
		if stored.Load() != row.stored || refused.Load() != row.refused {
			t.Errorf("%s: %d stored, %d refused", row.name, stored.Load(), refused.Load())
		}
	}
	broken.Store(false)
}

// breaking is a log that takes nothing while it is broken.
type breaking struct {
	Log
	broken *atomic.Bool
}

func (b breaking) Append(ctx context.Context, r *ledgerv1.Record) error {
	if b.broken.Load() {
		return fmt.Errorf("broken: %w", io.ErrShortWrite)
	}
	return b.Log.Append(ctx, r)
}

func TestSize(t *testing.T) {
	l := fresh(t, Options{})
	update(t, l, func(tx *Tx) error { return Tasks.Put(tx, queuedTask(1)) })
	size, free, err := l.Size()
	if err != nil || size <= 0 || free <= 0 {
		t.Errorf("size %d, free %d, %v", size, free, err)
	}
}
