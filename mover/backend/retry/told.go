package retry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

// Wait is a call that has failed for a while, and is tried again.
type Wait struct {
	Err   error     // of its last try
	Since time.Time // when it began to fail, or was made
	Until time.Time // about when it is given up
}

func (w *Wait) String() string {
	return fmt.Sprintf("%v; it is tried again until about %s", w.Err, w.Until.Format(time.TimeOnly))
}

// Short is for which place it waits, and why, in a few words that stay the same while the cause does: "s3://b/x: connection refused".
func (w *Wait) Short() string {
	place := ""
	if e, ok := errors.AsType[*mover.Error](w.Err); ok && e.Location != "" {
		place = mover.Printable(e.Location) + ": "
	}
	return place + cause(w.Err)
}

// State is Short with both times, as they are now: "s3://b/x: connection refused, for 0:12, ends in 4:48".
func (w *Wait) State(now time.Time) string {
	return fmt.Sprintf("%s, for %s, ends in %s", w.Short(), units.Clock(now.Sub(w.Since)), units.Clock(w.Until.Sub(now)))
}

// cause is the innermost reason that tells causes apart, without the ends of a connection and the name of a call.
func cause(err error) string {
	var dns *net.DNSError
	var number syscall.Errno
	var timeout net.Error
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return "no such host " + mover.Printable(dns.Name)
	case errors.As(err, &number):
		return number.Error()
	case errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	}
	if e, ok := errors.AsType[*mover.Error](err); ok {
		err = e.Err
	}
	return err.Error()
}

// silent is how long a call without an answer takes that has not failed yet: a store's stall, as it is by default.
const silent = time.Minute

// quiet is how long a call may fail, or wait for its first answer, before that is told.
const quiet = 2 * time.Second

// teller is told of the calls under a context.
type teller struct {
	tell func(*Wait)

	mu    sync.Mutex
	calls int    // that wait; guarded by mu, as below
	last  string // what was told last, in short
}

type tellerKey struct{}

// WithNotice returns a context under which tell is told of a call that fails for a while, once more when another cause takes the place of the first one,
// and with nil when no call fails any more. What is told is not logged as a warning, too.
// It is called from many goroutines, one at a time, and must not block for long.
func WithNotice(ctx context.Context, tell func(*Wait)) context.Context {
	return context.WithValue(ctx, tellerKey{}, &teller{tell: tell})
}

func tellerOf(ctx context.Context) *teller {
	t, _ := ctx.Value(tellerKey{}).(*teller)
	return t
}

func (t *teller) enter(w *Wait) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls++
	t.say(w)
}

// changes is told of a further failure of a call that waits.
func (t *teller) changes(w *Wait) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.say(w)
}

// say tells what was not told last. mu is held.
func (t *teller) say(w *Wait) {
	if short := w.Short(); t.last != short {
		t.last = short
		t.tell(w)
	}
}

func (t *teller) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls--; t.calls == 0 {
		t.last = ""
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
			defer told.silence(&Wait{&mover.Error{Op: "open", Location: place, Err: errSilent}, time.Now(), tries.silentUntil()})()
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
