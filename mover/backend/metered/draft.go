package metered

import (
	"context"
	"io"
	"sync/atomic"

	"datamove.dev/mover"
)

// draft counts the bytes that are written to a draft.
type draft struct {
	mover.Draft
	counter *Counter
	first   feed // most drafts have one part
	taken   atomic.Bool
	op      Op   // that made it
	begun   bool // that it was made is not told yet

	parts, bytes atomic.Int64 // not told yet
}

// A draft can what the one below can, so that mover.As finds what was there before and
// nothing else.
type (
	cloning struct {
		draft
		cloner mover.Cloner
	}
	rereading struct {
		draft
		rereader mover.Rereader
	}
	both struct {
		draft
		cloner   mover.Cloner
		rereader mover.Rereader
	}
)

// wrap has a draft counted that op made.
func wrap(d mover.Draft, c *Counter, op Op) mover.Draft {
	cloner, clones := mover.As[mover.Cloner](d)
	rereader, rereads := mover.As[mover.Rereader](d)
	switch {
	case clones && rereads:
		w := &both{cloner: cloner, rereader: rereader}
		w.begin(d, c, op)
		return w
	case clones:
		w := &cloning{cloner: cloner}
		w.begin(d, c, op)
		return w
	case rereads:
		w := &rereading{rereader: rereader}
		w.begin(d, c, op)
		return w
	}
	w := &draft{}
	w.begin(d, c, op)
	return w
}

func (d *draft) begin(inner mover.Draft, c *Counter, op Op) {
	d.Draft, d.counter, d.op, d.begun = inner, c, op, true
}

// Unwrap returns the draft that is counted.
func (d *draft) Unwrap() any { return d.Draft }

// WritePart implements mover.Draft.
func (d *draft) WritePart(ctx context.Context, p mover.Part, f mover.Feed) (mover.Receipt, error) {
	from := &d.first
	if !d.taken.CompareAndSwap(false, true) {
		from = new(feed)
	}
	from.Feed, from.draft = f, d
	r, err := d.Draft.WritePart(ctx, p, from)
	from.tell()
	if d.parts.Add(1) >= tellCalls {
		d.counter.hear(d.tell)
	}
	if !from.broke {
		_ = d.counter.failed(err) // it is returned
	}
	return r, err
}

// Finish implements mover.Draft.
func (d *draft) Finish(ctx context.Context, e mover.Entry, receipts []mover.Receipt) error {
	d.told()
	return d.counter.failed(d.Draft.Finish(ctx, e, receipts))
}

// Suspend implements mover.Draft.
func (d *draft) Suspend() error {
	d.told()
	return d.Draft.Suspend()
}

// Close implements mover.Draft.
func (d *draft) Close() error {
	d.told()
	return d.Draft.Close()
}

// told tells the counter everything.
func (d *draft) told() {
	if !d.begun && d.parts.Load() == 0 && d.bytes.Load() == 0 {
		return
	}
	d.counter.hear(func(s *shard) {
		if d.begun {
			d.begun = false
			s.ops[d.op].Add(1)
		}
		d.tell(s)
	})
}

func (d *draft) tell(s *shard) {
	move(&s.ops[Part], &d.parts)
	move(&s.written, &d.bytes)
}

// feed is a feed that counts what is taken from it.
type feed struct {
	mover.Feed
	draft *draft
	bytes int64 // not told yet
	broke bool  // the source failed, not the target
}

func (f *feed) Read(p []byte) (int, error) {
	n, err := f.Feed.Read(p)
	if f.bytes += int64(n); f.bytes >= tellBytes {
		f.tell()
		f.draft.counter.hear(f.draft.tell)
	}
	f.broke = f.broke || err != nil && err != io.EOF
	return n, err
}

func (f *feed) tell() {
	f.draft.bytes.Add(f.bytes)
	f.bytes = 0
}

// Clone implements mover.Cloner.
func (d *cloning) Clone(ctx context.Context, from mover.Content) (bool, error) {
	return d.counter.clone(ctx, d.cloner, from)
}

// Clone implements mover.Cloner.
func (d *both) Clone(ctx context.Context, from mover.Content) (bool, error) {
	return d.counter.clone(ctx, d.cloner, from)
}

// Reread implements mover.Rereader.
func (d *rereading) Reread(ctx context.Context) (mover.Content, error) {
	return d.counter.reread(ctx, d.rereader)
}

// Reread implements mover.Rereader.
func (d *both) Reread(ctx context.Context) (mover.Content, error) {
	return d.counter.reread(ctx, d.rereader)
}

// clone counts a Clone. What could not be cloned is read and written after all.
func (c *Counter) clone(ctx context.Context, d mover.Cloner, from mover.Content) (bool, error) {
	done, err := d.Clone(ctx, from)
	if !done && err == nil {
		return false, nil
	}
	return done, c.did(Copy, err)
}

// reread counts a Reread.
func (c *Counter) reread(ctx context.Context, d mover.Rereader) (mover.Content, error) {
	inner, err := d.Reread(ctx)
	if err != nil {
		return nil, c.did(Open, err)
	}
	return newContent(inner, c), nil
}
