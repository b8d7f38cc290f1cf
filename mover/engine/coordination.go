package engine

import (
	"context"
	"errors"
	"sync"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/transfer"
	"datamove.dev/mover/location"
)

// Coordination is what a task has that is led for a service. The zero value of every field
// but Epoch is valid.
type Coordination struct {
	// Epoch is part of the temporary names. Drafts of this target under a lower one
	// are of leads and helpers that are over; those under a higher one are of helpers.
	Epoch  uint64
	Before []uint64 // epochs of earlier leads of this task: a lock of theirs is broken
	// IsOver reports whether an epoch was that of a lead of another task at this target, and no lead has it now: its lock is broken, too. Nil knows none.
	IsOver       func(ctx context.Context, epoch uint64) bool
	ConfirmLease func(ctx context.Context) error // as transfer.Options.Mine
	AcquireSlot  transfer.AcquireSlot
	Helpers      func(pair int) transfer.Helpers // of each pair of Request.Names; nil has none
	// SaveDraft is called with the draft of a large file before the first write to it, and then with
	// each stored piece of it. It is called with on false when the record is no longer needed.
	// The next lead of the task, on another node, gets these drafts as InheritedDrafts.
	SaveDraft       func(ctx context.Context, d Draft, on bool) error
	InheritedDrafts []Draft
	// Swarm lets other nodes that copy the same tree read the source for this task, and this task for them. Nil has none.
	Swarm Swarm
}

// Swarm wraps the source and the target of a task. *swarm.Swarm is one.
type Swarm interface {
	Source(outer, inner mover.Source) mover.Source
	Target(mover.Backend) mover.Backend
	// Relies reports that another component checks whether the source has all that its manifest lists, and nothing else.
	Relies() bool
}

// Draft is a draft of one pair of a task.
type Draft struct {
	Pair   int
	Token  mover.Token
	Pieces [][]byte // what is stored of it; Keep gets one, which adds to those before
	Number uint64   // of the piece that Keep gets
}

// epoch is the one that temporary names carry.
func (p *pair) lead() *Coordination {
	if p.request.Lead == nil {
		return &Coordination{}
	}
	return p.request.Lead
}

// older reports whether a draft belongs to a run that is over. Without a lead the lock of the target
// shows that every other run is over; the helpers of a lead have higher epochs.
func (p *pair) older(o mover.WriterID) bool {
	if p.request.Lead == nil {
		return o.Epoch != p.owner.Epoch
	}
	return o.Epoch < p.owner.Epoch
}

// Helper does works of a task that another process leads.
type Helper struct {
	request  *Request
	open     Opener
	counters transfer.Counters

	mu    sync.Mutex
	pairs map[int]*helped // guarded by mu, which is not held while one opens
}

// helped is a pair of places that is open, or is being opened.
type helped struct {
	over chan struct{} // closed when it is not being opened any more
	pair *pair         // nil before that; written with Helper.mu held, as err
	err  error
}

// Help returns a helper for a request. It opens places when there is work for them,
// and locks none: the lead does.
func Help(r Request, open Opener) (*Helper, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	r.limit()
	return &Helper{request: &r, open: open, pairs: map[int]*helped{}}, nil
}

// Do does one work of a pair; see transfer.Hand.Do.
func (h *Helper) Do(ctx context.Context, pair int, epoch uint64, mine func(context.Context) error, yield <-chan struct{}, w *transfer.Work) (*transfer.Reply, error) {
	r := h.request
	if r.Observer != nil {
		ctx = WithObserver(ctx, r.Observer)
	}
	p, err := h.pair(ctx, pair)
	if err != nil {
		return nil, err
	}
	return transfer.NewHelper(p.source, p.target, transfer.Options{
		Jobs: r.Jobs, Gate: p.gate, Plan: p.planOptions(), Level: r.Verify, Counters: &h.counters,
		FailFull: r.OnNoSpace == NoSpaceFail, Released: r.Released, SpoolDir: p.spoolDir, Logger: r.Logger, AcquireSlot: p.lead().AcquireSlot,
		Observer: helperObserver{h},
	}).Do(ctx, epoch, mine, yield, w)
}

// Width is how many works at a time get most done, as far as is known.
func (h *Helper) Width() (width int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.pairs {
		if o.pair != nil {
			width = max(width, o.pair.gate.Width())
		}
	}
	return width
}

// Snapshot implements Live.
func (h *Helper) Snapshot() Snapshot { return snapshotOf(&h.counters, h.request.Limiter) }

// Close closes the places, when all works have ended.
func (h *Helper) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var err error
	for _, o := range h.pairs {
		if o.pair != nil {
			err = Gravest(err, o.pair.close())
		}
	}
	h.pairs = map[int]*helped{}
	return err
}

// pair is a pair of places, which the first work opens: the others wait for it.
func (h *Helper) pair(ctx context.Context, index int) (*pair, error) {
	for {
		h.mu.Lock()
		o := h.pairs[index]
		first := o == nil
		if first {
			o = &helped{over: make(chan struct{})}
			h.pairs[index] = o
		}
		h.mu.Unlock()
		if first {
			return h.first(ctx, index, o)
		}
		select {
		case <-o.over:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if o.err == nil {
			return o.pair, nil
		}
		if ctx.Err() != nil || !errors.Is(o.err, context.Canceled) { // the first work was stopped, and this one was not
			return nil, o.err
		}
	}
}

// first opens a pair.
func (h *Helper) first(ctx context.Context, index int, o *helped) (*pair, error) {
	src, dst, err := h.request.ends(index)
	var p *pair
	if err == nil {
		p, err = h.openPair(ctx, index, src, dst)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if o.pair, o.err = p, err; err != nil {
		delete(h.pairs, index)
	}
	close(o.over)
	return p, err
}

func (h *Helper) openPair(ctx context.Context, index int, src, dst location.Location) (*pair, error) {
	p := &pair{request: h.request, index: index}
	_, err := p.makeSpool()
	if err == nil {
		err = p.openPlaces(ctx, src, dst, h.open)
	}
	if err != nil {
		_ = p.close()
		return nil, err
	}
	return p, nil
}

// helperObserver passes on that the target is full.
type helperObserver struct{ h *Helper }

func (helperObserver) Result(transfer.Result) {}
func (helperObserver) Step(string)            {}
func (o helperObserver) Paused(why error) {
	if observer := o.h.request.Observer; observer != nil {
		observer.State(pausing(why, o.h.request))
	}
}
