package mem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"datamove.dev/mover"
)

// drafted is a draft on the medium; it outlives the backend that made it. The mutex of the
// tree guards it.
type drafted struct {
	token  mover.Token
	owner  mover.WriterID
	begun  mover.Entry
	in     *drafted
	link   *inode // to be shared
	parts  map[int]stored
	level  mover.Level
	filled bool // content came by Clone or Link
	blob   blob
	final  *mover.Entry // after Finish
	since  mover.Time
}

// stored is one part of a draft.
type stored struct {
	mover.Part
	runs []run
}

// draft is a hold on a drafted.
type draft struct {
	*drafted
	place *Backend
	done  error          // guarded by tree.mu; why it can not be used any more
	out   *mover.Outcome // guarded by tree.mu; of the draft once it is published
}

var (
	_ mover.Cloner   = (*draft)(nil)
	_ mover.Rereader = (*draft)(nil)
)

var (
	errPublished = fmt.Errorf("draft was published: %w", mover.ErrUsage)
	errSuspended = fmt.Errorf("draft was suspended: %w", mover.ErrUsage)
	errDropped   = fmt.Errorf("draft was dropped: %w", mover.ErrNotExist)
)

// Draft implements mover.Target.
func (p *Backend) Draft(ctx context.Context, e mover.Entry, h mover.Hints) (mover.Draft, error) {
	if err := p.enter(ctx, "draft", e.Name, false); err != nil {
		return nil, err
	}
	defer p.tree.mu.Unlock()
	d := &drafted{owner: h.By, begun: e, parts: map[int]stored{}, since: p.tree.now()}
	if err := p.begin(d, h); err != nil {
		return nil, p.fail("draft", e.Name, err)
	}
	p.tree.temps++
	dir, _ := mover.Parent(e.Name)
	d.token = mover.Token(mover.Join(dir, h.By.TempName(p.tree.temps)))
	p.tree.drafts[d.token] = d
	return &draft{drafted: d, place: p}, nil
}

// begin checks what is asked for and finds what it refers to.
func (p *Backend) begin(d *drafted, h mover.Hints) error {
	if _, _, ok := mover.ParseTempName(h.By.TempName(1)); !ok {
		return fmt.Errorf("owner %q: %w", h.By.Task, mover.ErrUsage)
	}
	if d.begun.Kind == 0 || d.begun.Kind > mover.BlockDevice || d.begun.Size < 0 {
		return fmt.Errorf("%v of %d bytes: %w", d.begun.Kind, d.begun.Size, mover.ErrUsage)
	}
	if limit := p.traits.MaxBytes; limit > 0 && d.begun.Size > limit {
		return fmt.Errorf("%d bytes are more than %d: %w", d.begun.Size, limit, mover.ErrUnsupported)
	}
	if h.Link != "" {
		if err := p.beginLink(d, h.Link); err != nil {
			return err
		}
	}
	if h.In == nil {
		_, _, err := p.parent(d.begun.Name)
		return err
	}
	in, ok := mover.As[*draft](h.In)
	if !ok || !p.traits.DirDrafts || in.begun.Kind != mover.Dir || !mover.Within(d.begun.Name, in.begun.Name) {
		return fmt.Errorf("not inside that draft: %w", mover.ErrUsage)
	}
	d.in = in.drafted
	return in.live()
}

func (p *Backend) beginLink(d *drafted, to string) error {
	if !mover.ValidName(to) {
		return fmt.Errorf("link to %q: %w", to, mover.ErrUsage)
	}
	n := p.tree.findKind(to, mover.File)
	if n == nil || n.entry.Kind != d.begun.Kind {
		return fmt.Errorf("link to %s: %w", mover.Printable(to), mover.ErrNotExist)
	}
	d.filled, d.level, d.blob = true, mover.Cloned, n.blob
	if !p.opts.ObjectStore {
		d.link = n.inode
	}
	return nil
}

// Adopt implements mover.Target.
func (p *Backend) Adopt(ctx context.Context, t mover.Token) (mover.Draft, error) {
	if err := p.enter(ctx, "adopt", "", true); err != nil {
		return nil, err
	}
	defer p.tree.mu.Unlock()
	d := p.tree.drafts[t]
	if d == nil {
		return nil, p.fail("adopt", "", fmt.Errorf("draft %q: %w", t, mover.ErrNotExist))
	}
	return &draft{drafted: d, place: p}, nil
}

// Drop implements mover.Target.
func (p *Backend) Drop(ctx context.Context, t mover.Token) error {
	if err := p.enter(ctx, "drop", "", true); err != nil {
		return err
	}
	defer p.tree.mu.Unlock()
	delete(p.tree.drafts, t)
	return nil
}

// live tells under the tree's mutex why the draft can not be used, if so.
func (d *draft) live() error {
	if d.done == nil && d.place.tree.drafts[d.token] != d.drafted {
		d.done = errDropped
	}
	return d.done
}

// enter is Place.enter for a call on the draft.
func (d *draft) enter(ctx context.Context, op string) error {
	if err := d.place.enter(ctx, op, d.begun.Name, false); err != nil {
		return err
	}
	if err := d.live(); err != nil {
		d.place.tree.mu.Unlock()
		return d.place.fail(op, d.begun.Name, err)
	}
	return nil
}

func (d *draft) Token() mover.Token { return d.token }

// WritePart implements mover.Draft. The tree is not held while the feed is read.
func (d *draft) WritePart(ctx context.Context, p mover.Part, feed mover.Feed) (mover.Receipt, error) {
	if err := d.enter(ctx, "write"); err != nil {
		return mover.Receipt{}, err
	}
	err := d.accepts(p)
	d.place.tree.mu.Unlock()
	var runs []run
	if err == nil {
		runs, err = take(ctx, p, feed, d.place.traits.Keeps.Has(mover.FactHoles))
	}
	if err != nil {
		return mover.Receipt{}, d.place.fail("write", d.begun.Name, err)
	}
	if err := d.enter(ctx, "write"); err != nil {
		return mover.Receipt{}, err
	}
	defer d.place.tree.mu.Unlock()
	d.parts[p.Index] = stored{p, runs}
	d.since = d.place.tree.now()
	return mover.Receipt{Part: p, CRC: feed.Sum(), ETag: d.partTag(p)}, nil
}

func (d *draft) accepts(p mover.Part) error {
	t := &d.place.traits
	switch {
	case d.begun.Kind != mover.File || d.filled || d.final != nil:
		return fmt.Errorf("draft takes no parts: %w", mover.ErrUsage)
	case p.Index < 0 || p.Off < 0 || p.Length < 0 || p.Index >= t.MaxParts:
		return fmt.Errorf("part %d, %d bytes at %d: %w", p.Index, p.Length, p.Off, mover.ErrUsage)
	case p.Off+p.Length < d.begun.Size && (p.Length < t.PartMin || p.Length%max(1, t.PartAlign) != 0):
		return fmt.Errorf("part of %d bytes: %w", p.Length, mover.ErrUsage)
	}
	return nil
}

func (d *draft) partTag(p mover.Part) string {
	if d.place.opts.ObjectStore {
		return fmt.Sprintf("\"%d-%d\"", p.Index, d.since.Nsec)
	}
	return ""
}

// take reads a whole part.
func take(ctx context.Context, p mover.Part, feed mover.Feed, holes bool) ([]run, error) {
	var runs []run
	buf := make([]byte, min(p.Length+1, 64<<10))
	for off := p.Off; ; {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if holes {
			off += feed.Hole()
		}
		n, err := feed.Read(buf)
		if n > 0 {
			runs = append(runs, run{off, slices.Clone(buf[:n])})
			off += int64(n)
		}
		if err == io.EOF && off == p.Off+p.Length {
			return runs, nil
		}
		if err == io.EOF {
			return nil, fmt.Errorf("part %d has %d bytes of %d: %w", p.Index, off-p.Off, p.Length, io.ErrUnexpectedEOF)
		}
		if err != nil {
			return nil, err
		}
		if off > p.Off+p.Length {
			return nil, fmt.Errorf("part %d has more than %d bytes: %w", p.Index, p.Length, mover.ErrUsage)
		}
	}
}

// Clone implements mover.Cloner, with Options.Reflinks.
func (d *draft) Clone(ctx context.Context, c mover.Content) (bool, error) {
	from, ok := mover.As[*content](c)
	if !ok || !d.place.opts.Reflinks || d.begun.Kind != mover.File {
		return false, nil
	}
	if err := from.Check(ctx); err != nil {
		return false, err
	}
	if err := d.enter(ctx, "clone"); err != nil {
		return false, err
	}
	defer d.place.tree.mu.Unlock()
	d.filled, d.level, d.blob = true, mover.Cloned, from.blob
	return true, nil
}

// Finish implements mover.Draft.
func (d *draft) Finish(ctx context.Context, e mover.Entry, receipts []mover.Receipt) error {
	if err := d.enter(ctx, "finish"); err != nil {
		return err
	}
	defer d.place.tree.mu.Unlock()
	if err := d.finish(e, receipts); err != nil {
		return d.place.fail("finish", d.begun.Name, err)
	}
	return nil
}

func (d *draft) finish(e mover.Entry, receipts []mover.Receipt) error {
	if e.Name != d.begun.Name || e.Kind != d.begun.Kind {
		return fmt.Errorf("draft of %v %s finished as %v %s: %w", d.begun.Kind, mover.Printable(d.begun.Name), e.Kind, mover.Printable(e.Name), mover.ErrUsage)
	}
	adopted := d.final != nil && receipts == nil && e.Size == d.blob.size // it has its content
	if e.Kind == mover.File && !d.filled && !adopted {
		if err := d.assemble(e.Size, receipts); err != nil {
			return err
		}
		if d.place.opts.ObjectStore && e.Known.Has(mover.FactCRC) && d.blob.crc() != e.CRC {
			return mover.ErrCorrupt
		}
		d.level = d.place.traits.Level
	}
	d.final = &e
	return nil
}

// assemble makes the content of the parts that the receipts name.
func (d *draft) assemble(size int64, receipts []mover.Receipt) error {
	b := blob{size: size}
	var off int64
	for i, r := range receipts {
		part, ok := d.parts[r.Index]
		if !ok || part.Part != r.Part || r.Index != i || r.Off != off {
			return fmt.Errorf("receipt %d, part %d at %d, is not of what was written: %w", i, r.Index, r.Off, mover.ErrUsage)
		}
		b.runs = append(b.runs, part.runs...)
		off += r.Length
	}
	if off != size {
		return fmt.Errorf("parts have %d bytes of %d: %w", off, size, mover.ErrUsage)
	}
	d.blob = b
	return nil
}

// Reread implements mover.Rereader.
func (d *draft) Reread(ctx context.Context) (mover.Content, error) {
	if err := d.enter(ctx, "reread"); err != nil {
		return nil, err
	}
	defer d.place.tree.mu.Unlock()
	if d.final == nil && d.place.opts.ObjectStore {
		return nil, d.place.fail("reread", d.begun.Name, fmt.Errorf("draft is not finished: %w", mover.ErrUnsupported))
	}
	e, b := d.begun, d.blob
	if d.final != nil {
		e = *d.final
	} else if !d.filled {
		b = d.soFar()
	}
	e.Size = b.size
	return &content{place: d.place, name: d.begun.Name, entry: e, blob: b, draft: true}, nil
}

// soFar is the content of a draft that is being written: what has no part yet is a hole.
func (d *draft) soFar() (b blob) {
	parts := slices.SortedFunc(maps.Values(d.parts), func(p, q stored) int { return cmp.Compare(p.Off, q.Off) })
	for _, p := range parts {
		b.runs = append(b.runs, p.runs...)
		b.size = max(b.size, p.Off+p.Length)
	}
	return b
}

// Suspend implements mover.Draft.
func (d *draft) Suspend() error { return d.letGo(errSuspended) }

// Close implements mover.Draft.
func (d *draft) Close() error { return d.letGo(errDropped) }

// letGo ends this hold; only a draft that is dropped leaves the medium. A crashed
// process leaves everything.
func (d *draft) letGo(how error) error {
	d.place.tree.mu.Lock()
	defer d.place.tree.mu.Unlock()
	if d.live() != nil {
		return nil
	}
	if errors.Is(d.place.dead, errCrashed) {
		return d.place.fail("close", d.begun.Name, errCrashed)
	}
	d.done = how
	if how == errDropped {
		delete(d.place.tree.drafts, d.token)
	}
	return nil
}
