package p2p

import (
	"context"
	"sync"

	"datamove.dev/mover"
)

// Target wraps t: other members can have what is written to its drafts. Called once.
func (s *Swarm) Target(t mover.Backend) mover.Backend {
	s.drafts.begin(t)
	return &target{t, s}
}

type target struct {
	mover.Backend
	swarm *Swarm
}

// Unwrap returns the target itself.
func (t *target) Unwrap() any { return t.Backend }

// Close implements mover.Target.
func (t *target) Close() error {
	t.swarm.shut()
	return t.Backend.Close()
}

// Draft implements mover.Target.
func (t *target) Draft(ctx context.Context, e mover.Entry, h mover.Hints) (mover.Draft, error) {
	d, err := t.Backend.Draft(ctx, e, h)
	if err != nil || e.Kind != mover.File {
		return d, err
	}
	peeker, ok := mover.As[mover.Peeker](d)
	if !ok {
		return d, nil
	}
	f := &draft{Draft: d, peeker: peeker, name: e.Name, all: &t.swarm.drafts, trust: &t.swarm.trust}
	f.all.add(f)
	return f, nil
}

// Publish implements mover.Target.
func (t *target) Publish(ctx context.Context, batch []mover.Draft) []mover.Outcome {
	out := t.Backend.Publish(ctx, batch)
	for i, d := range batch {
		if f, ok := d.(*draft); ok && out[i].Err == nil {
			f.all.remove(f)
		}
	}
	return out
}

// drafts are what is written: those that are not published, and the place of those that are.
type drafts struct {
	mu     sync.Mutex
	target mover.Backend     // nil until it is known; guarded by mu, as all below
	all    map[string]*draft // by the names of their entries
}

func (d *drafts) begin(t mover.Backend) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.target = t
}

func (d *drafts) add(f *draft) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all == nil {
		d.all = map[string]*draft{}
	}
	d.all[f.name] = f
}

func (d *drafts) remove(f *draft) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all[f.name] == f {
		delete(d.all, f.name)
	}
}

// read reads what is written of a file. Some files of a piece may be published, and others not: a look among
// the published ones only finds nothing.
func (d *drafts) read(ctx context.Context, seg Segment, into []byte) error {
	d.mu.Lock()
	f, target := d.all[seg.Name], d.target
	d.mu.Unlock()
	switch {
	case f != nil && f.has(seg.Off, seg.Length):
		if f.read(seg, into) == nil {
			return nil
		} // it has just been published
	case f != nil, target == nil:
		return mover.ErrNotExist
	}
	return published(ctx, target, seg, into)
}

// published reads what can be seen of a file.
func published(ctx context.Context, target mover.Backend, seg Segment, into []byte) error {
	e, err := target.Stat(ctx, seg.Name)
	if err != nil {
		return err
	}
	if e.Kind != mover.File || e.Size < seg.Off+seg.Length {
		return mover.ErrNotExist
	}
	c, err := target.Open(ctx, e)
	if err != nil {
		return err
	}
	defer c.Close()
	return readRange(ctx, c, seg.Off, into)
}

func (f *draft) read(seg Segment, into []byte) error {
	r, err := f.peeker.Peek()
	if err != nil {
		return err
	}
	defer r.Close()
	if n, err := r.ReadAt(into, seg.Off); n < len(into) {
		return err
	}
	return nil
}

// draft is a file that is being written, and can be read.
type draft struct {
	mover.Draft
	peeker mover.Peeker
	name   string
	all    *drafts
	trust  *trust

	mu      sync.Mutex
	written []mover.Segment // apart, in order; guarded by mu
}

// Unwrap returns the draft itself.
func (f *draft) Unwrap() any { return f.Draft }

// WritePart implements mover.Draft.
func (f *draft) WritePart(ctx context.Context, p mover.Part, feed mover.Feed) (mover.Receipt, error) {
	m := &marking{Feed: feed, draft: f, off: p.Off, begin: p.Off, end: p.Off}
	r, err := f.Draft.WritePart(ctx, p, m)
	if err == nil {
		m.end = p.Off + p.Length
		m.mark()
	}
	return r, err
}

// marking is a feed that marks what was written of its part: a writer that asks for more has written what came before.
type marking struct {
	mover.Feed
	draft      *draft
	off        int64 // of the part
	begin, end int64 // what is written, and not marked yet
}

// Read implements mover.Feed.
func (m *marking) Read(p []byte) (int, error) {
	if m.end > m.begin {
		m.mark()
	}
	n, err := m.Feed.Read(p)
	m.end += int64(n)
	return n, err
}

// Hole implements mover.Feed.
func (m *marking) Hole() int64 {
	n := m.Feed.Hole()
	m.end += n
	return n
}

// Rewind implements mover.Feed.
func (m *marking) Rewind() error {
	m.begin, m.end = m.off, m.off
	return m.Feed.Rewind()
}

func (m *marking) mark() {
	m.draft.mu.Lock()
	defer m.draft.mu.Unlock()
	m.draft.written = join(m.draft.written, mover.Segment{Start: m.begin, End: m.end})
	m.begin = m.end
}

// has says whether a range is written.
func (f *draft) has(off, n int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.written {
		if s.Start <= off && off+n <= s.End {
			return true
		}
	}
	return false
}

// Finish implements mover.Draft. It comes when the content is what it should be.
func (f *draft) Finish(ctx context.Context, e mover.Entry, receipts []mover.Receipt) error {
	f.trust.forget(f.name)
	return f.Draft.Finish(ctx, e, receipts)
}

// Suspend implements mover.Draft.
func (f *draft) Suspend() error {
	f.all.remove(f)
	return f.Draft.Suspend()
}

// Close implements mover.Draft.
func (f *draft) Close() error {
	f.all.remove(f)
	return f.Draft.Close()
}

// join adds a range to ranges that are apart and in order.
func join(all []mover.Segment, s mover.Segment) (out []mover.Segment) {
	for i, x := range all {
		switch {
		case x.End < s.Start:
			out = append(out, x)
		case s.End < x.Start:
			return append(append(out, s), all[i:]...)
		default:
			s.Start, s.End = min(s.Start, x.Start), max(s.End, x.End)
		}
	}
	return append(out, s)
}
