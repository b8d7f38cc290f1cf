package metered

import (
	"context"
	"iter"

	"datamove.dev/mover"
)

// Place is a mover.Place of which everything is counted.
type Place struct {
	mover.Place
	counter *Counter
	tells   bool // its contents and drafts count themselves
}

var _ mover.Place = (*Place)(nil)

// New wraps p. Contents and drafts of a place that can count them itself are not wrapped.
func New(p mover.Place, c *Counter) *Place {
	t, tells := p.(mover.Teller)
	if tells {
		t.Tell(tally{c})
	}
	return &Place{p, c, tells}
}

// Unwrap returns the place that is counted.
func (p *Place) Unwrap() any { return p.Place }

// Walk implements mover.Source.
func (p *Place) Walk(ctx context.Context, opts mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		n := int64(0)
		defer func() { p.counter.add(List, n) }()
		for e, err := range p.Place.Walk(ctx, opts) {
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
func (p *Place) Stat(ctx context.Context, name string) (mover.Entry, error) {
	e, err := p.Place.Stat(ctx, name)
	return e, p.counter.did(Stat, err)
}

// Open implements mover.Source.
func (p *Place) Open(ctx context.Context, e mover.Entry) (mover.Content, error) {
	c, err := p.Place.Open(ctx, e)
	if err != nil {
		return nil, p.counter.did(Open, err)
	}
	if p.tells {
		return c, nil
	}
	return newContent(c, p.counter), nil
}

// Draft implements mover.Target.
func (p *Place) Draft(ctx context.Context, e mover.Entry, h mover.Hints) (mover.Draft, error) {
	d, err := p.Place.Draft(ctx, e, h)
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
func (p *Place) Adopt(ctx context.Context, t mover.Token) (mover.Draft, error) {
	d, err := p.Place.Adopt(ctx, t)
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
func (p *Place) Drop(ctx context.Context, t mover.Token) error {
	return p.counter.did(Remove, p.Place.Drop(ctx, t))
}

// Publish implements mover.Target.
func (p *Place) Publish(ctx context.Context, batch []mover.Draft) []mover.Outcome {
	outcomes := p.Place.Publish(ctx, batch)
	p.counter.add(Publish, int64(len(outcomes)))
	for i := range outcomes {
		_ = p.counter.failed(outcomes[i].Err) // it is in the outcome
	}
	return outcomes
}

// Mkdir implements mover.Target.
func (p *Place) Mkdir(ctx context.Context, e mover.Entry) error {
	return p.counter.did(Mkdir, p.Place.Mkdir(ctx, e))
}

// Update implements mover.Target.
func (p *Place) Update(ctx context.Context, e mover.Entry) error {
	return p.counter.did(Setattr, p.Place.Update(ctx, e))
}

// Remove implements mover.Target.
func (p *Place) Remove(ctx context.Context, e mover.Entry, by mover.Owner) error {
	return p.counter.did(Remove, p.Place.Remove(ctx, e, by))
}

// Sync implements mover.Target.
func (p *Place) Sync(ctx context.Context) error { return p.counter.did(Sync, p.Place.Sync(ctx)) }
