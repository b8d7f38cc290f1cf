package state

import (
	"context"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/test/kill"
	"datamove.dev/test/must"
	"datamove.dev/test/patience"
)

// TestMemory: an open ledger, of which all was read, keeps no object for each row. Objects are
// counted and not bytes, which BenchmarkMemory measures: a table that is made beside it takes MiB
// in a few objects.
//
//safety:8 a ledger with many rows, and a million ids that wait
func TestMemory(t *testing.T) {
	rows := kill.Times(8_000, 400_000)
	dir := t.TempDir()
	write := func(from, to int, most uint64) (objects uint64) {
		l := opened(t, dir, Options{})
		load(t, l, from, to)
		closed(t, l) // and with it all that makes tables
		l = opened(t, dir, Options{})
		defer closed(t, l)
		view(t, l, func(tx *Tx) error {
			n := 0
			for _, err := range Tasks.All(tx, Range{}) {
				must.Do(t, err)
				n++
			}
			if n != to {
				t.Errorf("%d of %d tasks", n, to)
			}
			return nil
		})
		patience.Until(t, fmt.Sprintf("at most %d objects with %d tasks", most, to), func() string { return "" }, func() bool {
			objects = heap().HeapObjects // those of what the ledger still does beside us are garbage at its end
			return objects <= most
		})
		return objects
	}
	few := write(0, rows/4, math.MaxUint64)
	many := write(rows/4, rows, few+uint64(rows)*3/4/4) // one for four rows more
	t.Logf("%d objects with %d tasks, %d with %d", few, rows/4, many, rows)
}

// heap returns what is in use when nothing is garbage.
func heap() (m runtime.MemStats) {
	runtime.GC()
	runtime.GC() // what the first one left in pools
	runtime.ReadMemStats(&m)
	return m
}

// BenchmarkMemory has 100,000 tasks put, and how much more memory that takes than a quarter of them.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		l := opened(b, b.TempDir(), Options{})
		load(b, l, 0, 25_000)
		few := settled()
		load(b, l, 25_000, 100_000)
		b.ReportMetric(float64(few), "B-of-25000")
		b.ReportMetric(float64(settled()), "B-of-100000")
		closed(b, l)
	}
}

// settled returns what is in use when no tables are being made: these have large buffers. It waits for that half a second.
func settled() uint64 {
	least := uint64(math.MaxUint64)
	for since := 0; since < 5; since++ {
		if now := heap().HeapAlloc; now < least-least/100 {
			least, since = now, 0
		}
		time.Sleep(100 * time.Millisecond)
	}
	return least
}

// load puts tasks and batches, 500 in one change.
func load(t testing.TB, l *Ledger, from, to int) {
	t.Helper()
	for ; from < to; from += 500 {
		update(t, l, func(tx *Tx) error {
			for n := from; n < from+500 && n < to; n++ {
				if err := Batches.Put(tx, batch(n)); err != nil {
					return err
				}
				if err := Tasks.Put(tx, queuedTask(n)); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// resident returns what the kernel has in memory of this process: its own, and pages of
// files, which can be taken from it at any time.
func resident(b *testing.B) (anonymous, file float64) {
	text := must.Get(os.ReadFile("/proc/self/status"))(b)
	of := func(name string) float64 {
		_, rest, _ := strings.Cut(string(text), name+":")
		kib := must.Get(strconv.Atoi(strings.Fields(rest)[0]))(b)
		return float64(kib) / 1024
	}
	return of("RssAnon"), of("RssFile")
}

func benchmarkUpdate(b *testing.B, d Durability, callers int) {
	l := fresh(b, Options{})
	var n atomic.Int64
	b.SetParallelism(callers)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			m := queuedTask(int(n.Add(1)))
			must.Tell(b, l.Update(context.Background(), d, func(tx *Tx) error { return Tasks.Put(tx, m) }))
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "updates/s")
}

func BenchmarkSoon(b *testing.B)      { benchmarkUpdate(b, Soon, 1) }
func BenchmarkDurable(b *testing.B)   { benchmarkUpdate(b, Durable, 1) }
func BenchmarkDurable64(b *testing.B) { benchmarkUpdate(b, Durable, 32) } // of each processor

// One turn is a million tasks and a million batches put, the ledger closed, and
// opened again.
func BenchmarkMillion(b *testing.B) {
	for b.Loop() {
		dir := b.TempDir()
		l := opened(b, dir, Options{})
		before, _ := resident(b)
		begun := time.Now()
		load(b, l, 0, 1_000_000)
		b.ReportMetric(2e6/time.Since(begun).Seconds(), "rows/s")
		anonymous, file := resident(b)
		b.ReportMetric(anonymous-before, "MiB-own")
		b.ReportMetric(file, "MiB-of-files")
		closed(b, l)
		begun = time.Now()
		l = opened(b, dir, Options{})
		b.ReportMetric(float64(time.Since(begun).Milliseconds()), "ms-to-open")
		closed(b, l)
	}
}

// Lists of a ledger with 100,000 tasks, of which nearly all have ended.
func BenchmarkFind(b *testing.B) {
	l := fresh(b, Options{})
	for from := 0; from < 100_000; from += 500 {
		update(b, l, func(tx *Tx) error {
			for n := from; n < from+500; n++ {
				m := ended(n)
				if n%1000 == 7 {
					m = queuedTask(n)
				}
				if err := Tasks.Put(tx, m); err != nil {
					return err
				}
			}
			return nil
		})
	}
	queued := []datamovev1.TaskState{datamovev1.TaskState_TASK_STATE_QUEUED}
	for name, f := range map[string]TaskFilter{
		"all":     {},
		"owner":   {Owner: "user3"},
		"queued":  {States: queued, Oldest: true},
		"project": {Project: "p3", Owner: "user2"},
		"label":   {Labels: map[string]string{"slurm_job": "77"}},
		"nothing": {Project: "p3", Owner: "user2", Labels: map[string]string{"slurm_job": "77"}, States: queued},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				view(b, l, func(tx *Tx) error {
					n := 0
					for _, err := range FindTasks(tx, f) {
						must.Do(b, err)
						if n++; n == 100 {
							break
						}
					}
					return nil
				})
			}
		})
	}
}
