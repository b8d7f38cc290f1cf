package faulty

import (
	"context"
	"io"

	"datamove.dev/mover"
)

// content is a content with reads that may fail.
type content struct {
	mover.Content
	place *Backend
	name  string
}

// Unwrap returns the content that works.
func (c *content) Unwrap() any { return c.Content }

// Check implements mover.Content.
func (c *content) Check(ctx context.Context) error {
	return c.place.around(ctx, Check, c.name, 0, func() error { return c.Content.Check(ctx) })
}

// Range implements mover.Content. Faults that are about bytes happen in the
// middle of them, the others before the first.
func (c *content) Range(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	f := c.place.draw(Read, c.name, off)
	switch f {
	case None, Short, Flipped, Changed, Stalled:
	default:
		return nil, c.place.fails(ctx, f, Read, c.name)
	}
	r, err := c.Content.Range(ctx, off, n)
	if err != nil || f == None {
		return r, err
	}
	return &reader{ReadCloser: r, ctx: ctx, content: c, fault: f, good: n / 2}, nil
}

// reader is a range that fails after good bytes.
type reader struct {
	io.ReadCloser
	ctx     context.Context
	content *content
	fault   Fault
	good    int64
}

func (r *reader) Read(p []byte) (int, error) {
	if r.fault == None || len(p) == 0 {
		return r.ReadCloser.Read(p)
	}
	if r.good == 0 && r.fault != Flipped {
		return 0, r.content.place.fails(r.ctx, r.fault, Read, r.content.name)
	}
	if r.good > 0 {
		n, err := r.ReadCloser.Read(p[:min(int64(len(p)), r.good)])
		r.good -= int64(n)
		return n, err
	}
	n, err := r.ReadCloser.Read(p)
	if n > 0 {
		p[0] ^= 1
		r.fault = None
	}
	return n, err
}
