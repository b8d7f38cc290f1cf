// Package feed gives the bytes of one part to the target that takes them: it is the mover.Feed of package transfer.
//
// A [Reader] hashes (CRC-64/NVME) and counts each byte as it passes, and the time that its worker waits for the source, for the target and for the link between
// them. It is of one goroutine, and is used again for the next part, so that a small file costs no allocation. TestWaitsAreApart of package transfer shows the times.
package feed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/checksum"
)

// Reader is the mover.Feed of one part: it reads the range from the source and
// hashes and counts what passes. One goroutine uses it at a time; it can be reset
// for another part.
type Reader struct {
	ctx     context.Context
	content mover.Content
	part    mover.Part
	sparse  bool // the content may have holes
	n       Counters
	far     bool // the source is remote
	sends   bool // the target is

	Weight int64     // how many parts this one is timed for; 0 is not timed
	Alive  func()    // is told of each byte; nil is not
	Last   time.Time // the end of the last read: since then the worker waits for the consumer of the bytes

	pos  int64 // of the next byte
	sum  uint64
	body io.ReadCloser // open at pos; nil when it is not
	data mover.Segment // the stored bytes around pos, when known
}

// Counters are what feeds add to. The waits are in ns.
type Counters struct{ Bytes, SourceWait, TargetWait, LinkWait *atomic.Int64 }

// New makes a feed from a source to a target.
func New(n Counters, source, target mover.Capabilities) Reader {
	return Reader{n: n, far: source.Remote, sends: target.Remote}
}

// Reset begins another part, with timed bytes.
func (f *Reader) Reset(ctx context.Context, c mover.Content, sparse bool, p mover.Part) {
	_ = f.Close()
	f.ctx, f.content, f.sparse, f.part = ctx, c, sparse, p
	f.pos, f.sum, f.data, f.Weight = p.Off, 0, mover.Segment{}, 1
}

func (f *Reader) end() int64 { return f.part.Off + f.part.Length }

// Read implements mover.Feed. After Hole was asked, it stops where a hole begins,
// so that it can be asked again.
func (f *Reader) Read(p []byte) (int, error) {
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
func (f *Reader) limited() time.Duration {
	if w, ok := f.body.(interface{ Waited() time.Duration }); ok {
		return w.Waited()
	}
	return 0
}

// open has a body to read from.
func (f *Reader) open(stop int64) (err error) {
	if f.body == nil {
		f.body, err = f.content.Range(f.ctx, f.pos, stop-f.pos)
	}
	return err
}

func (f *Reader) fill(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var m int
		m, err = f.body.Read(p[n:])
		n += m
		f.n.Bytes.Add(int64(m)) // now, and not when p is full: a part may take minutes
		if f.Alive != nil && m > 0 {
			f.Alive()
		}
	}
	return n, err
}

// Hole implements mover.Feed.
func (f *Reader) Hole() int64 {
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

// Passed is how many bytes of the part were counted.
func (f *Reader) Passed() int64 { return f.pos - f.part.Off }

// Sum implements mover.Feed.
func (f *Reader) Sum() uint64 { return f.sum }

// Rewind implements mover.Feed.
func (f *Reader) Rewind() error {
	f.n.Bytes.Add(f.part.Off - f.pos)
	f.pos, f.sum, f.data = f.part.Off, 0, mover.Segment{}
	return f.Close()
}

// Whole says that everything has passed; what a target left unread is its fault.
func (f *Reader) Whole() error {
	if f.pos != f.end() {
		return &mover.Error{Op: "write", Name: f.content.Entry().Name, Err: errors.New("the target took only a part of the bytes")}
	}
	return nil
}

func (f *Reader) Close() error {
	if f.body == nil {
		return nil
	}
	body := f.body
	f.body = nil
	return body.Close()
}

// timed is fill that counts what the worker waits for. Until this call that was the consumer of the bytes, or the link to
// it. A remote source is waited for until it answers, and the link from then on.
func (f *Reader) timed(p []byte, stop int64) (int, error) {
	if f.Weight == 0 {
		if err := f.open(stop); err != nil {
			return 0, err
		}
		return f.fill(p)
	}
	f.pulls()
	begun, limited := f.Last, f.limited()
	err := f.open(stop)
	answered, n := begun, 0
	if f.far {
		answered = time.Now()
	}
	if err == nil {
		n, err = f.fill(p)
	}
	f.Last = time.Now()
	read := f.Last.Sub(answered) - (f.limited() - limited)
	if f.far {
		f.n.SourceWait.Add(f.Weight * int64(answered.Sub(begun)))
		f.n.LinkWait.Add(f.Weight * int64(read))
	} else {
		f.n.SourceWait.Add(f.Weight * int64(read))
	}
	return n, err
}

// pulls ends the time since the last read, when the consumer asks for more: it has written
// what it had, or sent it.
func (f *Reader) pulls() {
	if f.Weight == 0 {
		return
	}
	now := time.Now()
	if took := f.Weight * int64(now.Sub(f.Last)); f.sends {
		f.n.LinkWait.Add(took)
	} else {
		f.n.TargetWait.Add(took)
	}
	f.Last = now
}
