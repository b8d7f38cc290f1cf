package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/checksum"
)

// feed is the mover.Feed of one part: it reads the range from the source and
// hashes and counts what passes. One goroutine uses it at a time; it can be reset
// for another part.
type feed struct {
	ctx     context.Context
	content mover.Content
	part    mover.Part
	sparse  bool // the content may have holes
	n       *Counters
	far     bool   // the source is remote
	sends   bool   // the target is
	weight  int64  // how many parts this one is timed for; 0 is not timed
	alive   func() // is told of each byte; nil is not

	pos  int64 // of the next byte
	sum  uint64
	body io.ReadCloser // open at pos; nil when it is not
	data mover.Segment // the stored bytes around pos, when known

	last time.Time // the end of the last read: since then the worker waits for the consumer of the bytes
}

func (f *feed) reset(ctx context.Context, c mover.Content, sparse bool, p mover.Part) {
	_ = f.Close()
	f.ctx, f.content, f.sparse, f.part = ctx, c, sparse, p
	f.pos, f.sum, f.data, f.weight = p.Off, 0, mover.Segment{}, 1
}

func (f *feed) end() int64 { return f.part.Off + f.part.Length }

// Read implements mover.Feed. After Hole was asked, it stops where a hole begins,
// so that it can be asked again.
func (f *feed) Read(p []byte) (int, error) {
	stop := f.end()
	if f.data.End > f.pos {
		stop = min(stop, f.data.End)
	}
	if f.pos >= f.end() {
		f.pulls()
		return 0, io.EOF
	}
	if int64(len(p)) > stop-f.pos {
		p = p[:stop-f.pos]
	}
	n, err := f.timed(p, stop)
	f.sum = checksum.Update(f.sum, p[:n])
	f.pos += int64(n)
	if f.pos == stop {
		_ = f.Close() // nothing more comes from this range
	}
	if n == len(p) {
		return n, nil
	}
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = &mover.Error{Op: "read", Name: f.content.Entry().Name, Err: errShort}
	}
	return n, err
}

// errShort is what a source gives that ends before its size.
var errShort = fmt.Errorf("%w: it has fewer bytes than its size", mover.ErrChanged)

// limited is how long reads of body have waited for a bandwidth limit so far: that is
// not waiting for the source.
func (f *feed) limited() time.Duration {
	if w, ok := f.body.(interface{ Waited() time.Duration }); ok {
		return w.Waited()
	}
	return 0
}

// open has a body to read from.
func (f *feed) open(stop int64) (err error) {
	if f.body == nil {
		f.body, err = f.content.Range(f.ctx, f.pos, stop-f.pos)
	}
	return err
}

func (f *feed) fill(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var m int
		m, err = f.body.Read(p[n:])
		n += m
		f.n.Bytes.Add(int64(m)) // now, and not when p is full: a part may take minutes
		if f.alive != nil && m > 0 {
			f.alive()
		}
	}
	return n, err
}

// Hole implements mover.Feed.
func (f *feed) Hole() int64 {
	if !f.sparse || f.pos >= f.end() || f.pos < f.data.End {
		return 0
	}
	s, err := f.content.Segment(f.pos)
	if err != nil || s.Start < f.pos {
		f.sparse = false // it can not tell: read everything
		return 0
	}
	f.data = s
	n := min(s.Start, f.end()) - f.pos
	if n <= 0 {
		return 0
	}
	_ = f.Close()
	f.sum = checksum.Zeros(f.sum, n)
	f.pos += n
	f.n.Bytes.Add(n)
	return n
}

// Sum implements mover.Feed.
func (f *feed) Sum() uint64 { return f.sum }

// Rewind implements mover.Feed.
func (f *feed) Rewind() error {
	f.n.Bytes.Add(f.part.Off - f.pos)
	f.pos, f.sum, f.data = f.part.Off, 0, mover.Segment{}
	return f.Close()
}

// whole says that everything has passed; what a target left unread is its fault.
func (f *feed) whole() error {
	if f.pos != f.end() {
		return &mover.Error{Op: "write", Name: f.content.Entry().Name, Err: errors.New("the target took only a part of the bytes")}
	}
	return nil
}

func (f *feed) Close() error {
	if f.body == nil {
		return nil
	}
	body := f.body
	f.body = nil
	return body.Close()
}
