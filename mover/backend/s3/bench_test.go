package s3_test

import (
	"context"
	"fmt"
	"io"
	"sync"
	"syscall"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/backendtest"
	"datamove.dev/mover/backend/s3"
	"datamove.dev/mover/backend/s3/s3api"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/test/must"
)

// cpu is the time that this process, and not the server, has computed.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func benchPlace(b *testing.B, client string, tls bool) *s3.Backend {
	o := s3test.Start(b, tls).Options(b)
	o.Client = client
	return s3test.Open(b, o)
}

// measured runs do and reports the CPU time of each of n operations.
func measured(b *testing.B, n int, do func()) {
	b.ResetTimer()
	before := cpu()
	do()
	b.ReportMetric(float64((cpu()-before).Microseconds())/float64(n), "cpu-us/op")
}

// spread calls do with every i below n from 16 goroutines, in batches of size.
func spread(n, size int, do func(from, to int)) {
	next := make(chan int)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for from := range next {
				do(from, min(n, from+size))
			}
		})
	}
	for i := 0; i < n; i += size {
		next <- i
	}
	close(next)
	wg.Wait()
}

func benchEntry(i int, size int64) mover.Entry {
	return mover.Entry{
		Name: fmt.Sprintf("d%03d/f%05d", i/100, i), Kind: mover.File, Size: size, Stored: size,
		Known: mover.FactMode | mover.FactOwner | mover.FactGroup | mover.FactMtime | mover.FactAtime,
		Mode:  0o644, UID: 1000, GID: 1000, Mtime: mover.Time{Sec: 1_700_000_000, Nsec: 5}, Atime: mover.Time{Sec: 1_700_000_001},
	}
}

// upload publishes the files from up to to, as one batch.
func upload(ctx context.Context, p *s3.Backend, data []byte, from, to int) error {
	var batch []mover.Draft
	for i := from; i < to; i++ {
		e := benchEntry(i, int64(len(data)))
		d, err := p.Draft(ctx, e, mover.Hints{By: mover.WriterID{Task: "bench", Epoch: 1}})
		if err != nil {
			return err
		}
		r, err := d.WritePart(ctx, mover.Part{Length: e.Size}, backendtest.NewFeed(data))
		if err != nil {
			return err
		}
		if err := d.Finish(ctx, e, []mover.Receipt{r}); err != nil {
			return err
		}
		batch = append(batch, d)
	}
	for _, out := range p.Publish(ctx, batch) {
		if out.Err != nil {
			return out.Err
		}
	}
	return nil
}

func download(ctx context.Context, p *s3.Backend, e mover.Entry, buf []byte) error {
	c, err := p.Open(ctx, e)
	if err != nil {
		return err
	}
	defer c.Close()
	r, err := c.Range(ctx, 0, e.Size)
	if err != nil {
		return err
	}
	defer r.Close()
	if _, err := io.ReadFull(r, buf[:e.Size]); err != nil {
		return err
	}
	if _, err := r.Read(buf[:1]); err != io.EOF {
		return fmt.Errorf("after the end: %w", err)
	}
	return c.Check(ctx)
}

func BenchmarkUpload16KiB(b *testing.B) {
	for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
		b.Run(client, func(b *testing.B) {
			p, data := benchPlace(b, client, false), backendtest.Pattern(16<<10)
			measured(b, b.N, func() {
				spread(b.N, 32, func(from, to int) {
					must.Tell(b, upload(b.Context(), p, data, from, to))
				})
			})
		})
	}
}

func BenchmarkDownload16KiB(b *testing.B) {
	for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
		b.Run(client, func(b *testing.B) {
			p, data := benchPlace(b, client, false), backendtest.Pattern(16<<10)
			must.Do(b, upload(b.Context(), p, data, 0, 100))
			var all []mover.Entry
			for e, err := range p.Walk(b.Context(), mover.WalkOptions{}) {
				must.Do(b, err)
				if e.Kind == mover.File {
					all = append(all, e)
				}
			}
			buffers := sync.Pool{New: func() any { return new([16<<10 + 1]byte) }}
			measured(b, b.N, func() {
				spread(b.N, 32, func(from, to int) {
					buf := buffers.Get().(*[16<<10 + 1]byte)
					defer buffers.Put(buf)
					for i := from; i < to; i++ {
						must.Tell(b, download(b.Context(), p, all[i%len(all)], buf[:]))
					}
				})
			})
		})
	}
}

// BenchmarkLarge moves one object of 512 MiB up and down in parts of 16 MiB by
// four goroutines; cpu-us/op is for one MiB.
func BenchmarkLarge(b *testing.B) {
	const size, part = 512 << 20, 16 << 20
	p, data := benchPlace(b, s3api.ClientMinio, false), backendtest.Pattern(part)
	e := benchEntry(0, size)
	parts := backendtest.Parts(size, part)
	b.Run("up", func(b *testing.B) {
		measured(b, b.N*size>>20, func() {
			for range b.N {
				must.Do(b, uploadParts(b.Context(), p, e, parts, data))
			}
		})
	})
	b.Run("down", func(b *testing.B) {
		e := must.Get(p.Stat(b.Context(), e.Name))(b)
		c := must.Get(p.Open(b.Context(), e))(b)
		defer c.Close()
		measured(b, b.N*size>>20, func() {
			for range b.N {
				each(parts, func(_ int, q mover.Part) {
					r, err := c.Range(b.Context(), q.Off, q.Length)
					if err == nil {
						buf := make([]byte, 1<<20)
						for err == nil {
							_, err = r.Read(buf)
						}
						r.Close()
					}
					if err != io.EOF {
						b.Error(err)
					}
				})
			}
		})
	})
}

func each(parts []mover.Part, do func(i int, p mover.Part)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, 4)
	for i, p := range parts {
		slots <- struct{}{}
		wg.Go(func() {
			do(i, p)
			<-slots
		})
	}
	wg.Wait()
}

func uploadParts(ctx context.Context, p *s3.Backend, e mover.Entry, parts []mover.Part, data []byte) error {
	d, err := p.Draft(ctx, e, mover.Hints{By: mover.WriterID{Task: "bench", Epoch: 1}})
	if err != nil {
		return err
	}
	defer d.Close()
	receipts := make([]mover.Receipt, len(parts))
	errs := make([]error, len(parts))
	each(parts, func(i int, q mover.Part) {
		receipts[i], errs[i] = d.WritePart(ctx, q, backendtest.NewFeed(data[:q.Length]))
	})
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	if err := d.Finish(ctx, e, receipts); err != nil {
		return err
	}
	return p.Publish(ctx, []mover.Draft{d})[0].Err
}
