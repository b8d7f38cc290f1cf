package metered

import (
	"context"
	"io"
	"sync/atomic"

	"datamove.dev/mover"
)

// Contents and drafts tell the counter what they did when they are closed, or when there
// is this much to tell.
const (
	tellBytes = 1 << 20
	tellCalls = 16
)

// content counts the bytes that are read from a content.
type content struct {
	mover.Content
	counter *Counter
	first   reader // most contents are read by one, once
	taken   atomic.Bool
	open    bool // that it was opened is not told yet

	ranges, checks, bytes atomic.Int64 // not told yet
}

func newContent(inner mover.Content, c *Counter) *content {
	return &content{Content: inner, counter: c, open: true}
}

// Unwrap returns the content that is counted.
func (c *content) Unwrap() any { return c.Content }

// Check implements mover.Content.
func (c *content) Check(ctx context.Context) error {
	err := c.Content.Check(ctx)
	if c.checks.Add(1) >= tellCalls {
		c.counter.hear(c.tell)
	}
	return c.counter.failed(err)
}

// Range implements mover.Content.
func (c *content) Range(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	inner, err := c.Content.Range(ctx, off, n)
	if c.ranges.Add(1) >= tellCalls {
		c.counter.hear(c.tell)
	}
	if c.counter.failed(err) != nil {
		return nil, err
	}
	r := &c.first
	if !c.taken.CompareAndSwap(false, true) {
		r = new(reader)
	}
	r.ReadCloser, r.content = inner, c
	return r, nil
}

// Close implements mover.Content.
func (c *content) Close() error {
	c.counter.hear(func(s *shard) {
		if c.open {
			c.open = false
			s.ops[Open].Add(1)
		}
		c.tell(s)
	})
	return c.Content.Close()
}

func (c *content) tell(s *shard) {
	move(&s.ops[Get], &c.ranges)
	move(&s.ops[Stat], &c.checks)
	move(&s.read, &c.bytes)
}

// move adds to one counter what another one has.
func move(to, from *atomic.Int64) {
	if from.Load() > 0 {
		to.Add(from.Swap(0))
	}
}

// reader counts the bytes of a range.
type reader struct {
	io.ReadCloser
	content *content
	bytes   int64 // not told yet
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if r.bytes += int64(n); r.bytes >= tellBytes {
		r.tell()
		r.content.counter.hear(r.content.tell)
	}
	if err == nil || err == io.EOF {
		return n, err
	}
	return n, r.content.counter.failed(err)
}

// Close implements io.Closer.
func (r *reader) Close() error {
	r.tell()
	return r.ReadCloser.Close()
}

func (r *reader) tell() {
	r.content.bytes.Add(r.bytes)
	r.bytes = 0
}
