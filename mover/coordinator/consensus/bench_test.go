package consensus

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/raft"

	"datamove.dev/mover/coordinator/state"
	"datamove.dev/test/must"
)

// benchmarkUpdate has callers change the ledger of so many members on one disk, which messages in memory connect; 0 members are a ledger that is alone.
func benchmarkUpdate(b *testing.B, members, callers int) {
	l := aloneOrLeads(b, members)
	var n atomic.Int64
	b.SetParallelism(callers)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			id := fmt.Sprint(n.Add(1))
			must.Tell(b, l.Update(context.Background(), state.Durable, func(tx *state.Tx) error { return putIn(tx, id) }))
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "updates/s")
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.Sys)/(1<<20), "MiB-of-Go")
	text := must.Get(os.ReadFile("/proc/self/status"))(b)
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	var peak float64
	_, err := fmt.Sscan(rest, &peak)
	must.Do(b, err)
	b.ReportMetric(peak/1024, "MiB-peak")
}

func aloneOrLeads(b *testing.B, members int) *state.Ledger {
	dir := b.TempDir()
	first := filepath.Join(dir, "0", "ledger")
	must.Do(b, os.MkdirAll(filepath.Dir(first), 0o700))
	alone := must.Get(state.Open(first, state.Options{}))(b)
	if members == 0 {
		b.Cleanup(func() { must.Do(b, alone.Close()) })
		return alone
	}
	leads := make(chan *state.Ledger, members)
	var all []*Member
	var wires []*raft.InmemTransport
	for i := range members {
		id := fmt.Sprint(i)
		_, wire := raft.NewInmemTransport(raft.ServerAddress(id))
		for _, w := range wires {
			w.Connect(wire.LocalAddr(), wire)
			wire.Connect(w.LocalAddr(), w)
		}
		wires = append(wires, wire)
		o := Options{ID: id, Transport: wire, Ledger: alone}
		if i == 0 {
			must.Do(b, Bootstrap(filepath.Join(dir, id, "raft"), o))
			must.Do(b, alone.Close())
		}
		l := must.Get(state.Open(filepath.Join(dir, id, "ledger"), state.Options{Follow: true}))(b)
		o.Ledger = l
		m := must.Get(Open(filepath.Join(dir, id, "raft"), o))(b)
		b.Cleanup(func() { must.Do(b, m.Close()); must.Do(b, l.Close()) })
		all = append(all, m)
		go func() {
			_ = m.Serve(context.Background(), func(ctx context.Context, _ uint64) error { leads <- l; <-ctx.Done(); return ctx.Err() })
		}()
		if i == 0 {
			leads <- <-leads
		} else {
			must.Do(b, all[0].Join(context.Background(), id, id))
		}
	}
	return <-leads
}

func BenchmarkDurableAlone(b *testing.B)   { benchmarkUpdate(b, 0, 1) }
func BenchmarkDurableOf1(b *testing.B)     { benchmarkUpdate(b, 1, 1) }
func BenchmarkDurableOf3(b *testing.B)     { benchmarkUpdate(b, 3, 1) }
func BenchmarkDurable64Alone(b *testing.B) { benchmarkUpdate(b, 0, 32) } // of each processor
func BenchmarkDurable64Of3(b *testing.B)   { benchmarkUpdate(b, 3, 32) }
