// Package standstill finds calls for an entry that no byte comes or goes for, and ends them, so that others need not wait for it.
//
// A [Watchdog] is of one goroutine, but for the timer that it starts; an [Allowance] is of a whole run. Calls are ended by their context: one that can not be
// ended (of the kernel, on a mount with a server that is away) is told to Watchdog.Hangs. TestStandstill of package transfer shows it.
package standstill

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"datamove.dev/mover"
)

// After is how long no byte of an entry may pass, and no call for it end, before the rest of its batch goes on
// without it, beside the time for which the source waits for other hosts itself (Capabilities.Patience). What is finished in a batch waits no
// longer than that for the entries behind it.
const After = 10 * time.Second

// Entries that stand still are moved apart while most others do not: where all do, the place is at fault, and each call
// gets the whole patience at once.
const (
	apartMost  = 8 // entries in a row
	apartPrice = 8 // entries that have to pass before another one
)

// Allowance is how many entries may still be moved apart.
type Allowance struct{ left atomic.Int64 }

// Fill allows as many as ever.
func (a *Allowance) Fill() { a.left.Store(apartMost * apartPrice) }

func (a *Allowance) earn() {
	if a.left.Load() < apartMost*apartPrice {
		a.left.Add(1)
	}
}

func (a *Allowance) spend() bool {
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

// Watchdog ends the calls for one entry of a batch when they stand still. Nil watches nothing.
type Watchdog struct {
	After  time.Duration   // without a sign of life
	Apart  *Allowance      // of the run
	Hangs  func()          // is called when the calls are ended: they may not return
	ctx    context.Context // of the calls for the present entry, and of those before it
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

// Begin returns the context of the calls for an entry. A directory is waited for: what is in it needs it.
func (d *Watchdog) Begin(ctx context.Context, kind mover.Kind) context.Context {
	switch {
	case d == nil || kind == mover.Dir:
		return ctx
	case d.ctx != nil && d.ctx.Err() == nil:
		d.timer.Reset(d.After)
		return d.ctx
	}
	d.End()
	inner, cancel := context.WithCancelCause(ctx)
	d.ctx, d.cancel = inner, cancel
	d.timer = time.AfterFunc(d.After, func() {
		if d.Apart.spend() {
			d.Hangs()
			cancel(errStandstill)
		}
	})
	return inner
}

// Alive is told of each sign of life.
func (d *Watchdog) Alive() {
	if d != nil && d.timer != nil {
		d.timer.Reset(d.After)
	}
}

// Rest watches nothing until the next sign of life.
func (d *Watchdog) Rest() {
	if d != nil && d.timer != nil {
		d.timer.Stop()
	}
}

// Fired says that the calls for the present entry were ended.
func (d *Watchdog) Fired() bool {
	return d != nil && d.ctx != nil && errors.Is(context.Cause(d.ctx), errStandstill)
}

// Passed notes that the calls for an entry have ended by themselves, with err for the run.
func (d *Watchdog) Passed(err error) error {
	if d != nil && err == nil && !d.Fired() {
		d.Apart.earn()
	}
	return err
}

// End lets go of what the watch has.
func (d *Watchdog) End() {
	if d != nil && d.ctx != nil {
		d.timer.Stop()
		d.cancel(nil)
	}
}
