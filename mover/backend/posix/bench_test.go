package posix

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/minio/crc64nvme"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/backendtest"
	"datamove.dev/test/must"
)

// rangeFeed is the part of a content, hashed as it passes.
type rangeFeed struct {
	io.ReadCloser
	sum uint64
}

func (f *rangeFeed) Read(b []byte) (int, error) {
	n, err := f.ReadCloser.Read(b)
	f.sum = crc64nvme.Update(f.sum, b[:n])
	return n, err
}
func (f *rangeFeed) Hole() int64   { return 0 }
func (f *rangeFeed) Sum() uint64   { return f.sum }
func (f *rangeFeed) Rewind() error { return mover.ErrUnsupported }

// plant makes dirs directories of files files of size bytes each.
func plant(t testing.TB, root string, dirs, files, size int) {
	t.Helper()
	content := make([]byte, size)
	for i := range content {
		content[i] = byte(i * 7)
	}
	for d := range dirs {
		dir := filepath.Join(root, fmt.Sprintf("dir-%05d", d))
		must.Do(t, os.MkdirAll(dir, 0o755))
		for f := range files {
			must.Do(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("file-%05d", f)), content, 0o644))
		}
	}
}

// copyOne copies one small file, up to Publish.
func copyOne(ctx context.Context, source, target *Backend, e mover.Entry, in mover.Draft) (mover.Draft, error) {
	c, err := source.Open(ctx, e)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	now := c.Entry()
	d, err := target.Draft(ctx, now, mover.Hints{By: benchOwner, In: in})
	if err != nil {
		return nil, err
	}
	r, err := c.Range(ctx, 0, e.Size)
	if err != nil {
		return nil, err
	}
	feed := rangeFeed{ReadCloser: r}
	receipt, err := d.WritePart(ctx, mover.Part{Length: e.Size}, &feed)
	r.Close()
	if err == nil {
		err = c.Check(ctx)
	}
	if err == nil {
		err = d.Finish(ctx, now, []mover.Receipt{receipt})
	}
	return d, err
}

var benchOwner = mover.WriterID{Task: "bench", Epoch: 1}

// copyDir copies the files of one directory as one batch.
func copyDir(ctx context.Context, source, target *Backend, files []mover.Entry, dir mover.Entry, drafts bool) error {
	var batch []mover.Draft
	var in mover.Draft
	if drafts {
		d, err := target.Draft(ctx, dir, mover.Hints{By: benchOwner})
		if err != nil {
			return err
		}
		in, batch = d, append(batch, d)
	} else if err := target.Mkdir(ctx, dir); err != nil {
		return err
	}
	for _, e := range files {
		d, err := copyOne(ctx, source, target, e, in)
		if err != nil {
			return err
		}
		batch = append(batch, d)
	}
	if drafts {
		if err := in.Finish(ctx, dir, nil); err != nil {
			return err
		}
	}
	for _, out := range target.Publish(ctx, batch) {
		if out.Err != nil {
			return out.Err
		}
	}
	return nil
}

// copyTree copies a tree of two levels.
func copyTree(ctx context.Context, source, target *Backend, workers int, drafts bool) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	var dir mover.Entry
	var files []mover.Entry
	flush := func() {
		if d, f := dir, files; d.Kind != 0 {
			g.Go(func() error { return copyDir(ctx, source, target, f, d, drafts) })
		}
		files = nil
	}
	for e, err := range source.Walk(ctx, mover.WalkOptions{}) {
		if err != nil {
			return err
		}
		if e.Kind == mover.Dir {
			flush()
			dir = e
			continue
		}
		files = append(files, e)
	}
	flush()
	return g.Wait()
}

// cpuTime is what this process has used so far. It tells more than the wall clock
// on a machine that others use too.
func cpuTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkSmallFiles copies 10,000 files of 4 KiB in 100 directories.
func BenchmarkSmallFiles(b *testing.B) {
	from := memoryDir(b)
	plant(b, from, 100, 100, 4096)
	for _, way := range []struct {
		name    string
		workers int
		drafts  bool
	}{
		{"rename/1", 1, false}, {"rename/2", 2, false}, {"rename/4", 4, false},
		{"dirs/1", 1, true}, {"dirs/2", 2, true}, {"dirs/4", 4, true},
	} {
		b.Run(way.name, func(b *testing.B) {
			source := open(b, from, Options{})
			defer source.Close()
			var cpu time.Duration
			for b.Loop() {
				b.StopTimer()
				to := memoryDir(b)
				target := open(b, to, Options{})
				before := cpuTime()
				b.StartTimer()
				must.Do(b, copyTree(b.Context(), source, target, way.workers, way.drafts))
				b.StopTimer()
				cpu += cpuTime() - before
				target.Close()
				os.RemoveAll(to)
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/10_000, "µs/file")
			b.ReportMetric(float64(cpu.Microseconds())/float64(b.N)/10_000, "cpu-µs/file")
		})
	}
}

// BenchmarkWalk walks 100,000 files in 1,000 directories, and in one.
func BenchmarkWalk(b *testing.B) {
	for _, shape := range []struct {
		name        string
		dirs, files int
	}{{"many", 1000, 100}, {"one", 1, 100_000}} {
		b.Run(shape.name, func(b *testing.B) {
			root := memoryDir(b)
			plant(b, root, shape.dirs, shape.files, 0)
			p := open(b, root, Options{})
			defer p.Close()
			for b.Loop() {
				n := 0
				for _, err := range p.Walk(b.Context(), mover.WalkOptions{}) {
					must.Do(b, err)
					n++
				}
				if n != shape.dirs*(shape.files+1) {
					b.Fatalf("%d entries", n)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(shape.dirs*shape.files), "ns/file")
		})
	}
}

// BenchmarkLargeFile copies one file of 512 MiB by two workers, hashed.
func BenchmarkLargeFile(b *testing.B) {
	const size = 512 << 20
	from := memoryDir(b)
	plant(b, from, 1, 1, size)
	source := open(b, from, Options{})
	defer source.Close()
	target := open(b, memoryDir(b), Options{})
	defer target.Close()
	e := statOf(b, source, "dir-00000/file-00000")
	b.SetBytes(size)
	var cpu time.Duration
	for b.Loop() {
		before := cpuTime()
		must.Do(b, copyLarge(b.Context(), source, target, e, 2))
		cpu += cpuTime() - before
	}
	b.ReportMetric(float64(cpu.Milliseconds())/float64(b.N)*(1<<30)/size, "cpu-ms/GiB")
}

func copyLarge(ctx context.Context, source, target *Backend, e mover.Entry, workers int) error {
	c, err := source.Open(ctx, e)
	if err != nil {
		return err
	}
	defer c.Close()
	e = c.Entry()
	e.Name = "copy"
	d, err := target.Draft(ctx, e, mover.Hints{By: benchOwner})
	if err != nil {
		return err
	}
	defer d.Close()
	parts := backendtest.Parts(e.Size, target.Capabilities().PartBytes)
	receipts := make([]mover.Receipt, len(parts))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for i, part := range parts {
		g.Go(func() error {
			r, err := c.Range(gctx, part.Off, part.Length)
			if err != nil {
				return err
			}
			defer r.Close()
			receipts[i], err = d.WritePart(gctx, part, &rangeFeed{ReadCloser: r})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if err := d.Finish(ctx, e, receipts); err != nil {
		return err
	}
	return target.Publish(ctx, []mover.Draft{d})[0].Err
}
