package faulty

import (
	"context"
	"errors"
	"fmt"

	"datamove.dev/mover"
)

// draft is a draft with writes that may fail.
type draft struct {
	mover.Draft
	place *Backend
	name  string
	in    *draft         // the directory draft it is built in
	lost  *mover.Outcome // it was published, but the answer was lost
}

// Unwrap returns the draft that works.
func (d *draft) Unwrap() any { return d.Draft }

// WritePart implements mover.Draft.
func (d *draft) WritePart(ctx context.Context, p mover.Part, feed mover.Feed) (r mover.Receipt, err error) {
	f := d.place.draw(Write, d.name, p.Off)
	switch f {
	case None:
		return d.Draft.WritePart(ctx, p, feed)
	case Flipped:
		return d.Draft.WritePart(ctx, p, &flipped{Feed: feed})
	case Torn:
		_, err := d.Draft.WritePart(ctx, p, &torn{feed, p.Length / 2})
		if err != nil && !errors.Is(err, errTorn) {
			return r, err
		}
	case Lost:
		if _, err := d.Draft.WritePart(ctx, p, feed); err != nil {
			return r, err
		}
	}
	return r, d.place.fails(ctx, f, Write, d.name)
}

// Clone implements mover.Cloner; where the draft that works is none, it can not do that.
func (d *draft) Clone(ctx context.Context, c mover.Content) (cloned bool, err error) {
	inner, ok := mover.As[mover.Cloner](d.Draft)
	if !ok {
		return false, nil
	}
	err = d.place.around(ctx, Clone, d.name, 0, func() (err error) { cloned, err = inner.Clone(ctx, c); return })
	return cloned && err == nil, err
}

// Reread implements mover.Rereader.
func (d *draft) Reread(ctx context.Context) (c mover.Content, err error) {
	inner, ok := mover.As[mover.Rereader](d.Draft)
	if !ok {
		return nil, mover.ErrUnsupported
	}
	err = d.place.around(ctx, Reread, d.name, 0, func() (err error) { c, err = inner.Reread(ctx); return })
	if err != nil {
		return nil, err
	}
	return &content{c, d.place, d.name}, nil
}

// Finish implements mover.Draft.
func (d *draft) Finish(ctx context.Context, e mover.Entry, receipts []mover.Receipt) error {
	return d.place.around(ctx, Finish, d.name, 0, func() error { return d.Draft.Finish(ctx, e, receipts) })
}

// flipped gives the target another byte than the one that was counted.
type flipped struct {
	mover.Feed
	done bool
}

func (f *flipped) Read(p []byte) (int, error) {
	n, err := f.Feed.Read(p)
	if n > 0 && !f.done {
		p[n-1] ^= 0x80
		f.done = true
	}
	return n, err
}

var errTorn = fmt.Errorf("injected torn write: %w", mover.ErrTransient)

// torn breaks after some bytes.
type torn struct {
	mover.Feed
	good int64
}

func (t *torn) Read(p []byte) (int, error) {
	if t.good <= 0 {
		return 0, errTorn
	}
	n, err := t.Feed.Read(p[:min(int64(len(p)), t.good)])
	t.good -= int64(n)
	return n, err
}

func (t *torn) Hole() int64 {
	n := t.Feed.Hole()
	t.good -= n
	return n
}

// Publish implements mover.Target. Each draft may meet a fault, which it shares
// with what is built in it. Killed publishes what is before it, and every outcome is an error.
func (p *Backend) Publish(ctx context.Context, batch []mover.Draft) []mover.Outcome {
	outcomes := make([]mover.Outcome, len(batch))
	fates, killed := p.fates(batch)
	var inner []mover.Draft
	var index []int
	for i, f := range fates {
		if f.draft != nil && f.draft.lost == nil && (f.fault == None || f.fault == Lost) {
			inner, index = append(inner, f.draft.Draft), append(index, i)
		}
	}
	for j, out := range p.inner.Publish(ctx, inner) {
		outcomes[index[j]] = out
	}
	for i, f := range fates {
		if killed {
			f.fault = Killed
		}
		outcomes[i] = p.spoil(ctx, f, outcomes[i])
	}
	return outcomes
}

// fate is what will happen to one draft of a batch.
type fate struct {
	draft *draft // nil: not ours
	fault Fault
}

func (p *Backend) fates(batch []mover.Draft) (fates []fate, killed bool) {
	of := make(map[*draft]Fault, len(batch))
	for _, b := range batch {
		d, ok := mover.As[*draft](b)
		if !ok || d.place != p {
			fates = append(fates, fate{})
			continue
		}
		f, shared := of[d.in]
		switch {
		case killed:
			f = Killed
		case d.lost == nil && !shared:
			f = p.draw(Publish, d.name, 0)
		}
		of[d] = f
		killed = killed || f == Killed
		fates = append(fates, fate{d, f})
	}
	return fates, killed
}

// spoil turns an outcome into what the fate makes of it. A draft with a lost outcome
// gets that outcome when it is published again, as from a backend that knows its own drafts.
func (p *Backend) spoil(ctx context.Context, f fate, out mover.Outcome) mover.Outcome {
	switch {
	case f.draft == nil:
		return mover.Outcome{Err: p.err(Publish, "", fmt.Errorf("draft of another place: %w", mover.ErrUsage))}
	case f.draft.lost != nil && f.fault != Killed:
		return *f.draft.lost
	case f.fault == None || f.fault == Lost && out.Err != nil:
		return out
	case f.fault == Lost:
		f.draft.lost = &out
	}
	return mover.Outcome{Err: p.fails(ctx, f.fault, Publish, f.draft.name)}
}
