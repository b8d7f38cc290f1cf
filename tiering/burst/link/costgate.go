package link

import (
	"context"
	"io"

	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
)

// CostGate is asked before bytes are sent or fetched, and before requests are made: an error is that there is no money for them.
type CostGate func(ctx context.Context, bytes, requests int64) error

// gate stops a whole task when its toll refuses.
type gate struct {
	toll CostGate
	stop context.CancelCauseFunc
}

func (g *gate) pass(ctx context.Context, bytes, requests int64) error {
	err := g.toll(ctx, bytes, requests)
	if err != nil {
		g.stop(err)
	}
	return err
}

// at has what is read from places in stores, and written to them, pass a toll.
func at(open engine.Opener, g *gate) engine.Opener {
	return func(ctx context.Context, l location.Location, o engine.OpenOptions) (mover.Backend, error) {
		p, err := open(ctx, l, o)
		if err != nil || !l.InStore() {
			return p, err
		}
		return &tolled{p, g}, nil
	}
}

// tolled is a place of which contents and parts of drafts pay.
type tolled struct {
	mover.Backend
	gate *gate
}

// Unwrap returns the place.
func (p *tolled) Unwrap() any { return p.Backend }

// Open implements mover.Source.
func (p *tolled) Open(ctx context.Context, e mover.Entry) (mover.Content, error) {
	c, err := p.Backend.Open(ctx, e)
	if err != nil {
		return nil, err
	}
	return &tolledContent{c, p.gate}, nil
}

// Draft implements mover.Target.
func (p *tolled) Draft(ctx context.Context, e mover.Entry, h mover.Hints) (mover.Draft, error) {
	d, err := p.Backend.Draft(ctx, e, h)
	if err != nil {
		return nil, err
	}
	return &tolledDraft{d, p.gate}, nil
}

// Adopt implements mover.Target.
func (p *tolled) Adopt(ctx context.Context, t mover.Token) (mover.Draft, error) {
	d, err := p.Backend.Adopt(ctx, t)
	if err != nil {
		return nil, err
	}
	return &tolledDraft{d, p.gate}, nil
}

type tolledContent struct {
	mover.Content
	gate *gate
}

// Range implements mover.Content.
func (c *tolledContent) Range(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	if err := c.gate.pass(ctx, n, 1); err != nil {
		return nil, err
	}
	return c.Content.Range(ctx, off, n)
}

// Unwrap returns the content.
func (c *tolledContent) Unwrap() any { return c.Content }

type tolledDraft struct {
	mover.Draft
	gate *gate
}

// WritePart implements mover.Draft.
func (d *tolledDraft) WritePart(ctx context.Context, p mover.Part, f mover.Feed) (mover.Receipt, error) {
	if err := d.gate.pass(ctx, p.Length, 1); err != nil {
		return mover.Receipt{}, err
	}
	return d.Draft.WritePart(ctx, p, f)
}

// Clone implements mover.Cloner: what a store copies by itself does not come over the link, and is paid by the request, each of which has a GiB at most. What a file system here can not do
// is asked for nothing.
func (d *tolledDraft) Clone(ctx context.Context, c mover.Content) (bool, error) {
	cloner, can := mover.As[mover.Cloner](d.Draft)
	if _, stored := mover.As[*tolledContent](c); !can || !stored {
		return false, nil
	}
	if err := d.gate.pass(ctx, 0, 1+c.Entry().Size>>30); err != nil {
		return false, err
	}
	return cloner.Clone(ctx, c)
}

// Unwrap returns the draft.
func (d *tolledDraft) Unwrap() any { return d.Draft }
