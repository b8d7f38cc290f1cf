package transfer_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/limit"
	"datamove.dev/mover/mem"
	"datamove.dev/mover/transfer"
)

// late is a source of which each read takes a second.
type late struct{ mover.Source }

func (s late) Open(ctx context.Context, e mover.Entry) (mover.Content, error) {
	c, err := s.Source.Open(ctx, e)
	return lateContent{c}, err
}

type lateContent struct{ mover.Content }

func (c lateContent) Range(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	r, err := c.Content.Range(ctx, off, n)
	return lateReader{r}, err
}

type lateReader struct{ io.ReadCloser }

func (r lateReader) Read(p []byte) (int, error) {
	time.Sleep(time.Second)
	return r.ReadCloser.Read(p)
}

// What is waited for the source, or for a limit, is not waited for the target, although
// it is the target that pulls.
func TestWaitsAreApart(t *testing.T) {
	for _, c := range []struct {
		name   string
		source func(mover.Source) mover.Source
		reads  bool // it is the source that is waited for
	}{
		{"a slow source", func(s mover.Source) mover.Source { return late{s} }, true},
		{"a limit", func(s mover.Source) mover.Source { return limit.Source(s, limit.NewBandwidth(1<<20)) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := mem.NewTree().Files(map[string]string{"large": strings.Repeat("0123456789abcdef", 1<<20)})
				var n transfer.Counters
				begun := time.Now()
				res, err := syncTo(t.Context(), c.source(mem.New(source, mem.Options{})), mem.New(mem.NewTree(), mem.Options{}), transfer.Options{Jobs: 1, Counters: &n})
				if f := res.failed(); err != nil || f != nil {
					t.Fatal(err, f)
				}
				took, sourceWait, targetWait := time.Since(begun), time.Duration(n.SourceWait.Load()), time.Duration(n.TargetWait.Load())
				if took < 4*time.Second || targetWait != 0 || (sourceWait > 0) != c.reads {
					t.Errorf("of %v it waited %v for the source and %v for the target", took, sourceWait, targetWait)
				}
			})
		})
	}
}
