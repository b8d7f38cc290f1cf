package s3

import (
	"context"
	"fmt"
	"io"
	"sync"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3/s3api"
)

// content is an object that is held open: an ETag, and, of a small object, the
// body of the one GET that told its facts. Each GET asks for that ETag, and what
// comes back is compared, because not every server minds the condition. It asks for no
// version: a bucket that keeps all of them would go on to give one that was replaced.
type content struct {
	place *Backend
	key   string
	entry mover.Entry
	etag  string

	mu    sync.Mutex    // guards all below
	body  io.ReadCloser // from the first byte, not read yet
	whole bool          // one GET was read to its end: the bytes are of one version
	bound bool          // the store copies it, if it has the ETag still: that is asked for with the copy
}

// Open implements mover.Backend. A small object is asked for at once; of a large
// one only its facts.
func (p *Backend) Open(ctx context.Context, e mover.Entry) (mover.Content, error) {
	c, err := p.openContent(ctx, e)
	if err != nil {
		return nil, p.wrap("open", e.Name, err)
	}
	return c, nil
}

func (p *Backend) openContent(ctx context.Context, e mover.Entry) (*content, error) {
	key, err := p.key(e.Name)
	if err != nil {
		return nil, err
	}
	c := &content{place: p, key: key, etag: e.ETag}
	if e.Kind == mover.Dir {
		c.entry, err = p.statDir(ctx, e.Name)
		return c, err
	}
	var o s3api.Object
	if e.Size <= partUsual && !mover.IsRanged(ctx) {
		c.body, o, err = p.store.Get(ctx, s3api.Get{Key: key, IfMatch: e.ETag, N: -1})
	} else {
		o, err = p.store.Head(ctx, key, "")
	}
	if err == nil {
		err = c.check(&o, e.Size, e.Kind)
	}
	if err == nil {
		err = c.learn(ctx, e.Name, &o)
	}
	if err != nil {
		_ = c.Close()
	}
	return c, err
}

// check compares what came with what was asked for.
func (c *content) check(o *s3api.Object, size int64, kind mover.Kind) error {
	switch {
	case o.Size < 0:
		return fmt.Errorf("the server does not tell its size: %w", mover.ErrTransient)
	case c.etag != "" && o.ETag != c.etag:
		return fmt.Errorf("it was version %s, now it is %s: %w", c.etag, o.ETag, mover.ErrChanged)
	case kind == mover.File && o.Size != size:
		return fmt.Errorf("it had %d bytes, now it has %d: %w", size, o.Size, mover.ErrChanged)
	}
	return nil
}

// learn takes over the facts. The target of a symlink is read at once.
func (c *content) learn(ctx context.Context, name string, o *s3api.Object) error {
	e, symlink := entryOf(name, o)
	c.etag, c.entry = o.ETag, e
	if !symlink {
		return c.place.tell(ctx, &c.entry, o)
	}
	target, err := c.all(ctx)
	if err != nil {
		return err
	}
	c.entry = asSymlink(e, target)
	return nil
}

// all reads the whole of a small object.
func (c *content) all(ctx context.Context) ([]byte, error) {
	r, err := c.Range(ctx, 0, c.entry.Size)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// asSymlink turns a file into the symlink that its metadata says it is, unless its
// content can not be a target.
func asSymlink(e mover.Entry, target []byte) mover.Entry {
	if checkTarget(string(target)) != nil {
		return e
	}
	e.Kind, e.Target, e.Size, e.Stored = mover.Symlink, string(target), 0, 0
	e.Known &^= mover.FactCRC | mover.FactsOfObject // of the object, not of a link
	e.Object = nil
	return e
}

// readSymlink completes the entry of an object that says that it is a symlink.
func (p *Backend) readSymlink(ctx context.Context, e mover.Entry, key string) (mover.Entry, error) {
	c := &content{place: p, key: key, etag: e.ETag, entry: e}
	target, err := c.all(ctx)
	return asSymlink(e, target), err
}

// Entry implements mover.Content.
func (c *content) Entry() mover.Entry { return c.entry }

// Range implements mover.Content.
func (c *content) Range(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	r, err := c.ranged(ctx, off, n)
	return r, c.place.wrap("read", c.entry.Name, err)
}

func (c *content) ranged(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	size := c.entry.Size
	switch {
	case off < 0 || n < 0:
		return nil, fmt.Errorf("range of %d bytes at %d: %w", n, off, mover.ErrUsage)
	case n == 0:
		return io.NopCloser(eof{}), nil
	case off >= size:
		return nil, io.ErrUnexpectedEOF
	}
	r := &rangeReader{content: c, ctx: ctx, left: min(n, size-off), short: n > size-off, whole: off == 0 && n >= size}
	if off == 0 {
		r.body = c.takeBody()
	}
	if r.body == nil {
		body, o, err := c.place.store.Get(ctx, s3api.Get{Key: c.key, IfMatch: c.etag, Off: off, N: r.left})
		if err != nil {
			return nil, err
		}
		if err := c.checkRange(&o, off, r.left); err != nil {
			body.Close()
			return nil, err
		}
		r.body = body
	}
	return r, nil
}

type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

// checkRange compares an answer with the range that was asked for. A server may
// answer with the whole object when that is the range.
func (c *content) checkRange(o *s3api.Object, off, n int64) error {
	if err := c.check(o, c.entry.Size, c.entry.Kind); err != nil {
		return err
	}
	got, ranged := s3api.ParseContentRange(o.Header.Get("Content-Range"))
	if !ranged && off == 0 && n == o.Size {
		return nil
	}
	if !ranged || got.First != off || got.Last != off+n-1 {
		return fmt.Errorf("asked for %d bytes at %d, the server answers with range %q: %w", n, off, o.Header.Get("Content-Range"), mover.ErrTransient)
	}
	return nil
}

func (c *content) takeBody() io.ReadCloser {
	c.mu.Lock()
	defer c.mu.Unlock()
	body := c.body
	c.body = nil
	return body
}

// Segment implements mover.Content: objects have no holes.
func (c *content) Segment(off int64) (mover.Segment, error) {
	size := c.entry.Size
	return mover.Segment{Start: min(off, size), End: size}, nil
}

// Check implements mover.Content. What one GET gave to its end is of one version,
// whatever came after, and is not asked for again, nor is what the store copies on the condition that it is as it was.
func (c *content) Check(ctx context.Context) error {
	c.mu.Lock()
	asked := c.whole || c.bound
	c.mu.Unlock()
	if asked || c.etag == "" && c.entry.Kind == mover.Dir {
		return nil
	}
	o, err := c.place.store.Head(ctx, c.key, "")
	if s3api.KindOf(err) == mover.ErrNotExist {
		err = fmt.Errorf("it is gone: %w", mover.ErrChanged)
	}
	if err == nil {
		err = c.check(&o, c.entry.Size, c.entry.Kind)
	}
	return c.place.wrap("check", c.entry.Name, err)
}

// Close implements mover.Content.
func (c *content) Close() error {
	if body := c.takeBody(); body != nil {
		return body.Close()
	}
	return nil
}

// rangeReader gives exactly the bytes that were asked for, or an error.
type rangeReader struct {
	content *content
	ctx     context.Context
	body    io.ReadCloser
	left    int64
	short   bool // more was asked for than there is
	whole   bool // the range is the whole content
}

func (r *rangeReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, r.end()
	}
	if int64(len(p)) > r.left {
		p = p[:r.left]
	}
	n, err := r.body.Read(p)
	r.left -= int64(n)
	if r.left == 0 && (err == nil || err == io.EOF) {
		return n, r.end()
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, r.content.place.wrap("read", r.content.entry.Name, s3api.BodyError(r.ctx, err))
}

// end is the error after the last byte. The body is asked for its end too, so that
// its connection can be used again.
func (r *rangeReader) end() error {
	if r.body != nil {
		var one [1]byte
		if n, err := r.body.Read(one[:]); n == 0 && err == io.EOF && r.whole {
			r.content.mu.Lock()
			r.content.whole = true
			r.content.mu.Unlock()
		}
	}
	if r.short {
		return io.ErrUnexpectedEOF
	}
	return io.EOF
}

func (r *rangeReader) Close() error { return r.body.Close() }
