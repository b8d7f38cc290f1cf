package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"datamove.dev/mover"
	"datamove.dev/mover/location"
	"datamove.dev/test/must"
)

// TestHelperOpensUnlocked: while the first work of a pair opens its places, a second one that is stopped does not wait for it, a caller that
// asks the helper how it goes on is answered, and a work opens them itself when the first one was stopped.
func TestHelperOpensUnlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		opened := make(chan struct{})
		calls := 0
		h := must.Get(Help(Request{Work: Copy, Source: location.Location{Scheme: location.POSIX, Path: dir + "/a"}, Target: location.Location{Scheme: location.POSIX, Path: dir + "/b"}, StateDir: dir},
			func(ctx context.Context, _ location.Location, _ OpenOptions) (mover.Backend, error) {
				calls++
				select {
				case <-opened:
					return nil, mover.ErrPermission
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			}))(t)
		first, stopFirst := context.WithCancel(t.Context())
		second, stopSecond := context.WithCancel(t.Context())
		ends := make(chan error, 3)
		ask := func(ctx context.Context) {
			go func() { _, err := h.pair(ctx, 0); ends <- err }()
			synctest.Wait()
		}
		ask(first)
		if !h.mu.TryLock() {
			t.Fatal("it is locked while it opens")
		}
		h.mu.Unlock()
		ask(second)
		ask(t.Context())
		stopSecond()
		if err := <-ends; !errors.Is(err, context.Canceled) || calls != 1 {
			t.Errorf("the second, which was stopped: %v, after %d calls", err, calls)
		}
		stopFirst()
		if err := <-ends; !errors.Is(err, context.Canceled) {
			t.Errorf("the first, which was stopped: %v", err)
		}
		synctest.Wait()
		close(opened)
		if err := <-ends; !errors.Is(err, mover.ErrPermission) || calls < 2 {
			t.Errorf("the third: %v, after %d calls", err, calls)
		}
		must.Do(t, h.Close())
	})
}
