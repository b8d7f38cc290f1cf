// Package retry tries again what failed for a time.
//
// [New] wraps a place, [NewSource] a source. A call that fails with
// mover.ErrTransient, ErrUnreachable or ErrTimeout is made again after a wait that
// doubles, with jitter, and not before the time that the place asked for. A walk
// goes on behind the last entry that it yielded, a range at the next byte that is
// missing, a part from its beginning; of a batch only the drafts that failed are
// published again. All other errors are final and pass through as they are, and so are those with the mark mover.ErrLasting.
// What waits is told to the context that [WithNotice] made.
//
// All calls through one wrapper share a budget of retries: successes earn it,
// retries spend it. When it is spent, because most calls fail, waits become as
// long as they get, so that a storm of retries does not keep an endpoint down.
//
// What is tried again must bear it: the contract of a place lets every call be made
// twice. After a lost answer a removed name may be missing already, which is
// success. Everything else about faults is left to transfer; TestWaits and
// TestFaultyPlace show the rest.
package retry

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"datamove.dev/mover"
)

// Options says how patient to be. The zero value is a good default.
type Options struct {
	Tries   int           // of one call, the first one too; 0 means 12
	First   time.Duration // the wait after the first failure; 0 means 100 ms
	Longest time.Duration // the longest wait; 0 means 20 s
	Within  time.Duration // no try begins later than this after the first failure; 0 means 5 min
	Logger  *slog.Logger  // is warned of each new cause of retries, and told of each at the level of debugging; nil means no log
	// Notify is called with each error that is tried again, from many goroutines:
	// concurrency.Gate.Throttled makes fewer calls of it. Nil is not called.
	Notify func(error)
}

func (o Options) withDefaults() Options {
	if o.Tries <= 0 {
		o.Tries = 12
	}
	if o.First <= 0 {
		o.First = 100 * time.Millisecond
	}
	if o.Longest <= 0 {
		o.Longest = 20 * time.Second
	}
	if o.Within <= 0 {
		o.Within = 5 * time.Minute
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Notify == nil {
		o.Notify = func(error) {}
	}
	return o
}

// Passing reports whether an error is of a kind that passes by itself, and has no mark that says otherwise.
func Passing(err error) bool {
	passes := errors.Is(err, mover.ErrTransient) || errors.Is(err, mover.ErrUnreachable) || errors.Is(err, mover.ErrTimeout)
	return passes && !errors.Is(err, mover.ErrLasting)
}

// trier is what all calls through one wrapper share.
type trier struct {
	Options
	budget budget
}

func newTrier(o Options) *trier {
	return &trier{Options: o.withDefaults(), budget: budget{left: budgetMost}}
}

const (
	budgetMost = 100 // retries that may come at once
	budgetEarn = 0.5 // retries that a success earns: a third of all calls may fail for ever
)

// budget is how many retries are still allowed to come quickly, and of what was warned since the last success.
type budget struct {
	mu     sync.Mutex // guards what is below
	left   float64
	warned string
}

func (b *budget) earn() {
	b.mu.Lock()
	b.left, b.warned = min(budgetMost, b.left+budgetEarn), ""
	b.mu.Unlock()
}

// warns reports whether a cause is another one than that of the last warning.
func (b *budget) warns(cause string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	other := b.warned != cause
	b.warned = cause
	return other
}

func (b *budget) spend() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

// do makes a call until it succeeds, fails for good, or is too much.
func (t *trier) do(ctx context.Context, op, name string, call func() error) error {
	return t.begin(op, name).do(ctx, call)
}

// Do makes one call that is not of a place's contract with the same patience. op
// and name say in the log what it is.
func Do(ctx context.Context, o Options, op, name string, call func() error) error {
	return newTrier(o).do(ctx, op, name, call)
}

// tries are the tries of one call.
type tries struct {
	*trier
	op, name string
	failed   int
	since    time.Time // of the first failure
	tried    time.Time // when the present try began, from the second one on
	told     *teller   // of these tries; nil before it is told
}

func (t *trier) begin(op, name string) *tries { return &tries{trier: t, op: op, name: name} }

// do makes a call until it succeeds, fails for good, or is too much.
func (t *tries) do(ctx context.Context, call func() error) error {
	defer t.over()
	for {
		err := call()
		if err == nil {
			t.budget.earn()
			return nil
		}
		if err := t.again(ctx, err); err != nil {
			return err
		}
	}
}

// progress forgets failures: what comes next has not failed yet.
func (t *tries) progress() {
	if t.failed > 0 {
		t.failed = 0
		t.budget.earn()
		t.over()
	}
}

// over tells that these tries wait no more.
func (t *tries) over() {
	if t.told != nil {
		t.told.leave()
		t.told = nil
	}
}

// tell tells of the wait that begins, when they have failed for a while by its end.
func (t *tries) tell(ctx context.Context, wait time.Duration, err error) {
	teller := tellerOf(ctx)
	if teller == nil || t.told == nil && time.Since(t.since)+wait < quiet {
		return
	}
	now, took := time.Now(), time.Duration(0)
	if t.failed > 1 {
		took = now.Sub(t.tried)
	}
	w := &Wait{err, t.since, t.end(now, t.since, t.failed, wait, took)}
	if t.told != nil {
		t.told.changes(w)
		return
	}
	t.told = teller
	teller.enter(w)
}

// log tells the logger of a try that comes. A cause is a warning once, until a call succeeds, and none at all where a teller is told of it.
func (t *tries) log(ctx context.Context, wait time.Duration, err error) {
	level := slog.LevelDebug
	if tellerOf(ctx) == nil && t.budget.warns((&Wait{Err: err}).Short()) {
		level = slog.LevelWarn
	}
	t.Logger.Log(ctx, level, "will try again", "op", t.op, "name", t.name, "failed", t.failed, "wait", wait, "err", err)
}

// silentUntil is when they are given up, if a try that begins now gets no answer, and none after it.
func (t *tries) silentUntil() time.Time {
	fails := time.Now().Add(silent)
	since := fails
	if t.failed > 0 {
		since = t.since
	}
	return t.end(fails, since, t.failed+1, t.usual(t.failed+1), silent)
}

// end is about when a call is given up that fails at a time, and at each further try after it took so long.
func (o *Options) end(at, since time.Time, failed int, wait, took time.Duration) time.Time {
	for failed < o.Tries && at.Add(wait).Sub(since) <= o.Within {
		at = at.Add(wait + took)
		failed++
		wait = o.usual(failed)
	}
	return at
}

// usual is about the wait after so many failures: it is between half and all of the most.
func (o *Options) usual(failed int) time.Duration { return o.after(failed) * 3 / 4 }

// after is the wait after so many failures, at most.
func (o *Options) after(failed int) time.Duration { return min(o.Longest, o.First<<min(failed-1, 30)) }

// again waits as long as is due after err and returns nil when it is time to try
// again; otherwise it returns the error of the call.
func (t *tries) again(ctx context.Context, err error) error {
	if t.failed == 0 {
		t.since = time.Now()
	}
	t.failed++
	if !Passing(err) || t.failed >= t.Tries {
		return err
	}
	wait := t.wait(err)
	if time.Since(t.since)+wait > t.Within {
		return err
	}
	t.Notify(err)
	t.tell(ctx, wait, err)
	t.log(ctx, wait, err)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		t.tried = time.Now()
		return nil
	case <-ctx.Done():
		return stopped(ctx, err)
	}
}

// stopped is err with the end of the context as its reason.
func stopped(ctx context.Context, err error) error {
	e, ok := errors.AsType[*mover.Error](err)
	if !ok {
		return context.Cause(ctx)
	}
	return &mover.Error{Op: e.Op, Location: e.Location, Name: e.Name, Err: context.Cause(ctx)}
}

// wait is between half and the whole of a time that doubles with each failure.
func (t *tries) wait(err error) time.Duration {
	d := t.Longest
	if t.budget.spend() {
		d = t.after(t.failed)
	}
	d = d/2 + rand.N(d/2+1)
	if e, ok := errors.AsType[*mover.Error](err); ok {
		d = max(d, e.After)
	}
	return d
}
