// Package limit holds a transfer back: to a bandwidth, and to as many calls at
// once as do good.
//
// [Source] wraps a source so that its contents are read at so many bytes per
// second, all readers together. [Gate] lets a number of calls pass at a time, and
// finds that number by itself: it climbs as long as more work gets done, goes back
// when it does not, and gives way when an endpoint says that it has enough.
//
// Both may be used from many goroutines and start none. They keep nothing, so a
// crash loses nothing. What is worth trying again is for retry to say, which can
// tell a gate (see [Gate.Throttled]). TestBandwidthHolds and TestGateFindsTheWidth
// show them at work; TestNext is the decision alone.
package limit

import (
	"context"
	"fmt"
	"io"

	"golang.org/x/time/rate"

	"datamove.dev/mover"
)

// Source returns s, its contents read at most at bytesPerSec; at 0 or less it is
// s itself. What is cloned is not read, and so not limited.
func Source(s mover.Source, bytesPerSec int64) mover.Source {
	if bytesPerSec <= 0 {
		return s
	}
	step := min(max(bytesPerSec/8, 1), 1<<20)
	return &source{s, rate.NewLimiter(rate.Limit(bytesPerSec), int(step))}
}

// source is a source whose bytes are counted. The limiter's burst is also the
// most that is read at once, so that the flow is even.
type source struct {
	mover.Source
	limiter *rate.Limiter
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
	return &reader{r, ctx, c}, nil
}

type reader struct {
	io.ReadCloser
	ctx     context.Context
	content *content
}

// Read pays for its bytes when it has them.
func (r *reader) Read(p []byte) (int, error) {
	limiter := r.content.source.limiter
	n, err := r.ReadCloser.Read(p[:min(len(p), limiter.Burst())])
	if n == 0 {
		return n, err
	}
	if werr := limiter.WaitN(r.ctx, n); werr != nil {
		return n, r.late(werr)
	}
	return n, err
}

// late is why the wait ended: the context did, or would before its turn.
func (r *reader) late(err error) error {
	if cause := context.Cause(r.ctx); cause != nil {
		err = cause
	} else {
		err = fmt.Errorf("bandwidth limit: %w: %w", mover.ErrTimeout, err)
	}
	return &mover.Error{Op: "read", Place: r.content.source.String(), Name: r.content.Entry().Name, Err: err}
}
