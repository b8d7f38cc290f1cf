package metered

import (
	"context"
	"iter"

	"datamove.dev/mover"
)

// Backend is a mover.Backend of which everything is counted.
type Backend struct {
	mover.Backend
	counter *Counter
	tells   bool // its contents and drafts count themselves
}

var _ mover.Backend = (*Backend)(nil)

// New wraps p. Contents and drafts of a place that can count them itself are not wrapped.
func New(p mover.Backend, c *Counter) *Backend {
	t, tells := p.(mover.Teller)
	if tells {
		t.Tell(tally{c})
	}
	return &Backend{p, c, tells}
}

// Unwrap returns the place that is counted.
func (p *Backend) Unwrap() any { return p.Backend }

// Walk implements mover.Source.
func (p *Backend) Walk(ctx context.Context, opts mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		n := int64(0)
		defer func() { p.counter.add(List, n) }()
		for e, err := range p.Backend.Walk(ctx, opts) {
			if n++; n == listStep {
				p.counter.add(List, n)
				n = 0
			}
			if !yield(e, p.counter.failed(err)) {
				return
			}
		}
	}
}

// listStep is how many entries are counted at a time: a walk is asked for millions.
const listStep = 64

// Stat implements mover.Source.
func (p *Backend) Stat(ctx context.Context, name string) (mover.Entry, error) {
	e, err := p.Backend.Stat(ctx, name)
	return e, p.counter.did(Stat, err)
}

// Open implements mover.Source.
func (p *Backend) Open(ctx context.Context, e mover.Entry) (mover.Content, error) {
	c, err := p.Backend.Open(ctx, e)
	if err != nil {
		return nil, p.counter.did(Open, err)
	}
	if p.tells {
		return c, nil
	}
	return newContent(c, p.counter), nil
}

// Draft implements mover.Target.
func (p *Backend) Draft(ctx context.Context, e mover.Entry, h mover.Hints) (mover.Draft, error) {
	d, err := p.Backend.Draft(ctx, e, h)
	if err != nil {
		return nil, p.counter.did(drafting(&e, &h), err)
	}
	if p.tells {
		p.counter.add(drafting(&e, &h), 1)
		return d, nil
	}
	return wrap(d, p.counter, drafting(&e, &h)), nil
}

// Adopt implements mover.Target.
func (p *Backend) Adopt(ctx context.Context, t mover.Token) (mover.Draft, error) {
	d, err := p.Backend.Adopt(ctx, t)
	if err != nil {
		return nil, p.counter.did(Open, err)
	}
	if p.tells {
		p.counter.add(Open, 1)
		return d, nil
	}
	return wrap(d, p.counter, Open), nil
}

// Drop implements mover.Target.
func (p *Backend) Drop(ctx context.Context, t mover.Token) error {
	return p.counter.did(Remove, p.Backend.Drop(ctx, t))
}

// Publish implements mover.Target.
func (p *Backend) Publish(ctx context.Context, batch []mover.Draft) []mover.Outcome {
	outcomes := p.Backend.Publish(ctx, batch)
	p.counter.add(Publish, int64(len(outcomes)))
	for i := range outcomes {
		_ = p.counter.failed(outcomes[i].Err) // it is in the outcome
	}
	return outcomes
}

// Mkdir implements mover.Target.
func (p *Backend) Mkdir(ctx context.Context, e mover.Entry) error {
	return p.counter.did(Mkdir, p.Backend.Mkdir(ctx, e))
}

// Update implements mover.Target.
func (p *Backend) Update(ctx context.Context, e mover.Entry) error {
	return p.counter.did(Setattr, p.Backend.Update(ctx, e))
}

// Remove implements mover.Target.
func (p *Backend) Remove(ctx context.Context, e mover.Entry, by mover.WriterID) error {
	return p.counter.did(Remove, p.Backend.Remove(ctx, e, by))
}

// Sync implements mover.Target.
func (p *Backend) Sync(ctx context.Context) error { return p.counter.did(Sync, p.Backend.Sync(ctx)) }
