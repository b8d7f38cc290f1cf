package meter

import (
	"context"
	"io"

	"datamove.dev/mover"
)

// draft is a draft whose bytes are counted.
type draft struct {
	mover.Draft
	counter *Counter
}

// layers are all that is put around one draft: there is one for each small file, so
// they are one piece of memory.
type layers struct {
	draft    draft
	cloner   cloner
	rereader rereader
}

// wrap puts a layer around d for each thing that it can do, so that mover.As finds
// what was there before and nothing else.
func wrap(d mover.Draft, c *Counter) mover.Draft {
	all := &layers{draft: draft{d, c}}
	var layer mover.Draft = &all.draft
	if inner, ok := mover.As[mover.Cloner](d); ok {
		all.cloner = cloner{layer, inner, c}
		layer = &all.cloner
	}
	if inner, ok := mover.As[mover.Rereader](d); ok {
		all.rereader = rereader{layer, inner, c}
		layer = &all.rereader
	}
	return layer
}

// Unwrap returns the draft that is counted.
func (d *draft) Unwrap() any { return d.Draft }

// WritePart implements mover.Draft.
func (d *draft) WritePart(ctx context.Context, p mover.Part, f mover.Feed) (mover.Receipt, error) {
	from := &feed{Feed: f, counter: d.counter}
	r, err := d.Draft.WritePart(ctx, p, from)
	d.counter.ops[Part].Add(1)
	if !from.broke {
		_ = d.counter.failed(err) // it is returned
	}
	return r, err
}

// Finish implements mover.Draft.
func (d *draft) Finish(ctx context.Context, e mover.Entry, receipts []mover.Receipt) error {
	return d.counter.failed(d.Draft.Finish(ctx, e, receipts))
}

// feed is a feed that counts what is taken from it.
type feed struct {
	mover.Feed
	counter *Counter
	broke   bool // the source failed, not the target
}

func (f *feed) Read(p []byte) (int, error) {
	n, err := f.Feed.Read(p)
	f.counter.Written.Add(int64(n))
	f.broke = f.broke || err != nil && err != io.EOF
	return n, err
}

// cloner is the layer of a draft that can clone.
type cloner struct {
	mover.Draft
	inner   mover.Cloner
	counter *Counter
}

// Unwrap returns the layer below.
func (c *cloner) Unwrap() any { return c.Draft }

// Clone implements mover.Cloner. What could not be cloned is read and written after all.
func (c *cloner) Clone(ctx context.Context, from mover.Content) (bool, error) {
	done, err := c.inner.Clone(ctx, from)
	if !done && err == nil {
		return false, nil
	}
	return done, c.counter.did(Copy, err)
}

// rereader is the layer of a draft that can be read again.
type rereader struct {
	mover.Draft
	inner   mover.Rereader
	counter *Counter
}

// Unwrap returns the layer below.
func (r *rereader) Unwrap() any { return r.Draft }

// Reread implements mover.Rereader.
func (r *rereader) Reread(ctx context.Context) (mover.Content, error) {
	c, err := r.inner.Reread(ctx)
	if r.counter.did(Open, err) != nil {
		return nil, err
	}
	return &content{c, r.counter}, nil
}
