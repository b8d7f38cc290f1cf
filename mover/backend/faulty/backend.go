package faulty

import (
	"context"
	"iter"

	"datamove.dev/mover"
)

var _ mover.Backend = (*Backend)(nil)

func (p *Backend) String() string                   { return p.inner.String() }
func (p *Backend) Capabilities() mover.Capabilities { return p.inner.Capabilities() }
func (p *Backend) Close() error                     { return p.inner.Close() }

// Walk implements mover.Source. A fault ends the walk, but Denied hides what a
// directory contains.
func (p *Backend) Walk(ctx context.Context, opts mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		if err := p.around(ctx, Walk, opts.Dir, 0, func() error { return nil }); err != nil {
			yield(mover.Entry{}, err)
			return
		}
		hidden := "" // the directory with denied contents
		for e, err := range p.inner.Walk(ctx, opts) {
			if hidden != "" && mover.Within(e.Name, hidden) {
				continue
			}
			f, op := None, entryOp(e)
			if err == nil {
				f = p.draw(op, e.Name, 0)
			}
			if f != None && f != Denied {
				yield(mover.Entry{}, p.fails(ctx, f, op, e.Name))
				return
			}
			if !yield(e, err) {
				return
			}
			if f == Denied {
				hidden = e.Name
				if !yield(e, p.fails(ctx, f, op, e.Name)) {
					return
				}
			}
		}
	}
}

func entryOp(e mover.Entry) Op {
	if e.Kind == mover.Dir {
		return List
	}
	return Entry
}

// Stat implements mover.Source.
func (p *Backend) Stat(ctx context.Context, name string) (e mover.Entry, err error) {
	err = p.around(ctx, Stat, name, 0, func() (err error) { e, err = p.inner.Stat(ctx, name); return })
	return e, err
}

// Open implements mover.Source.
func (p *Backend) Open(ctx context.Context, e mover.Entry) (c mover.Content, err error) {
	err = p.around(ctx, Open, e.Name, 0, func() (err error) { c, err = p.inner.Open(ctx, e); return })
	if err != nil {
		return nil, err
	}
	return &content{c, p, e.Name}, nil
}

// Lock implements mover.Target.
func (p *Backend) Lock(ctx context.Context, name string, holder mover.WriterID) (held context.Context, unlock func() error, err error) {
	err = p.around(ctx, Lock, name, 0, func() (err error) { held, unlock, err = p.inner.Lock(ctx, name, holder); return })
	return held, unlock, err
}

// Draft implements mover.Target. After Lost the draft is a stray.
func (p *Backend) Draft(ctx context.Context, e mover.Entry, h mover.Hints) (mover.Draft, error) {
	var in *draft
	if h.In != nil {
		if in, _ = mover.As[*draft](h.In); in != nil {
			h.In = in.Draft
		}
	}
	var d mover.Draft
	err := p.around(ctx, Draft, e.Name, 0, func() (err error) { d, err = p.inner.Draft(ctx, e, h); return })
	if err != nil {
		return nil, err
	}
	return &draft{Draft: d, place: p, name: e.Name, in: in}, nil
}

// Adopt implements mover.Target.
func (p *Backend) Adopt(ctx context.Context, t mover.Token) (mover.Draft, error) {
	var d mover.Draft
	err := p.around(ctx, Adopt, string(t), 0, func() (err error) { d, err = p.inner.Adopt(ctx, t); return })
	if err != nil {
		return nil, err
	}
	return &draft{Draft: d, place: p, name: string(t)}, nil
}

// Drop implements mover.Target.
func (p *Backend) Drop(ctx context.Context, t mover.Token) error {
	return p.around(ctx, Drop, string(t), 0, func() error { return p.inner.Drop(ctx, t) })
}

// Mkdir implements mover.Target.
func (p *Backend) Mkdir(ctx context.Context, e mover.Entry) error {
	return p.around(ctx, Mkdir, e.Name, 0, func() error { return p.inner.Mkdir(ctx, e) })
}

// Update implements mover.Target.
func (p *Backend) Update(ctx context.Context, e mover.Entry) error {
	return p.around(ctx, Update, e.Name, 0, func() error { return p.inner.Update(ctx, e) })
}

// Remove implements mover.Target.
func (p *Backend) Remove(ctx context.Context, e mover.Entry, by mover.WriterID) error {
	return p.around(ctx, Remove, e.Name, 0, func() error { return p.inner.Remove(ctx, e, by) })
}

// Sync implements mover.Target.
func (p *Backend) Sync(ctx context.Context) error {
	return p.around(ctx, Sync, "", 0, func() error { return p.inner.Sync(ctx) })
}
