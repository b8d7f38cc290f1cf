package service

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"datamove.dev/mover/backend"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
	"datamove.dev/test/must"
)

// BenchmarkOverhead copies the same small files by a process of its own and by the
// service, in turns, and reports the median of the ratios and how long it takes from the request
// to the first byte. OVERHEAD_FILES says how many files, OVERHEAD_DIR where.
func BenchmarkOverhead(b *testing.B) {
	if os.Getenv("OVERHEAD_DIR") == "" {
		b.Skip("OVERHEAD_DIR is not set: a directory with room for the copies")
	}
	files := 100_000
	if _, err := fmt.Sscan(os.Getenv("OVERHEAD_FILES"), &files); err != nil {
		files = 100_000
	}
	dir := must.Get(os.MkdirTemp(os.Getenv("OVERHEAD_DIR"), "overhead-"))(b)
	defer os.RemoveAll(dir)
	source := filepath.Join(dir, "source")
	block := make([]byte, 4096)
	for i := range files {
		path := filepath.Join(source, fmt.Sprintf("d%04d/f%06d", i/100, i))
		if i%100 == 0 {
			must.Do(b, os.MkdirAll(filepath.Dir(path), 0o755))
		}
		must.Do(b, os.WriteFile(path, block, 0o644))
	}
	c := newCluster(b, "n1")
	var ratios, plain, served, first []float64
	for i := range max(b.N, 5) {
		took := alone(b, source, filepath.Join(dir, fmt.Sprintf("alone%d", i)))
		begun := time.Now()
		done := c.Done(c.Copy(source, filepath.Join(dir, fmt.Sprintf("served%d", i))).GetId())
		by := time.Since(begun).Seconds()
		plain, served, ratios = append(plain, took), append(served, by), append(ratios, by/took)
		first = append(first, done.GetFirstByteTime().AsTime().Sub(done.GetCreateTime().AsTime()).Seconds())
		for _, d := range []string{"alone", "served"} {
			must.Do(b, os.RemoveAll(filepath.Join(dir, fmt.Sprintf("%s%d", d, i))))
		}
	}
	for name, xs := range map[string][]float64{"ratio": ratios, "plain-s": plain, "service-s": served, "first-byte-s": first} {
		slices.Sort(xs)
		b.ReportMetric(xs[len(xs)/2], name)
	}
	b.ReportMetric(first[len(first)-1], "first-byte-max-s")
}

// BenchmarkFirstByte submits small copies one after the other, and reports how long it takes
// from the request to the first byte.
func BenchmarkFirstByte(b *testing.B) {
	c := newCluster(b, "n1")
	must.Do(b, os.WriteFile(filepath.Join(c.Dir, "shared", "file"), []byte("content"), 0o644))
	var first []float64
	for i := range b.N + 3 {
		done := c.Done(c.Copy("shared:file", fmt.Sprintf("shared:copy%d", i)).GetId())
		if i >= 3 { // the first ones find nothing in memory
			first = append(first, done.GetFirstByteTime().AsTime().Sub(done.GetCreateTime().AsTime()).Seconds())
		}
	}
	slices.Sort(first)
	b.ReportMetric(first[len(first)/2], "p50-s")
	b.ReportMetric(first[len(first)*99/100], "p99-s")
	b.ReportMetric(first[len(first)-1], "max-s")
}

// alone is the plain command: a process of its own.
func alone(b *testing.B, source, target string) float64 {
	self := must.Get(os.Executable())(b)
	begun := time.Now()
	if out, err := exec.Command(self, "alone", source, target, b.TempDir()).CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	return time.Since(begun).Seconds()
}

// copyAlone is what that process does.
func copyAlone(source, target, stateDir string) error {
	t, err := engine.Start(context.Background(), engine.Request{
		Work: engine.Copy, Source: location.Location{Scheme: location.POSIX, Path: source},
		Target: location.Location{Scheme: location.POSIX, Path: target}, StateDir: stateDir,
	}, backend.Resolver{}.Open)
	if err == nil {
		_, err = t.Wait()
	}
	return err
}
