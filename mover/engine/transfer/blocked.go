package transfer

import (
	"cmp"
	"context"
	"errors"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/spool"
)

// An entry is blocked while something has its name that only the removals take away: a directory of the target in the
// place of another kind, or an entry that a file system without case takes for it.

// waits reports whether err may be none when the removals are done. A hand leaves that to its lead.
func (r *run) waits(err error) bool {
	return errors.Is(err, mover.ErrNamesake) && !r.hand && !r.freed.Load()
}

// wait has an entry made when the removals are done, and the links to it after that.
func (r *run) wait(it item) error {
	if it.Op == plan.Link {
		return r.lateLinks.Add(it)
	}
	if it.Source.Nlink > 1 {
		r.awaited.add(it.Source.Name)
	}
	it.build = false
	return r.blocked.Add(it)
}

// unblock makes the entries that waited for the removals, unless these were refused.
func (r *run) unblock(ctx context.Context, refused error) error {
	r.freed.Store(true)
	if refused != nil {
		return errors.Join(r.failAll(ctx, r.blocked, refused), r.failAll(ctx, r.lateLinks, refused))
	}
	dirs, others := spool.New[item](r.o.SpoolDir), spool.New[item](r.o.SpoolDir)
	defer closeAll(dirs, others)
	if err := r.blocked.Each(false, func(items []item) error { return r.unblockDirs(ctx, items, dirs, others) }); err != nil {
		return err
	}
	if err := r.moveSpooled(ctx, others); err != nil {
		return err
	}
	if err := r.moveLater(ctx); err != nil {
		return err
	}
	if err := r.lateLinks.Each(false, func(items []item) error { return r.link(ctx, items) }); err != nil {
		return err
	}
	if err := r.moveLater(ctx); err != nil {
		return err
	}
	return dirs.Each(true, func(items []item) error { // children before their parents
		for _, it := range items {
			if err := r.dirs.Add(it); err != nil {
				return err
			}
		}
		return nil
	})
}

// unblockDirs makes the directories among blocked entries, and notes them in dirs and the other entries in others.
func (r *run) unblockDirs(ctx context.Context, items []item, dirs, others *spool.Of[item]) error {
	for i := range items {
		it := &items[i]
		if dir, _ := mover.Parent(it.Source.Name); r.unmade.has(dir) {
			if it.Source.Kind == mover.Dir {
				r.unmade.add(it.Source.Name)
			}
			r.failed(it, &mover.Error{Op: "copy to", Location: r.target.String(), Name: it.Source.Name, Err: inFailed(r.unmadeFor)})
			continue
		}
		if it.Source.Kind != mover.Dir {
			if err := others.Add(*it); err != nil {
				return err
			}
			continue
		}
		err := r.mkdir(ctx, it)
		switch {
		case err == nil:
			err = dirs.Add(*it)
		case !r.fatal(ctx, err):
			r.unmade.add(it.Source.Name)
			r.unmadeFor = cmp.Or(mover.KindNamed(mover.KindName(err)), err)
			r.failed(it, err)
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
