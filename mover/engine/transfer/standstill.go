package transfer

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"datamove.dev/mover"
)

// standstill is how long no byte of an entry may pass, and no call for it end, before the rest of its batch goes on
// without it, beside the time for which the source waits for other hosts itself (Capabilities.Patience). What is finished in a batch waits no
// longer than that for the entries behind it.
const standstill = 10 * time.Second

// Entries that stand still are moved apart while most others do not: where all do, the place is at fault, and each call
// gets the whole patience at once.
const (
	apartMost  = 8 // entries in a row
	apartPrice = 8 // entries that have to pass before another one
)

// allowance is how many entries may still be moved apart.
type allowance struct{ left atomic.Int64 }

func (a *allowance) fill() { a.left.Store(apartMost * apartPrice) }

func (a *allowance) earn() {
	if a.left.Load() < apartMost*apartPrice {
		a.left.Add(1)
	}
}

func (a *allowance) spend() bool {
	for {
		left := a.left.Load()
		if left < apartPrice {
			return false
		}
		if a.left.CompareAndSwap(left, left-apartPrice) {
			return true
		}
	}
}

// errStandstill ends the calls for an entry that stands still.
var errStandstill = errors.New("no byte has come or gone for a while")

// watchdog ends the calls for one entry of a batch when they stand still. Nil watches nothing.
type watchdog struct {
	after  time.Duration
	apart  *allowance
	ctx    context.Context // of the calls for the present entry, and of those before it
	cancel context.CancelCauseFunc
	timer  *time.Timer
	hangs  func() // is called when the calls go on standing still after that
}

// begin returns the context of the calls for an entry. A directory is waited for: what is in it needs it.
func (d *watchdog) begin(ctx context.Context, kind mover.Kind) context.Context {
	switch {
	case d == nil || kind == mover.Dir:
		return ctx
	case d.ctx != nil && d.ctx.Err() == nil:
		d.timer.Reset(d.after)
		return d.ctx
	}
	d.end()
	inner, cancel := context.WithCancelCause(ctx)
	d.ctx, d.cancel = inner, cancel
	d.timer = time.AfterFunc(d.after, func() {
		if d.apart.spend() {
			d.hangs()
			cancel(errStandstill)
		}
	})
	return inner
}

// alive is told of each sign of life.
func (d *watchdog) alive() {
	if d != nil && d.timer != nil {
		d.timer.Reset(d.after)
	}
}

// rest watches nothing until the next sign of life.
func (d *watchdog) rest() {
	if d != nil && d.timer != nil {
		d.timer.Stop()
	}
}

// fired says that the calls for the present entry were ended.
func (d *watchdog) fired() bool {
	return d != nil && d.ctx != nil && errors.Is(context.Cause(d.ctx), errStandstill)
}

// passed notes that the calls for an entry have ended by themselves, with err for the run.
func (d *watchdog) passed(err error) error {
	if d != nil && err == nil && !d.fired() {
		d.apart.earn()
	}
	return err
}

// end lets go of what the watch has.
func (d *watchdog) end() {
	if d != nil && d.ctx != nil {
		d.timer.Stop()
		d.cancel(nil)
	}
}
