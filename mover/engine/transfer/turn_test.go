package transfer_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/engine/transfer"
)

// A turn is asked for what a unit weighs, and ends with the bytes that were moved:
// whoever has small files pays for their operations once.
func TestTurnsAreWeighed(t *testing.T) {
	contents := map[string]string{"large": strings.Repeat("0123456789", 50_000)}
	for i := range 1000 {
		contents[fmt.Sprintf("d%d/f%d", i/100, i)] = "0123456789"
	}
	const all = 1000*10 + 500_000
	source, target := mem.NewTree().Files(contents), mem.NewTree()
	var bytes, ops, moved, open atomic.Int64
	turn := func(_ context.Context, a transfer.SlotRequest) (transfer.Slot, error) {
		bytes.Add(a.Bytes)
		ops.Add(a.Ops)
		open.Add(1)
		return transfer.Slot{Done: func(m int64) { moved.Add(m); open.Add(-1) }}, nil
	}
	res, err := syncTo(t.Context(), mem.New(source, mem.Options{}), mem.New(target, mem.Options{}), transfer.Options{AcquireSlot: turn})
	if f := res.failed(); err != nil || f != nil {
		t.Fatal(err, f)
	}
	same(t, source, target, mem.Options{})
	if bytes.Load() != all || moved.Load() != all || open.Load() != 0 {
		t.Errorf("%d bytes were asked for and %d were moved, of %d; %d turns are open", bytes.Load(), moved.Load(), all, open.Load())
	}
	if n := ops.Load(); n < 1000 || n > 1020 { // the files, their directories, and the large one that is opened
		t.Errorf("%d operations for 1,001 files in 10 directories", n)
	}
}

// giver gives as many turns at one time as are asked for.
type giver struct {
	alone bool
	room  chan struct{}

	mu   sync.Mutex
	last transfer.SlotRequest
	here int // asks that wait or run
	most int // of here
}

func (g *giver) turn(ctx context.Context, a transfer.SlotRequest) (transfer.Slot, error) {
	g.mu.Lock()
	g.last = a
	g.here++
	g.most = max(g.most, g.here)
	g.mu.Unlock()
	select {
	case g.room <- struct{}{}:
	case <-ctx.Done():
		return transfer.Slot{}, ctx.Err()
	}
	return transfer.Slot{Alone: g.alone, Done: func(int64) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.here--
		<-g.room
	}}, nil
}

// slow is a place where it takes a moment to open something.
type slow struct {
	*mem.Backend
	opened func()
}

func (s slow) Open(ctx context.Context, e mover.Entry) (mover.Content, error) {
	time.Sleep(time.Millisecond)
	s.opened()
	return s.Backend.Open(ctx, e)
}

// While others want turns too, a run has more units in line than it can have in work, so
// that one waits whenever one of its own ends. A number of jobs holds also then, and who is
// alone takes nothing ahead.
func TestUnitsStandInLine(t *testing.T) {
	contents := map[string]string{}
	for i := range 1000 {
		contents[fmt.Sprintf("f%03d", i)] = "0123456789"
	}
	for _, row := range []struct {
		name   string
		alone  bool
		jobs   int
		asks   transfer.SlotRequest
		inLine int // in line and in work, at one time, at most
		inWork int // at one time, at most
	}{ // a tree in memory says that four at a time are good
		{"beside others", false, 0, transfer.SlotRequest{Most: 8, Fill: 8}, 12, 8},
		{"beside others, with a number of jobs", false, 3, transfer.SlotRequest{Most: 3, Fill: 8}, 10, 3},
		{"beside others, with many jobs", false, 10, transfer.SlotRequest{Most: 10, Fill: 12}, 24, 10},
		{"alone", true, 0, transfer.SlotRequest{Most: 8, Fill: 8}, 4, 4},
		{"alone, with a number of jobs", true, 3, transfer.SlotRequest{Most: 3, Fill: 8}, 3, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			source, target := mem.NewTree().Files(contents), mem.NewTree()
			var n transfer.Counters
			var inWork atomic.Int64
			from := slow{mem.New(source, mem.Options{}), func() { inWork.Store(max(inWork.Load(), n.InFlight.Load())) }}
			g := &giver{alone: row.alone, room: make(chan struct{}, row.asks.Most)}
			res, err := syncTo(t.Context(), from, mem.New(target, mem.Options{}), transfer.Options{AcquireSlot: g.turn, Jobs: row.jobs, Counters: &n})
			if f := res.failed(); err != nil || f != nil {
				t.Fatal(row.name, err, f)
			}
			same(t, source, target, mem.Options{})
			if g.last.Most != row.asks.Most || g.last.Fill != row.asks.Fill {
				t.Errorf("%s: asked for %+v, want %+v", row.name, g.last, row.asks)
			}
			if g.most != row.inLine || inWork.Load() != int64(row.inWork) {
				t.Errorf("%s: %d were in line or in work, %d in work; want %d and %d", row.name, g.most, inWork.Load(), row.inLine, row.inWork)
			}
		})
	}
}

// While a worker waits for the answer that it may publish, the next one moves: the
// time that answers take is not added to the time that moving takes.
func TestMovesWhileItAsks(t *testing.T) {
	contents := map[string]string{}
	for i := range 1000 {
		contents[fmt.Sprintf("d%02d/f%03d", i/20, i)] = "0123456789"
	}
	const moving, answer = 1050 * time.Millisecond, 10 * time.Millisecond // files and directories, as slow has them; each answer
	for _, jobs := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			source, target := mem.NewTree().Files(contents), mem.NewTree()
			var asked atomic.Int64
			o := transfer.Options{
				Jobs: jobs,
				AcquireSlot: func(context.Context, transfer.SlotRequest) (transfer.Slot, error) {
					return transfer.Slot{Alone: true, Done: func(int64) {}}, nil
				},
				ConfirmLease: func(context.Context) error { asked.Add(1); time.Sleep(answer); return nil },
			}
			begun := time.Now()
			res, err := syncTo(t.Context(), slow{mem.New(source, mem.Options{}), func() {}}, mem.New(target, mem.Options{}), o)
			if f := res.failed(); err != nil || f != nil {
				t.Fatal(err, f)
			}
			same(t, source, target, mem.Options{})
			if took := time.Since(begun); asked.Load() < 10 || took > moving/time.Duration(jobs)+5*answer {
				t.Errorf("%d at a time: %v with %d answers of %v; moving takes %v", jobs, took, asked.Load(), answer, moving/time.Duration(jobs))
			}
		})
	}
}
