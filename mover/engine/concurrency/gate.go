// Package concurrency finds how many calls at once do good.
//
// [Gate] lets a number of calls pass at a time and adapts that number: it climbs as long as more work gets done, goes back
// when it does not, and gives way when an endpoint answers that it is overloaded. A Gate may be used from many goroutines
// and starts none. The retry backend decides which calls are tried again, and can tell a gate (see [Gate.Throttled]).
// TestGateFindsTheWidth shows it at work; TestNext is the decision alone.
package concurrency

import (
	"context"
	"errors"
	"sync"
	"time"

	"datamove.dev/mover"
)

// GateOptions says between which bounds a gate moves. The zero value lets one
// call pass at a time.
type GateOptions struct {
	Start int           // the width at first; 0 means Min
	Min   int           // 0 means 1
	Max   int           // 0 means Min; with Max equal to Min the width is pinned
	Every time.Duration // time between decisions, a quarter of it at first, or longer if calls are slow; 0 means 2 s
}

// Gate lets Width calls pass at a time and adapts Width to what gets done.
type Gate struct {
	bounds bounds
	every  time.Duration

	mu      sync.Mutex // guards all below
	now     state
	passing int             // calls that hold the gate
	waiting []chan struct{} // waiting calls, first come first; closed when let in
	window  sample
	since   time.Time // of window
}

// NewGate returns a gate.
func NewGate(o GateOptions) *Gate {
	b := bounds{min: max(o.Min, 1)}
	b.max = max(o.Max, b.min)
	if o.Every <= 0 {
		o.Every = 2 * time.Second
	}
	start := b.clamp(max(o.Start, b.min))
	return &Gate{bounds: b, every: o.Every, now: begin(start), since: time.Now()}
}

// Width is how many calls may pass now.
func (g *Gate) Width() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.now.width
}

// Acquire waits for a turn; Release gives it back. Call it when there is work to
// do: a holder without work would look like one that is slow.
func (g *Gate) Acquire(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	g.mu.Lock()
	if g.passing < g.now.width && len(g.waiting) == 0 {
		g.passing++
		g.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	g.waiting = append(g.waiting, turn)
	g.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		g.giveUp(turn)
		return context.Cause(ctx)
	}
}

// giveUp leaves the queue, or passes on a turn that came meanwhile.
func (g *Gate) giveUp(turn chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, w := range g.waiting {
		if w == turn {
			g.waiting = append(g.waiting[:i], g.waiting[i+1:]...)
			return
		}
	}
	g.passing--
	g.admit()
}

// admit lets in as many as fit.
func (g *Gate) admit() {
	for len(g.waiting) > 0 && g.passing < g.now.width {
		close(g.waiting[0])
		g.waiting = g.waiting[1:]
		g.passing++
	}
}

// Pinned reports whether the width never changes.
func (g *Gate) Pinned() bool { return g.bounds.min == g.bounds.max }

// AcquireGiven is Acquire for a call that another component has let in: the giver of turns decides how many
// there are. Only a pinned gate makes it wait.
func (g *Gate) AcquireGiven(ctx context.Context) error {
	if g.Pinned() {
		return g.Acquire(ctx)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.passing++
	return nil
}

// ReleaseGiven ends such a turn. How much it moved says nothing of the width; that its
// endpoint had enough does.
func (g *Gate) ReleaseGiven(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left(err)
}

// Release ends a turn that moved so many bytes, with the error of its call.
func (g *Gate) Release(bytes int64, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.passing >= g.now.width {
		g.window.full++
	}
	if err == nil {
		g.window.done += bytes + callBytes
	}
	g.left(err)
}

// left ends a turn.
func (g *Gate) left(err error) {
	g.window.calls++
	g.count(err)
	g.passing--
	g.decide()
	g.admit()
}

// Throttled tells of an error that did not end a call because it was tried again.
func (g *Gate) Throttled(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.count(err)
}

func (g *Gate) count(err error) {
	if errors.Is(err, mover.ErrTransient) || errors.Is(err, mover.ErrTimeout) {
		g.window.throttled++
	}
}

// decide ends the window when it is long enough to tell something.
func (g *Gate) decide() {
	took, every := time.Since(g.since), g.every
	if g.now.young {
		every /= 4
	}
	if took < every || g.window.calls < g.now.width && took < 10*every {
		return
	}
	g.window.seconds = took.Seconds()
	g.now = g.now.next(g.window, g.bounds)
	g.window, g.since = sample{}, time.Now()
}
