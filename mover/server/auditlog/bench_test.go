package auditlog

import (
	"fmt"
	"sync"
	"testing"

	"datamove.dev/test/must"
)

// BenchmarkAppend is one decision on the disk, asked for by so many callers at once.
func BenchmarkAppend(b *testing.B) {
	for _, callers := range []int{1, 64} {
		for _, noSync := range []bool{false, true} {
			b.Run(fmt.Sprintf("callers=%d/sync=%v", callers, !noSync), func(b *testing.B) {
				l := opened(b, b.TempDir(), Options{NoSync: noSync})
				b.ReportAllocs()
				var all sync.WaitGroup
				for c := range callers {
					all.Go(func() {
						for range (b.N + c) / callers { // b.N together
							must.Tell(b, l.Append(b.Context(), submit("project vision")))
						}
					})
				}
				all.Wait()
			})
		}
	}
}

// BenchmarkVerify reads a log; its rate is what the start of a service waits for.
func BenchmarkVerify(b *testing.B) {
	dir := b.TempDir()
	l := opened(b, dir, Options{NoSync: true})
	for range 20_000 {
		must.Do(b, l.Append(b.Context(), submit("project vision")))
	}
	b.SetBytes(l.size)
	must.Do(b, l.Close())
	for b.Loop() {
		whole(b, dir)
	}
}
