package meter

import (
	"context"
	"io"
	"iter"

	"datamove.dev/mover"
)

// Place is a mover.Place of which everything is counted.
type Place struct {
	mover.Place
	counter *Counter
}

var _ mover.Place = (*Place)(nil)

// New wraps p.
func New(p mover.Place, c *Counter) *Place { return &Place{p, c} }

// Unwrap returns the place that is counted.
func (p *Place) Unwrap() any { return p.Place }

// Walk implements mover.Source.
func (p *Place) Walk(ctx context.Context, opts mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		n := int64(0)
		defer func() { p.counter.ops[List].Add(n) }()
		for e, err := range p.Place.Walk(ctx, opts) {
			if n++; n == listStep {
				p.counter.ops[List].Add(n)
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
	if p.counter.did(Open, err) != nil {
		return nil, err
	}
	return &content{c, p.counter}, nil
}

// Draft implements mover.Target.
func (p *Place) Draft(ctx context.Context, e mover.Entry, h mover.Hints) (mover.Draft, error) {
	d, err := p.Place.Draft(ctx, e, h)
	if p.counter.did(drafting(&e, &h), err) != nil {
		return nil, err
	}
	return wrap(d, p.counter), nil
}

// Adopt implements mover.Target.
func (p *Place) Adopt(ctx context.Context, t mover.Token) (mover.Draft, error) {
	d, err := p.Place.Adopt(ctx, t)
	if p.counter.did(Open, err) != nil {
		return nil, err
	}
	return wrap(d, p.counter), nil
}

// Drop implements mover.Target.
func (p *Place) Drop(ctx context.Context, t mover.Token) error {
	return p.counter.did(Remove, p.Place.Drop(ctx, t))
}

// Publish implements mover.Target.
func (p *Place) Publish(ctx context.Context, batch []mover.Draft) []mover.Outcome {
	outcomes := p.Place.Publish(ctx, batch)
	for i := range outcomes {
		_ = p.counter.did(Publish, outcomes[i].Err) // it is in the outcome
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

// content is a content whose bytes are counted.
type content struct {
	mover.Content
	counter *Counter
}

// Unwrap returns the content that is counted.
func (c *content) Unwrap() any { return c.Content }

// Check implements mover.Content.
func (c *content) Check(ctx context.Context) error { return c.counter.did(Stat, c.Content.Check(ctx)) }

// Range implements mover.Content.
func (c *content) Range(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	r, err := c.Content.Range(ctx, off, n)
	if c.counter.did(Get, err) != nil {
		return nil, err
	}
	return &reader{r, c.counter}, nil
}

type reader struct {
	io.ReadCloser
	counter *Counter
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.counter.Read.Add(int64(n))
	return n, r.counter.failed(err)
}
