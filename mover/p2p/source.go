package p2p

import (
	"context"
	"io"
	"iter"

	"datamove.dev/mover"
)

// Source returns outer, of which files come from the swarm. What is read for all members is read from inner: outer without what it expects of entries
// that it has walked, because others may ask for what this member's walk has not come to. Called once.
func (s *Swarm) Source(outer, inner mover.Source) mover.Source {
	s.outer, s.inner = outer, inner
	close(s.begun)
	return &source{outer, s}
}

type source struct {
	mover.Source
	swarm *Swarm
}

// Unwrap returns the source itself.
func (s *source) Unwrap() any { return s.Source }

// Close implements mover.Source.
func (s *source) Close() error {
	s.swarm.shut()
	return s.Source.Close()
}

// aheadMost is how many entries a walk may be ahead of its consumer.
const aheadMost = 1 << 16

// walked is an entry that waits to be yielded.
type walked struct {
	entry mover.Entry
	err   error
	cut   int // pieces that were cut when it came
}

// Capabilities implements mover.Source.
func (s *source) Capabilities() mover.Capabilities {
	t := s.Source.Capabilities()
	t.Patience = max(t.Patience, patienceMost)
	return t
}

// Walk implements mover.Source. The walk of the whole tree is cut into pieces, a window ahead of what it yields: so the consumer
// can ask ahead.
func (s *source) Walk(ctx context.Context, opts mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	if opts.Dir != "" || opts.After != "" || opts.Skip != nil {
		return s.Source.Walk(ctx, opts)
	}
	return func(yield func(mover.Entry, error) bool) {
		next, stop := iter.Pull2(s.Source.Walk(ctx, opts))
		defer stop()
		s.swarm.tree.forget()
		cut := NewCut(s.swarm.o.PieceBytes)
		var waiting []walked
		var linked linked
		for ended := false; ; {
			for !ended && (len(waiting) == 0 || cut.next-waiting[0].cut <= s.swarm.window() && len(waiting) < aheadMost) {
				e, err, ok := next()
				if ended = !ok; ended {
					s.swarm.tree.learn(cut.end())
					break
				}
				if err == nil && !linked.other(&e) {
					s.swarm.tree.learn(cut.add(e))
				}
				waiting = append(waiting, walked{e, err, cut.next})
			}
			if len(waiting) == 0 {
				return
			}
			w := waiting[0]
			waiting = waiting[1:]
			if !yield(w.entry, w.err) {
				return
			}
		}
	}
}

// linked are files that have several names, of which the first one is moved.
type linked map[inode]bool

type inode struct{ dev, ino uint64 }

// linkedMost bounds what is remembered of them: what is beyond is in pieces under all of its names.
const linkedMost = 1 << 18

// other says that an entry is another name of a file that was there before.
func (l *linked) other(e *mover.Entry) bool {
	id := inode{e.Dev, e.Ino}
	if e.Kind != mover.File || e.Nlink < 2 || e.Ino == 0 || (*l)[id] {
		return (*l)[id] && e.Kind == mover.File && e.Nlink > 1
	}
	if *l == nil {
		*l = linked{}
	}
	if len(*l) < linkedMost {
		(*l)[id] = true
	}
	return false
}

// Open implements mover.Source. A task without the right to read a file of the source gets nothing of it from other members. Where that costs no bytes the file is
// opened. A store, which grants or denies all below a prefix, is asked for one file of each directory, and if that fails for each.
func (s *source) Open(ctx context.Context, e mover.Entry) (mover.Content, error) {
	spot := s.swarm.tree.open(e.Name)
	if spot == nil || e.Kind != mover.File || spot.entry.Identity() != e.Identity() {
		return s.reopen(ctx, e)
	}
	c := &content{swarm: s.swarm, spot: spot}
	var err error
	if s.Capabilities().Remote {
		c.entry, err = s.facts(ctx, e, spot.in)
	} else if c.inner, err = s.Source.Open(ctx, e); err == nil {
		c.entry = c.inner.Entry()
	}
	if err != nil {
		s.swarm.tree.close(spot)
		return nil, err
	}
	return c, nil
}

// reopen opens a file of the source itself: it is in no piece, or was not what it should be.
func (s *source) reopen(ctx context.Context, e mover.Entry) (mover.Content, error) {
	gifts := s.swarm.trust.take(e.Name)
	c, err := s.Source.Open(ctx, e)
	if err != nil || e.Kind != mover.File {
		return c, err
	}
	return &again{c, s.swarm, gifts}, nil
}

// facts are all that is known of a file that was walked. It asks the source where that adds facts, and where no file of the
// same directory has been asked for with success.
func (s *source) facts(ctx context.Context, e mover.Entry, in *folder) (mover.Entry, error) {
	now, asked, err := e, false, error(nil)
	ask := func() error {
		asked = true
		now, err = s.ask(ctx, e)
		return err
	}
	if (!in.open(ask) || e.Brief) && !asked {
		_ = ask()
	}
	return now, err
}

// ask asks the place for a file that was walked. An object that was stored anew is what it was if its checksum says so.
func (s *source) ask(ctx context.Context, e mover.Entry) (mover.Entry, error) {
	now, err := s.Source.Stat(ctx, e.Name)
	summed := e.Known.Has(mover.FactCRC)
	if err == nil && (now.Kind != e.Kind || now.Size != e.Size || now.ETag != e.ETag && !summed) {
		err = &mover.Error{Op: "open", Location: s.String(), Name: e.Name, Err: mover.ErrChanged}
	}
	if err != nil || !e.Brief {
		return e, err
	}
	if summed {
		now.CRC, now.Known = e.CRC, now.Known|mover.FactCRC
	}
	return now, nil
}

// content is a file that is read from the swarm.
type content struct {
	swarm *Swarm
	spot  *position
	entry mover.Entry
	inner mover.Content // of the source; nil of a store, until it is needed
}

// Entry implements mover.Content.
func (c *content) Entry() mover.Entry { return c.entry }

// Segment implements mover.Content.
func (c *content) Segment(off int64) (mover.Segment, error) {
	if c.inner == nil { // stores have no holes
		return mover.Segment{Start: off, End: c.entry.Size}, nil
	}
	return c.inner.Segment(off)
}

// Check implements mover.Content. What came from a store has been checked by the member that read it, and by the checksum of the file.
func (c *content) Check(ctx context.Context) error {
	if c.inner == nil {
		return nil
	}
	return c.inner.Check(ctx)
}

// Close implements mover.Content.
func (c *content) Close() error {
	c.swarm.tree.close(c.spot)
	if c.inner == nil {
		return nil
	}
	return c.inner.Close()
}

// Range implements mover.Content.
func (c *content) Range(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	return &reader{ctx: ctx, content: c, off: off, end: off + n}, nil
}

// direct reads from the source itself.
func (c *content) direct(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	if c.inner != nil {
		return c.inner.Range(ctx, off, n)
	}
	if off > 0 || n < c.entry.Size {
		ctx = mover.Ranged(ctx)
	}
	inner, err := c.swarm.outer.Open(ctx, c.spot.entry)
	if err != nil {
		return nil, err
	}
	r, err := inner.Range(ctx, off, n)
	if err != nil {
		_ = inner.Close()
		return nil, err
	}
	return &opened{r, inner}, nil
}

// opened is a range of a content that was opened for it.
type opened struct {
	io.ReadCloser
	content mover.Content
}

// Close closes both.
func (o *opened) Close() error {
	err := o.ReadCloser.Close()
	if e := o.content.Close(); err == nil {
		err = e
	}
	return err
}
