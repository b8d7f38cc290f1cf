package throttle

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/backendtest"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// limited is a place whose source side is limited to much.
type limited struct {
	mover.Backend
	source mover.Source
}

func (l limited) Open(ctx context.Context, e mover.Entry) (mover.Content, error) {
	return l.source.Open(ctx, e)
}

func TestContract(t *testing.T) {
	backendtest.Run(t, func(*testing.T) func() mover.Backend {
		tree := mem.NewTree()
		return func() mover.Backend {
			p := mem.New(tree, mem.Options{Reflinks: true})
			return limited{p, Source(p, NewBandwidth(1<<40))}
		}
	})
}

func TestBandwidthHolds(t *testing.T) {
	for _, bytesPerSec := range []int64{1000, 1 << 20, 12 << 20} {
		synctest.Test(t, func(t *testing.T) {
			size := 10 * bytesPerSec
			bandwidth := NewBandwidth(bytesPerSec)
			src := Source(mem.New(mem.NewTree().Sparse("f", size, nil), mem.Options{}), bandwidth)
			c := open(t, src)
			began := time.Now()
			var wg sync.WaitGroup
			for i := range int64(4) { // one limit for all
				wg.Go(func() {
					r, err := c.Range(t.Context(), i*size/4, size/4)
					if err != nil {
						t.Error(err)
						return
					}
					defer r.Close()
					if n, err := io.Copy(io.Discard, r); n != size/4 || err != nil {
						t.Errorf("read %d bytes, %v", n, err)
					}
				})
			}
			wg.Wait()
			if took := time.Since(began); took < 9*time.Second || took > 11*time.Second {
				t.Errorf("10 s worth of bytes at %d per second took %v", bytesPerSec, took)
			}
			if p, w := bandwidth.Passed(), bandwidth.Waited(); p != size || w < 30*time.Second || w > 41*time.Second { // summed over four
				t.Errorf("of %d bytes %d have passed, and readers waited for %v", size, p, w)
			}
		})
	}
}

func TestBandwidthEndsWithItsContext(t *testing.T) {
	src := func() mover.Source {
		return Source(mem.New(mem.NewTree().Sparse("f", 1<<20, nil), mem.Options{}), NewBandwidth(1000))
	}
	read := func(ctx context.Context, t *testing.T) error {
		r, err := open(t, src()).Range(ctx, 0, 1<<20)
		if err != nil {
			return err
		}
		defer r.Close()
		_, err = io.Copy(io.Discard, r)
		return err
	}
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("stopped by the test")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(5*time.Second, func() { cancel(why) })
		if err := read(ctx, t); !errors.Is(err, why) {
			t.Errorf("read: %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := read(ctx, t); !errors.Is(err, mover.ErrTimeout) && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("read: %v", err)
		}
	})
}

func TestNoLimitIsNoWrapper(t *testing.T) {
	p := mem.New(nil, mem.Options{})
	if Source(p, NewBandwidth(0)) != mover.Source(p) {
		t.Error("a source without a limit is wrapped")
	}
	if got, ok := mover.As[*mem.Backend](Source(p, NewBandwidth(1))); !ok || got != p {
		t.Error("the place can not be found behind its limit")
	}
}

func open(t *testing.T, src mover.Source) mover.Content {
	t.Helper()
	e := must.Get(src.Stat(t.Context(), "f"))(t)
	c := must.Get(src.Open(t.Context(), e))(t)
	return c
}
