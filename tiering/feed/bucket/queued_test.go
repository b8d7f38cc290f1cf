package bucket

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"datamove.dev/test/seed"
	"datamove.dev/tiering/feed"
)

// line is a queue: what was received comes again until it is done with.
type line struct {
	random   *rand.Rand
	messages []string
	received int
	kept     time.Duration
	idle     func(wait time.Duration) // nothing has come for so long
}

func (l *line) Kept(context.Context) (time.Duration, error) { return l.kept, nil }

func (l *line) Receive(ctx context.Context, wait time.Duration, tell func(string, time.Time), lose func(string)) (func(context.Context) error, bool, error) {
	if ctx.Err() != nil {
		return nil, false, ctx.Err()
	}
	some := slices.Clone(l.messages[:min(len(l.messages), l.random.IntN(4))])
	for _, m := range some {
		l.received++
		if tell(m, time.Unix(1000, 0)); m == "odd" {
			lose("it is odd")
		}
	}
	if len(some) == 0 && l.idle != nil {
		l.idle(wait)
	}
	return func(context.Context) error {
		for _, m := range some {
			if i := slices.Index(l.messages, m); i >= 0 {
				l.messages = slices.Delete(l.messages, i, i+1)
			}
		}
		return nil
	}, len(some) > 0, nil
}

var errKilled = errors.New("killed")

// TestQueued: whatever ends a run, and wherever, every name comes to who takes it, and leaves the queue after that alone; it says All when it begins, and when nobody has listened for longer than the queue is relied on.
//
//safety:5 a tree that changes while what hears of it is killed, loses events or its connection: the catalog is what a scan would make of it, and what an agent says is not believed
func TestQueued(t *testing.T) {
	first := seed.Of(t)
	for nth := range uint64(60) {
		random := rand.New(rand.NewPCG(first+nth, 0))
		l, now, stored := &line{random: random, kept: []time.Duration{time.Hour, 14 * 24 * time.Hour}[nth%2]}, time.Unix(2_000_000, 0), []byte(nil)
		l.idle = func(wait time.Duration) { now = now.Add(wait) }
		taken, all, sent := map[string]bool{}, 0, 0
		f := &Queued{Queue: l, Window: time.Millisecond, Now: func() time.Time { now = now.Add(time.Duration(random.IntN(2)) * time.Millisecond); return now }}
		run := func(batches int) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			err := f.Run(ctx, func(string) ([]byte, error) { return stored, nil }, func(_ context.Context, b feed.Batch) error {
				if batches--; batches < 0 {
					return errKilled
				}
				for _, name := range b.Names {
					taken[name] = true
				}
				if b.All {
					all++
				}
				if stored = b.Marks[0].Value; random.IntN(3) == 0 {
					return errKilled // after it was stored
				}
				return nil
			})
			if !errors.Is(err, errKilled) {
				t.Fatalf("case %d: %v", nth, err)
			}
		}
		for range 20 {
			for range random.IntN(5) {
				sent++
				l.messages = append(l.messages, fmt.Sprint("name-", sent))
			}
			l.messages = append(l.messages, "wake") // so that there is something to take
			run(random.IntN(3))
		}
		for i := range sent {
			name := fmt.Sprint("name-", i+1)
			if !taken[name] && !slices.Contains(l.messages, name) {
				t.Fatalf("case %d: %s has left the queue, and nobody has taken it", nth, name)
			}
		}
		if all > 1 {
			t.Fatalf("case %d: everything %d times, where the queue remembers", nth, all)
		}
		now = now.Add([]time.Duration{31 * time.Minute, 25 * time.Hour}[nth%2])
		l.messages = append(l.messages, "late")
		before := all
		for all == before {
			run(2)
		}
	}
}

// TestQueuedOdd: a message that says nothing has everything looked at.
func TestQueuedOdd(t *testing.T) {
	l := &line{random: rand.New(rand.NewPCG(1, 1)), messages: []string{"odd"}, kept: 96 * time.Hour}
	n := 0
	err := (&Queued{Queue: l}).Run(t.Context(), func(string) ([]byte, error) { return mark(time.Now())[0].Value, nil }, func(_ context.Context, b feed.Batch) error {
		if n++; !b.All || b.Why != "it is odd" || b.Since.IsZero() {
			t.Errorf("%+v", b)
		}
		return errKilled
	})
	if !errors.Is(err, errKilled) || n != 1 || len(l.messages) != 1 {
		t.Errorf("%v, taken %d times", err, n)
	}
}
