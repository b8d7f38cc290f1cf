package fairshare

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// node is a machine that a scheduler shares: each slot moves so many bytes per second,
// and takes so long for an operation.
type node struct {
	*Scheduler
	bytesPerSec float64 // of one slot
	op          time.Duration

	mu   sync.Mutex // guards runs
	runs []run
}

// run is a turn that was had.
type run struct {
	flow       Flow
	price      int64
	begin, end time.Time
}

// do has one turn of a flow.
func (n *node) do(ctx context.Context, f Flow, c Cost) error {
	release, err := n.Acquire(ctx, f, c, Width{})
	if err != nil {
		return err
	}
	begin := time.Now()
	time.Sleep(time.Duration(float64(c.Bytes)/n.bytesPerSec*1e9) + time.Duration(c.Ops)*n.op)
	release(c)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.runs = append(n.runs, run{f, c.price(n.opBytes), begin, time.Now()})
	return nil
}

// work starts workers that have the turns of a flow between them.
func (n *node) work(ctx context.Context, wg *sync.WaitGroup, f Flow, workers int, turns []Cost) {
	todo := make(chan Cost, len(turns))
	for _, c := range turns {
		todo <- c
	}
	close(todo)
	for range workers {
		wg.Go(func() {
			for c := range todo {
				if n.do(ctx, f, c) != nil {
					return
				}
			}
		})
	}
}

// served is the price of what each flow had between two times, of turns that reach
// beyond them a part.
func (n *node) served(from, to time.Time) map[Flow]float64 {
	served := map[Flow]float64{}
	for _, r := range n.runs {
		begin, end := latest(r.begin, from), earliest(r.end, to)
		if begin.Before(end) {
			served[r.flow] += float64(r.price) * float64(end.Sub(begin)) / float64(r.end.Sub(r.begin))
		}
	}
	return served
}

func latest(a, b time.Time) time.Time   { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }
func earliest(a, b time.Time) time.Time { return slices.MinFunc([]time.Time{a, b}, time.Time.Compare) }

// share is the part that a flow had between two times.
func (n *node) share(f Flow, from, to time.Time) float64 {
	all := 0.0
	served := n.served(from, to)
	for _, price := range served {
		all += price
	}
	return served[f] / all
}

// lastBegin is when the last turn of a flow began: until then it wanted more.
func (n *node) lastBegin(f Flow) time.Time {
	last := time.Time{}
	for _, r := range n.runs {
		if r.flow == f {
			last = latest(last, r.begin)
		}
	}
	return last
}

func repeated(n int, costs ...Cost) []Cost { return slices.Repeat(costs, n) }

// Three equal projects share a node equally, one with a million small files, one with
// ten huge ones, one with both, as long as all three want it; and a restore that comes
// in the middle has the share of its class within a second.
func TestProjectsShareEqually(t *testing.T) {
	batch := Cost{Bytes: 250 * 4 << 10, Ops: 250} // of small files
	part := Cost{Bytes: 64 * mib, Ops: 1}         // of a huge one
	work := map[Flow][]Cost{
		flow(replicate, "small"): repeated(1_000_000/250, batch),
		flow(replicate, "huge"):  repeated(10*100, part),
		flow(replicate, "mixed"): repeated(1000, part, batch),
	}
	for _, row := range []struct {
		name string
		op   time.Duration // 250 µs is what 64 KiB take
	}{
		{"a node that is as the prices say", 250 * time.Microsecond},
		{"a node that is slow with small files", 750 * time.Microsecond},
		{"a node that is fast with small files", 100 * time.Microsecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := &node{Scheduler: NewScheduler(Options{Slots: 16}), bytesPerSec: 64 << 10 * 4000, op: row.op}
			var wg sync.WaitGroup
			for f, turns := range work {
				n.work(t.Context(), &wg, f, 32, turns)
			}
			began := time.Now()
			time.Sleep(5 * time.Second)
			urgent, arrived := flow(restore, "urgent"), time.Now()
			n.work(t.Context(), &wg, urgent, 32, repeated(200, part))
			wg.Wait()

			end := arrived.Add(time.Hour)
			for f := range work {
				end = earliest(end, n.lastBegin(f))
			}
			served := n.served(began, end)
			var shares []float64
			for f := range work {
				shares = append(shares, served[f])
			}
			if j := Jain(shares); j < 0.95 || end.Sub(began) < 10*time.Second {
				t.Errorf("%s: Jain %.4f in %v: %v", row.name, j, end.Sub(began), served)
			}
			const class = 32.0 / (32 + 4)
			if got := n.share(urgent, arrived.Add(time.Second), n.lastBegin(urgent)); got < 0.95*class {
				t.Errorf("%s: from one second on, the restore has %.3f of the node, want %.3f", row.name, got, class)
			}
			n.checkFull(t, row.name, began, end)
			t.Logf("%s: Jain %.4f in %v; the restore has %.3f of its first second, %.3f of the rest", row.name, Jain(shares), end.Sub(began),
				n.share(urgent, arrived, arrived.Add(time.Second)), n.share(urgent, arrived.Add(time.Second), n.lastBegin(urgent)))
		})
	}
}

// checkFull: all slots are taken all the time.
func (n *node) checkFull(t *testing.T, name string, from, to time.Time) {
	t.Helper()
	busy := time.Duration(0)
	for _, r := range n.runs {
		if d := earliest(r.end, to).Sub(latest(r.begin, from)); d > 0 {
			busy += d
		}
	}
	if want := time.Duration(n.slots) * to.Sub(from); busy != want {
		t.Errorf("%s: slots were busy for %v, want %v", name, busy, want)
	}
}
