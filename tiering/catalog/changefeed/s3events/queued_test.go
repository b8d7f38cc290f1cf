package s3events

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"datamove.dev/test/seed"
	"datamove.dev/tiering/catalog/changefeed"
)

// line is a standard queue of SQS: what was received is hidden for a time, and comes again until it is done with by who received it last; after so many
// receptions it goes elsewhere (Amazon SQS developer guide, "visibility timeout" and "dead-letter queues").
type line struct {
	random   *rand.Rand
	messages []message
	kept     time.Duration
	most     int // receptions; 0 is any
	clock    func() time.Time
	idle     func(wait time.Duration) // nothing has come for so long
	lost     []string                 // went elsewhere
}

type message struct {
	name     string
	received int
	hidden   time.Time // until then
}

const hidden = 30 * time.Second

func (l *line) send(name string) { l.messages = append(l.messages, message{name: name}) }

func (l *line) has(name string) bool {
	return slices.ContainsFunc(l.messages, func(m message) bool { return m.name == name })
}

func (l *line) Kept(context.Context) (time.Duration, time.Duration, error) {
	if l.most > 0 {
		return time.Duration(l.most-1) * hidden, hidden, nil
	}
	return l.kept, 0, nil
}

func (l *line) Receive(ctx context.Context, wait time.Duration, tell func(string, time.Time), lose func(string)) (func(context.Context) error, bool, error) {
	if ctx.Err() != nil {
		return nil, false, ctx.Err()
	}
	now := l.clock()
	l.messages = slices.DeleteFunc(l.messages, func(m message) bool {
		over := l.most > 0 && m.received == l.most && !now.Before(m.hidden)
		if over {
			l.lost = append(l.lost, m.name)
		}
		return over
	})
	var some []message
	least := min(1, int(wait)) // who waits is given something, if there is any (developer guide, "long polling")
	for i, most := 0, least+l.random.IntN(4-least); i < len(l.messages) && len(some) < most; i++ {
		if m := &l.messages[i]; !now.Before(m.hidden) {
			m.received, m.hidden = m.received+1, now.Add(hidden)
			some = append(some, *m)
		}
	}
	for _, m := range some {
		if tell(m.name, time.Unix(1000, 0)); m.name == "odd" {
			lose("it is odd")
		}
	}
	if len(some) == 0 && l.idle != nil {
		l.idle(wait)
	}
	return func(context.Context) error {
		l.messages = slices.DeleteFunc(l.messages, func(m message) bool {
			return slices.ContainsFunc(some, func(r message) bool { return r.name == m.name && r.received == m.received })
		})
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
		taken, seen, all, sent := map[string]bool{}, map[string]bool{}, 0, 0
		l.clock, l.most = func() time.Time { return now }, []int{0, 1, 4}[nth%3]
		f := &Queued{Queue: l, Window: time.Millisecond, Now: func() time.Time { now = now.Add(time.Duration(random.IntN(2)) * time.Millisecond); return now }}
		run := func(batches int) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			err := f.Run(ctx, func(string) ([]byte, error) { return stored, nil }, func(_ context.Context, b changefeed.Batch) error {
				if batches--; batches < 0 {
					return errKilled
				}
				for _, name := range b.Names {
					taken[name] = true
				}
				if b.All {
					all++
					for _, m := range l.messages {
						seen[m.name] = true // what it says had happened before all was looked at
					}
					for _, name := range l.lost {
						seen[name] = true
					}
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
				l.send(fmt.Sprint("name-", sent))
			}
			l.send(fmt.Sprint("wake-", sent)) // so that there is something to take
			run(random.IntN(3))
		}
		unknown := func(name string) bool { return !taken[name] && !seen[name] }
		for again := 0; slices.ContainsFunc(l.lost, unknown); again++ {
			if again > 9 {
				t.Fatalf("case %d: %q went elsewhere, and nobody knows", nth, l.lost)
			}
			l.send("wake") // who listens again finds out
			run(2)
		}
		for i := range sent {
			name := fmt.Sprint("name-", i+1)
			if !taken[name] && !l.has(name) && !slices.Contains(l.lost, name) {
				t.Fatalf("case %d: %s has left the queue, and nobody has taken it", nth, name)
			}
		}
		if all > 1 && l.most == 0 {
			t.Fatalf("case %d: everything %d times, where the queue remembers", nth, all)
		}
		now = now.Add([]time.Duration{31 * time.Minute, 25 * time.Hour}[nth%2])
		l.send("late")
		before := all
		for all == before {
			run(2)
		}
	}
}

// TestQueuedOdd: a message that says nothing has everything looked at.
func TestQueuedOdd(t *testing.T) {
	l := &line{random: rand.New(rand.NewPCG(1, 1)), messages: []message{{name: "odd"}}, clock: time.Now, kept: 96 * time.Hour}
	n := 0
	err := (&Queued{Queue: l}).Run(t.Context(), func(string) ([]byte, error) { return mark(time.Now())[0].Value, nil }, func(_ context.Context, b changefeed.Batch) error {
		if n++; !b.All || b.Why != "it is odd" || b.Since.IsZero() {
			t.Errorf("%+v", b)
		}
		return errKilled
	})
	if !errors.Is(err, errKilled) || n != 1 || len(l.messages) != 1 {
		t.Errorf("%v, taken %d times", err, n)
	}
}
