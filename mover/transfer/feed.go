package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/crc"
)

// timedBytes is the least read that is worth a look at the clock. What sends by HTTP
// reads 32 KiB at a time.
const timedBytes = 16 << 10

// feed is the mover.Feed of one part: it reads the range from the source and
// hashes and counts what passes. One goroutine uses it at a time; it can be reset
// for another part.
type feed struct {
	ctx     context.Context
	content mover.Content
	part    mover.Part
	sparse  bool // the content may have holes
	bytes   *atomic.Int64
	wait    *atomic.Int64

	pos  int64 // of the next byte
	sum  uint64
	body io.ReadCloser // open at pos; nil when it is not
	data mover.Segment // the stored bytes around pos, when known

	pulled time.Duration // that reads have taken, of all parts: for the source and for a limit
}

func (f *feed) reset(ctx context.Context, c mover.Content, sparse bool, p mover.Part) {
	_ = f.Close()
	f.ctx, f.content, f.sparse, f.part = ctx, c, sparse, p
	f.pos, f.sum, f.data = p.Off, 0, mover.Segment{}
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
		return 0, io.EOF
	}
	if int64(len(p)) > stop-f.pos {
		p = p[:stop-f.pos]
	}
	var start time.Time
	if len(p) >= timedBytes {
		start = time.Now()
	}
	limited := f.limited()
	n, err := f.fill(p, stop)
	if len(p) >= timedBytes {
		took := time.Since(start)
		f.pulled += took
		f.wait.Add(int64(took - (f.limited() - limited)))
	}
	f.sum = crc.Update(f.sum, p[:n])
	f.pos += int64(n)
	f.bytes.Add(int64(n))
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

func (f *feed) fill(p []byte, stop int64) (n int, err error) {
	if f.body == nil {
		if f.body, err = f.content.Range(f.ctx, f.pos, stop-f.pos); err != nil {
			return 0, err
		}
	}
	for n < len(p) && err == nil {
		var m int
		m, err = f.body.Read(p[n:])
		n += m
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
	f.sum = crc.Zeros(f.sum, n)
	f.pos += n
	f.bytes.Add(n)
	return n
}

// Sum implements mover.Feed.
func (f *feed) Sum() uint64 { return f.sum }

// Rewind implements mover.Feed.
func (f *feed) Rewind() error {
	f.bytes.Add(f.part.Off - f.pos)
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
