package transfer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/spool"
)

// last does what waits for everything else: hard links, removals, entries with names
// that a directory had, and the facts of directories, deepest first. When
// the removals are refused, the rest is done all the same.
func (r *run) last(ctx context.Context) error {
	if err := r.moveLater(ctx); err != nil {
		return err
	}
	if err := r.links.Each(false, func(items []item) error { return r.linkNow(ctx, items) }); err != nil {
		return err
	}
	if err := r.moveLater(ctx); err != nil { // names that could not be links
		return err
	}
	refused, err := r.remove(ctx)
	if err == nil {
		err = r.unblock(ctx, refused)
	}
	if err != nil {
		return err
	}
	if refused == nil && !r.doubt.Load() && r.o.Tidy != nil {
		r.o.Tidy(ctx)
	}
	r.stepTo("closing")
	if err := r.dirs.Each(false, func(items []item) error { return r.closeDirs(ctx, items) }); err != nil {
		return err
	}
	if err := r.sync(ctx); err != nil || errors.Is(refused, errDoubt) {
		return err // of a doubt every entry was told
	}
	return refused
}

func (r *run) stepTo(name string) {
	if r.o.Observer != nil {
		r.o.Observer.Step(name)
	}
}

// linkNow makes the links with a free name and a published first name.
func (r *run) linkNow(ctx context.Context, items []item) error {
	now := items[:0]
	for _, it := range items {
		if it.Target.Kind != mover.Dir && !r.awaited.has(it.Link) {
			now = append(now, it)
		} else if err := r.lateLinks.Add(it); err != nil {
			return err
		}
	}
	return r.link(ctx, now)
}

// link makes hard links to leaders, which are all published by now.
func (r *run) link(ctx context.Context, items []item) error {
	done := make([]drafted, len(items))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(r.workers())
	for i := range items {
		it := &items[i]
		g.Go(func() error {
			linked, err := r.linked(gctx, it)
			if err == nil && linked {
				r.result(Result{Seq: it.Seq, Op: plan.Keep, Entry: r.stays(it.Action), Why: it.Why})
				return nil
			}
			if err == nil {
				err = r.room.Retry(gctx, r.seeker(), func() (err error) { done[i], err = r.draftLink(gctx, it); return err })
			}
			switch {
			case err == nil:
			case r.fatal(gctx, err):
				return err
			case errors.Is(err, mover.ErrUnsupported) && !errors.Is(err, mover.ErrNoSuchName):
				return r.unlinked(it)
			default:
				if dealt, err := r.released(gctx, it, err); dealt {
					return err
				}
				r.failed(it, err)
			}
			return nil
		})
	}
	err := g.Wait()
	made := slices.DeleteFunc(done, func(d drafted) bool { return d.draft == nil })
	if err != nil {
		leave(made, false)
		return err
	}
	if len(made) == 0 {
		return nil
	}
	return r.settle(ctx, made, nil)
}

// unlinked has a name that the target can not have as a hard link moved as a file of its own, unless an earlier run has
// done that: what is there is compared.
func (r *run) unlinked(it *item) error {
	r.n.LinksLost.Add(1)
	it.Op, it.Link, it.Why = plan.Create, "", plan.WhyLinkRefused
	if k := it.Target.Kind; k != 0 && k != mover.Dir {
		it.Op = plan.Compare
	}
	return r.redo.Add(*it)
}

// linked says whether a name that was found equal is one file with its leader. The
// leader may have got a new inode, if a closer look at that one ended otherwise.
func (r *run) linked(ctx context.Context, it *item) (bool, error) {
	if it.Op != plan.Keep {
		return false, nil
	}
	leader, err := r.target.Stat(ctx, it.Link)
	if err != nil && !errors.Is(err, mover.ErrNotExist) {
		return false, err
	}
	if err == nil && leader.Dev == it.Target.Dev && leader.Ino == it.Target.Ino {
		return true, nil
	}
	it.Op, it.Why = plan.Link, plan.WhyHardLink
	return false, nil
}

// draftLink drafts one more name of a leader, if the leader is what the source has
// still: the facts that the link brings along are those of all its names.
func (r *run) draftLink(ctx context.Context, it *item) (drafted, error) {
	if r.recalls.left.has(it.Link) {
		return drafted{}, fmt.Errorf("%w: %s, of which it is another name, is in the archive only", mover.ErrReleased, mover.Printable(it.Link))
	}
	if r.unlike.has(it.Link) {
		return drafted{}, fmt.Errorf("%w: %s, of which it is another name, could not be brought over as it was", mover.ErrChanged, mover.Printable(it.Link))
	}
	c, err := r.openAsSeen(ctx, it.Source)
	if errors.Is(err, mover.ErrChanged) && r.recalls.from != nil && r.isBack(ctx, &it.Source) {
		c, err = r.openAsSeen(ctx, it.Source) // it was restored under another name
	}
	if err != nil {
		return drafted{}, err
	}
	defer c.Close()
	d := drafted{it: it, entry: r.carry(c.Entry()), level: mover.Cloned}
	if d.draft, err = r.target.Draft(ctx, d.entry, mover.Hints{By: r.o.By, Link: it.Link}); err != nil {
		return drafted{}, err
	}
	if err := d.draft.Finish(ctx, d.entry, nil); err != nil {
		_ = d.draft.Close()
		return drafted{}, err
	}
	return d, nil
}

// openAsSeen opens an entry that is what the walk saw.
func (r *run) openAsSeen(ctx context.Context, e mover.Entry) (mover.Content, error) {
	c, err := r.source.Open(ctx, e)
	if err != nil {
		return nil, err
	}
	if err := c.Check(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// remove removes what the plan says, deepest first, when nothing is in doubt. When
// it removes nothing, refused says why.
func (r *run) remove(ctx context.Context) (refused, err error) {
	n := r.removes.Len()
	if n == 0 {
		return nil, nil
	}
	if r.doubt.Load() {
		return errDoubt, r.failAll(ctx, r.removes, errDoubt)
	}
	if r.o.Allow != nil {
		if refused := r.o.Allow(n); refused != nil {
			return refused, nil
		}
	}
	r.stepTo("removing")
	return nil, r.removes.Each(true, func(items []item) error { return r.removeAll(ctx, items) })
}

// failAll reports everything in a spool as failed.
func (r *run) failAll(ctx context.Context, s *spool.Of[item], err error) error {
	return s.Each(false, func(items []item) error {
		for i := range items {
			it := &items[i]
			r.failed(it, &mover.Error{Op: "change", Location: r.target.String(), Name: it.name(), Err: err})
		}
		return ctx.Err()
	})
}

// errDoubt is why nothing is removed after an error.
var errDoubt = errors.New("not removed, because the run had errors; mend them and run it again")

// removeAll removes entries in order; those between two directories at the same time.
func (r *run) removeAll(ctx context.Context, items []item) error {
	turn, err := r.turn(ctx, cost{ops: int64(len(items))})
	if err != nil {
		return err
	}
	defer turn.Done(0)
	if err := r.mine(ctx); err != nil {
		return err
	}
	for len(items) > 0 {
		n := 1
		if items[0].Target.Kind != mover.Dir {
			for n < len(items) && items[n].Target.Kind != mover.Dir {
				n++
			}
		}
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(r.workers())
		for i := range items[:n] {
			g.Go(func() error { return r.removeOne(gctx, &items[i]) })
		}
		if err := g.Wait(); err != nil {
			return err
		}
		items = items[n:]
	}
	return nil
}

func (r *run) removeOne(ctx context.Context, it *item) error {
	if it.Op == plan.Conflict {
		for dir, _ := mover.Parent(it.Target.Name); dir != ""; dir, _ = mover.Parent(dir) {
			r.spared.add(dir) // it can not go, either, and that is not told again
		}
		r.failed(it, r.conflict(it))
		return nil
	}
	if it.Target.Kind == mover.Dir && r.spared.has(it.Target.Name) {
		return nil
	}
	e := it.Target
	if e.Kind == mover.Dir { // its times changed when its entries went
		now, err := r.target.Stat(ctx, e.Name)
		if err == nil && now.Dev == e.Dev && now.Ino == e.Ino && now.Kind == e.Kind {
			e = now
		}
	}
	err := r.target.Remove(ctx, e, r.o.By)
	switch {
	case err == nil || errors.Is(err, mover.ErrNotExist):
		return r.done(ctx, Result{Seq: it.Seq, Op: plan.Remove, Entry: it.Target, Why: it.Why})
	case r.fatal(ctx, err):
		return err
	}
	r.failed(it, err)
	return nil
}

// closeDirs gives directories their facts. Children come before their parents, so
// a parent that can not be entered is closed behind them.
func (r *run) closeDirs(ctx context.Context, items []item) error {
	if len(items) == 0 {
		return nil
	}
	turn, err := r.turn(ctx, cost{ops: int64(len(items))})
	if err != nil {
		return err
	}
	defer turn.Done(0)
	if err := r.mine(ctx); err != nil {
		return err
	}
	for i := range items {
		if err := r.closeDir(ctx, &items[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) closeDir(ctx context.Context, it *item) (err error) {
	if it.Op == plan.Compare {
		it.Action, err = r.resolve(ctx, it.Action, func() {})
		if err == nil && it.Op == plan.Keep && !r.touches {
			r.result(Result{Seq: it.Seq, Op: plan.Keep, Entry: r.stays(it.Action)})
			return nil
		}
	}
	if err == nil && it.Source.Known == 0 && !it.Source.Brief { // a prefix: nothing is known of it
		r.result(Result{Seq: it.Seq, Op: it.Op, Entry: it.Source, Why: it.Why})
		return nil
	}
	var e mover.Entry
	if err == nil {
		e, err = r.update(ctx, r.seeker(), it)
	}
	switch {
	case err == nil:
		return r.done(ctx, Result{Seq: it.Seq, Op: it.Op, Entry: e, Why: it.Why})
	case r.fatal(ctx, err):
		return err
	}
	r.failed(it, err)
	return nil
}
