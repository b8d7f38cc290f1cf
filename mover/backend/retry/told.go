package retry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"datamove.dev/mover"
)

// Wait is a call that has failed for a while, and is tried again.
type Wait struct {
	Err   error     // of its last try
	Until time.Time // about when it is given up
}

func (w *Wait) String() string {
	return fmt.Sprintf("%v; it is tried again until about %s", w.Err, w.Until.Format(time.TimeOnly))
}

// silent is how long a call without an answer takes that has not failed yet: a store's stall, as it is by default.
const silent = time.Minute

// quiet is how long a call may fail, or wait for its first answer, before that is told.
const quiet = 2 * time.Second

// teller is told of the calls under a context.
type teller struct {
	tell func(*Wait)

	mu    sync.Mutex
	calls int // that wait; guarded by mu
}

type tellerKey struct{}

// Telling returns a context under which tell is told of a call that fails for a while, and with nil when no call does any more.
// It is called from many goroutines, one at a time, and must not block for long.
func Telling(ctx context.Context, tell func(*Wait)) context.Context {
	return context.WithValue(ctx, tellerKey{}, &teller{tell: tell})
}

func tellerOf(ctx context.Context) *teller {
	t, _ := ctx.Value(tellerKey{}).(*teller)
	return t
}

func (t *teller) enter(w *Wait) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls++; t.calls == 1 {
		t.tell(w)
	}
}

func (t *teller) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls--; t.calls == 0 {
		t.tell(nil)
	}
}

// errSilent is told of a call that has no answer yet.
var errSilent = errors.New("there is no answer yet")

// Opening is Do for a call that comes before all others. That a try has no answer yet is told, too: it may be the address that is wrong.
func Opening(ctx context.Context, o Options, place string, call func() error) error {
	tries := newTrier(o).begin("open", place)
	told := tellerOf(ctx)
	return tries.do(ctx, func() error {
		if told != nil {
			defer told.silence(&Wait{&mover.Error{Op: "open", Place: place, Err: errSilent}, tries.silentUntil()})()
		}
		return call()
	})
}

// silence tells of a call that is not answered for a while, until answered is called.
func (t *teller) silence(w *Wait) (answered func()) {
	var mu sync.Mutex
	over, waits := false, false
	alarm := time.AfterFunc(quiet, func() {
		mu.Lock()
		defer mu.Unlock()
		if waits = !over; waits {
			t.enter(w)
		}
	})
	return func() {
		alarm.Stop()
		mu.Lock()
		defer mu.Unlock()
		if over = true; waits {
			t.leave()
		}
	}
}
