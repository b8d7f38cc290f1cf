package loadgen_test

import (
	"testing"
	"time"

	"datamove.dev/bench/loadgen"
	"datamove.dev/test/must"
)

// BenchmarkRead reads small blocks past the page cache of $TMPDIR: what the generator adds to a read shows in its profile.
func BenchmarkRead(b *testing.B) {
	n := must.Get(loadgen.Open(b.Context(), loadgen.Setup{ID: id, Targets: []string{b.TempDir()}}, paths))(b)
	defer n.Close()
	w := loadgen.Work{Do: loadgen.Write, Nodes: 1, Ranks: 4, Tree: loadgen.Tree{Name: "large", Files: 1, Bytes: 64 << 20, Block: 4 << 20}, Cache: loadgen.Direct}
	must.Do(b, n.Prepare(b.Context(), w))
	r := n.Begin(b.Context(), time.Now())
	must.Do(b, r.Err())
	w.Do, w.Tree.Block = loadgen.Read, 4096
	b.SetBytes(4 * w.Tree.Bytes)
	for b.Loop() {
		must.Do(b, n.Prepare(b.Context(), w))
		r := n.Begin(b.Context(), time.Now())
		must.Do(b, r.Err())
		b.ReportMetric(r.CPU.Seconds()/float64(r.Ops())*1e6, "cpu-us/op")
	}
}
