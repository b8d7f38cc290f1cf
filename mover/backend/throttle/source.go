package throttle

import (
	"context"
	"io"
	"time"

	"datamove.dev/mover"
)

// Source returns s, its contents read within a bandwidth; without one it is s itself.
// What is cloned is not read, and so not limited.
func Source(s mover.Source, b *Bandwidth) mover.Source {
	if b == nil {
		return s
	}
	return &source{s, b}
}

// source counts the bytes that are read from a source.
type source struct {
	mover.Source
	bandwidth *Bandwidth
}

// Unwrap returns the source without a limit.
func (s *source) Unwrap() any { return s.Source }

// Open implements mover.Source.
func (s *source) Open(ctx context.Context, e mover.Entry) (mover.Content, error) {
	c, err := s.Source.Open(ctx, e)
	if err != nil {
		return nil, err
	}
	return &content{c, s}, nil
}

type content struct {
	mover.Content
	source *source
}

// Unwrap returns the content without a limit.
func (c *content) Unwrap() any { return c.Content }

// Range implements mover.Content.
func (c *content) Range(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	r, err := c.Content.Range(ctx, off, n)
	if err != nil {
		return nil, err
	}
	return &reader{ReadCloser: r, ctx: ctx, content: c}, nil
}

type reader struct {
	io.ReadCloser
	ctx     context.Context
	content *content
	waited  time.Duration
}

// Read pays for its bytes when it has them.
func (r *reader) Read(p []byte) (int, error) {
	b := r.content.source.bandwidth
	n, err := r.ReadCloser.Read(p[:min(int64(len(p)), b.step())])
	if n == 0 {
		return n, err
	}
	waited, werr := b.Wait(r.ctx, int64(n))
	r.waited += waited
	if werr != nil {
		return n, &mover.Error{Op: "read", Location: r.content.source.String(), Name: r.content.Entry().Name, Err: werr}
	}
	return n, err
}

// Waited is how long reads have waited for the bandwidth, and not for the source.
func (r *reader) Waited() time.Duration { return r.waited }
