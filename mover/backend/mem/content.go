package mem

import (
	"context"
	"fmt"
	"io"

	"datamove.dev/mover"
)

// content is an entry held open. Like an open file it stays readable when its
// name is gone; in an object store it does not.
type content struct {
	place   *Backend
	name    string
	node    *node
	entry   mover.Entry
	version uint64
	blob    blob
	draft   bool // of an unpublished draft: it has no name yet
}

var _ mover.Content = (*content)(nil)

// Open implements mover.Source.
func (p *Backend) Open(ctx context.Context, e mover.Entry) (mover.Content, error) {
	if err := p.enter(ctx, "open", e.Name, true); err != nil {
		return nil, err
	}
	defer p.tree.mu.Unlock()
	n := p.tree.findKind(e.Name, e.Kind)
	switch {
	case n == nil:
		return nil, p.fail("open", e.Name, p.tree.absent(e.Name))
	case !p.isThe(e, n):
		return nil, p.fail("open", e.Name, mover.ErrChanged)
	}
	return &content{place: p, name: e.Name, node: n, entry: p.full(e.Name, n), version: n.version, blob: n.blob}, nil
}

func (c *content) Entry() mover.Entry { return c.entry }

func (c *content) Close() error { return nil }

// same tells under the tree's mutex whether the content is what was opened.
func (c *content) same() bool {
	if c.draft {
		return true
	}
	if c.place.opts.ObjectStore && c.place.tree.findKind(c.name, c.entry.Kind) != c.node {
		return false
	}
	return c.node.version == c.version
}

// Check implements mover.Content.
func (c *content) Check(ctx context.Context) error {
	if err := c.place.enter(ctx, "check", c.name, true); err != nil {
		return err
	}
	defer c.place.tree.mu.Unlock()
	n := c.place.tree.findKind(c.name, c.entry.Kind)
	if !c.same() || !c.draft && (n == nil || !c.place.isThe(c.entry, n)) {
		return c.place.fail("check", c.name, mover.ErrChanged)
	}
	return nil
}

// Segment implements mover.Content.
func (c *content) Segment(off int64) (mover.Segment, error) {
	if off < 0 {
		return mover.Segment{}, c.place.fail("read", c.name, fmt.Errorf("offset %d: %w", off, mover.ErrUsage))
	}
	if c.place.opts.ObjectStore {
		return mover.Segment{Start: min(off, c.blob.size), End: c.blob.size}, nil
	}
	return c.blob.segment(off), nil
}

// Range implements mover.Content.
func (c *content) Range(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	if off < 0 || n < 0 || c.entry.Kind != mover.File {
		return nil, c.place.fail("read", c.name, fmt.Errorf("%d bytes at %d of a %v: %w", n, off, c.entry.Kind, mover.ErrUsage))
	}
	if err := c.place.enter(ctx, "read", c.name, true); err != nil {
		return nil, err
	}
	c.place.tree.mu.Unlock()
	return &reader{c, ctx, off, n}, nil
}

// reader reads one range.
type reader struct {
	*content
	ctx     context.Context
	off     int64
	missing int64
}

func (r *reader) Read(p []byte) (int, error) {
	if err := r.place.enter(r.ctx, "read", r.name, true); err != nil {
		return 0, err
	}
	defer r.place.tree.mu.Unlock()
	if !r.same() {
		return 0, r.place.fail("read", r.name, mover.ErrChanged)
	}
	if r.missing == 0 {
		return 0, io.EOF
	}
	n := r.blob.readAt(p[:min(int64(len(p)), r.missing)], r.off)
	if n == 0 && len(p) > 0 {
		return 0, r.place.fail("read", r.name, io.ErrUnexpectedEOF)
	}
	r.off += int64(n)
	r.missing -= int64(n)
	return n, nil
}
