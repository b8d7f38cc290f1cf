package bufpool

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"unsafe"

	"go.uber.org/goleak"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBlockSize(t *testing.T) {
	const k, m = 1 << 10, 1 << 20
	for _, row := range []struct{ n, want int }{
		{0, 4 * k}, {1, 4 * k}, {4 * k, 4 * k}, {4*k + 1, 8 * k}, {16 * k, 16 * k},
		{16*k + 1, 20 * k}, {20*k + 1, 24 * k}, {1 * m, 1 * m}, {1*m + 1, 1*m + 256*k},
		{5 * m, 5 * m}, {8 * m, 8 * m}, {17 * m, 20 * m}, {64 * m, 64 * m},
	} {
		if got := blockSize(row.n); got != row.want {
			t.Errorf("blockSize(%d) = %d, want %d", row.n, got, row.want)
		}
	}
	for n := 1; n < 40*m; n += 1 + n/7 {
		if got := blockSize(n); got < n || got%Align != 0 || n > 4*Align && got-n > n/4 {
			t.Errorf("blockSize(%d) = %d", n, got)
		}
	}
}

func TestGetIsAlignedAndReused(t *testing.T) {
	p := New(16 << 20)
	for _, n := range []int{0, 1, 4096, 5000, 1 << 20, 3<<20 + 1} {
		b := get(t, p, n)
		if len(b) != n {
			t.Errorf("Get(%d) has length %d", n, len(b))
		}
		first := unsafe.SliceData(b)
		if uintptr(unsafe.Pointer(first))%Align != 0 {
			t.Errorf("Get(%d) begins at %p", n, first)
		}
		clear(b)
		p.Put(b[:n/2])
		if again := get(t, p, n); unsafe.SliceData(again) != first {
			t.Errorf("Get(%d) after Put gave other memory", n)
		} else {
			p.Put(again)
		}
	}
	if p.InUse() != 0 {
		t.Errorf("InUse = %d after all was put back", p.InUse())
	}
}

//safety:8 with TestLimitHolds
func TestGetWaitsForRoomInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(8 << 10)
		held := get(t, p, 8<<10)
		order := make(chan int, 2)
		for i := range 2 {
			go func() {
				b := get(t, p, 8<<10)
				order <- i
				p.Put(b)
			}()
			synctest.Wait()
		}
		if len(order) != 0 {
			t.Fatal("Get gave more than the limit")
		}
		p.Put(held)
		if a, b := <-order, <-order; a != 0 || b != 1 {
			t.Errorf("served in order %d, %d", a, b)
		}
		synctest.Wait()
	})
}

func TestGetEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(4 << 10)
		held := get(t, p, 1)
		why := errors.New("stopped by the test")
		ctx, cancel := context.WithCancelCause(t.Context())
		failed := make(chan error)
		go func() { _, err := p.Get(ctx, 1); failed <- err }()
		synctest.Wait()
		cancel(why)
		if err := <-failed; !errors.Is(err, why) {
			t.Errorf("Get = %v", err)
		}
		p.Put(held)
		p.Put(get(t, p, 1)) // what was given up is free again
	})
}

func TestOversizedIsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(8 << 10)
		small := get(t, p, 1)
		got := make(chan []byte, 1)
		go func() { got <- get(t, p, 1<<20) }()
		synctest.Wait()
		if len(got) != 0 {
			t.Fatal("an oversized buffer was given beside another")
		}
		p.Put(small)
		big := <-got
		if p.InUse() != 1<<20 {
			t.Errorf("InUse = %d", p.InUse())
		}
		p.Put(big)
		p.Put(get(t, p, 1))
	})
}

//safety:8 buffers are lent within a limit
func TestLimitHolds(t *testing.T) {
	const limit = 1 << 20
	p := New(limit)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(w)))
			for range 500 {
				b := get(t, p, 1+rnd.IntN(limit/2))
				b[0], b[len(b)-1] = byte(w), byte(w)
				runtime.Gosched()
				if b[0] != byte(w) {
					t.Error("two users of one buffer")
				}
				p.Put(b)
			}
		})
	}
	wg.Wait()
	if p.Peak() > limit || p.InUse() != 0 {
		t.Errorf("peak %d of %d, in use at the end %d", p.Peak(), limit, p.InUse())
	}
	p.Trim()
	if p.stock.held != 0 {
		t.Errorf("%d bytes idle after Trim", p.stock.held)
	}
}

func TestWrongUse(t *testing.T) {
	p := New(0)
	b := get(t, p, 10)
	p.Put(b)
	for name, bad := range map[string][]byte{"twice": b, "foreign": make([]byte, 4096), "empty": nil} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Put of a buffer %s did not panic", name)
				}
			}()
			p.Put(bad)
		}()
	}
	if _, err := p.Get(t.Context(), -1); !errors.Is(err, mover.ErrUsage) {
		t.Errorf("Get(-1) = %v", err)
	}
}

func TestNilIsTheDefaultPool(t *testing.T) {
	var p *Pool
	b := get(t, p, 100)
	if p.InUse() != 4096 || process().InUse() != 4096 {
		t.Errorf("InUse = %d", p.InUse())
	}
	p.Put(b)
}

func BenchmarkGetPut(b *testing.B) {
	p := New(0)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			buf, _ := p.Get(context.Background(), 8<<20)
			p.Put(buf)
		}
	})
}

func get(t *testing.T, p *Pool, n int) []byte {
	b := must.Get(p.Get(t.Context(), n))(t)
	return b
}
