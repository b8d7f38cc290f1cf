package retry

import (
	"context"
	"errors"

	"datamove.dev/mover"
)

// Backend is a mover.Backend that tries again.
type Backend struct {
	*Source
	target mover.Backend
}

var _ mover.Backend = (*Backend)(nil)

// New wraps p.
func New(p mover.Backend, o Options) *Backend { return &Backend{NewSource(p, o), p} }

// Lock implements mover.Target.
func (p *Backend) Lock(ctx context.Context, name string, holder mover.WriterID) (held context.Context, unlock func() error, err error) {
	err = p.do(ctx, "lock", name, func() (err error) { held, unlock, err = p.target.Lock(ctx, name, holder); return })
	return held, unlock, err
}

// Draft implements mover.Target.
func (p *Backend) Draft(ctx context.Context, e mover.Entry, h mover.Hints) (d mover.Draft, err error) {
	if in, ok := mover.As[*draft](h.In); ok {
		h.In = in.Draft
	}
	err = p.do(ctx, "draft", e.Name, func() (err error) { d, err = p.target.Draft(ctx, e, h); return })
	return p.wrap(d, e.Name), err
}

// Adopt implements mover.Target.
func (p *Backend) Adopt(ctx context.Context, t mover.Token) (d mover.Draft, err error) {
	err = p.do(ctx, "adopt", string(t), func() (err error) { d, err = p.target.Adopt(ctx, t); return })
	return p.wrap(d, string(t)), err
}

// Drop implements mover.Target.
func (p *Backend) Drop(ctx context.Context, t mover.Token) error {
	return p.do(ctx, "drop", string(t), func() error { return p.target.Drop(ctx, t) })
}

// Publish implements mover.Target. Drafts that failed for a time are published
// again, together and in their order.
func (p *Backend) Publish(ctx context.Context, batch []mover.Draft) []mover.Outcome {
	outcomes := make([]mover.Outcome, len(batch))
	index := make([]int, len(batch)) // in batch, of what is left
	left := make([]mover.Draft, len(batch))
	for i, d := range batch {
		index[i], left[i] = i, d
		if mine, ok := mover.As[*draft](d); ok {
			left[i] = mine.Draft
		}
	}
	tries := p.begin("publish", "")
	defer tries.over()
	for {
		failed := 0
		for j, out := range p.target.Publish(ctx, left) {
			outcomes[index[j]] = out
			if Passing(out.Err) {
				index[failed], left[failed] = index[j], left[j]
				failed++
			}
		}
		if failed < len(left) {
			tries.progress()
			p.budget.earn()
		}
		index, left = index[:failed], left[:failed]
		if failed == 0 || tries.again(ctx, outcomes[index[0]].Err) != nil {
			return outcomes
		}
	}
}

// Mkdir implements mover.Target.
func (p *Backend) Mkdir(ctx context.Context, e mover.Entry) error {
	return p.do(ctx, "mkdir", e.Name, func() error { return p.target.Mkdir(ctx, e) })
}

// Update implements mover.Target.
func (p *Backend) Update(ctx context.Context, e mover.Entry) error {
	return p.do(ctx, "update", e.Name, func() error { return p.target.Update(ctx, e) })
}

// Remove implements mover.Target. When an answer was lost, what is missing now
// is what we removed.
func (p *Backend) Remove(ctx context.Context, e mover.Entry, by mover.WriterID) error {
	tried := false
	return p.do(ctx, "remove", e.Name, func() error {
		err := p.target.Remove(ctx, e, by)
		if tried && errors.Is(err, mover.ErrNotExist) {
			return nil
		}
		tried = true
		return err
	})
}

// Sync implements mover.Target.
func (p *Backend) Sync(ctx context.Context) error {
	return p.do(ctx, "sync", "", func() error { return p.target.Sync(ctx) })
}

// draft is a draft with calls that are tried again.
type draft struct {
	mover.Draft
	*trier
	name string
}

// wrap puts a layer around d for each thing that it can do, so that mover.As
// finds what was there before and nothing else.
func (p *Backend) wrap(d mover.Draft, name string) mover.Draft {
	if d == nil {
		return nil
	}
	mine := &draft{d, p.trier, name}
	var layer mover.Draft = mine
	if c, ok := mover.As[mover.Cloner](d); ok {
		layer = &cloner{layer, c, mine}
	}
	if r, ok := mover.As[mover.Rereader](d); ok {
		layer = &rereader{layer, r, mine}
	}
	return layer
}

// Unwrap returns the draft that is tried.
func (d *draft) Unwrap() any { return d.Draft }

// WritePart implements mover.Draft. A feed that failed itself is not rewound in
// vain: its source has tried again already.
func (d *draft) WritePart(ctx context.Context, part mover.Part, feed mover.Feed) (r mover.Receipt, err error) {
	f := &watched{Feed: feed}
	tries := d.begin("write", d.name)
	defer tries.over()
	for {
		r, err = d.Draft.WritePart(ctx, part, f)
		if err == nil {
			d.budget.earn()
			return r, nil
		}
		if f.failed {
			return r, err
		}
		if err := tries.again(ctx, err); err != nil {
			return r, err
		}
		if err := feed.Rewind(); err != nil {
			return r, err
		}
	}
}

// watched is a feed that remembers whether it failed.
type watched struct {
	mover.Feed
	failed bool
}

func (f *watched) Read(p []byte) (int, error) {
	n, err := f.Feed.Read(p)
	f.failed = f.failed || Passing(err)
	return n, err
}

// Finish implements mover.Draft.
func (d *draft) Finish(ctx context.Context, e mover.Entry, receipts []mover.Receipt) error {
	return d.do(ctx, "finish", d.name, func() error { return d.Draft.Finish(ctx, e, receipts) })
}

// cloner is the layer of a draft that can clone.
type cloner struct {
	mover.Draft
	inner mover.Cloner
	mine  *draft
}

// Unwrap returns the layer below.
func (c *cloner) Unwrap() any { return c.Draft }

// Clone implements mover.Cloner.
func (c *cloner) Clone(ctx context.Context, from mover.Content) (done bool, err error) {
	err = c.mine.do(ctx, "clone", c.mine.name, func() (err error) { done, err = c.inner.Clone(ctx, from); return })
	return done, err
}

// rereader is the layer of a draft that can be read again.
type rereader struct {
	mover.Draft
	inner mover.Rereader
	mine  *draft
}

// Unwrap returns the layer below.
func (r *rereader) Unwrap() any { return r.Draft }

// Reread implements mover.Rereader.
func (r *rereader) Reread(ctx context.Context) (c mover.Content, err error) {
	err = r.mine.do(ctx, "reread", r.mine.name, func() (err error) { c, err = r.inner.Reread(ctx); return })
	if err != nil {
		return nil, err
	}
	return &content{c, r.mine.trier}, nil
}
