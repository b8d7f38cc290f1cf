package posix

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix/fstype"
	"datamove.dev/mover/backend/posix/kernel"
)

// pending is one draft of a batch, and where its outcome goes.
type pending struct {
	some
	d   *draft
	out *mover.Outcome
}

// Publish implements mover.Target. The order is that of durability: what the
// drafts contain, their names, the directories with the names.
func (p *Backend) Publish(ctx context.Context, batch []mover.Draft) []mover.Outcome {
	out := make([]mover.Outcome, len(batch))
	todo := p.take(ctx, batch, out)
	if len(todo) == 0 {
		return out
	}
	p.syncContents(todo)
	dirs := p.dirsOf(todo)
	p.renameAll(todo)
	for _, w := range todo {
		if w.d.in != nil && w.out.Err == nil {
			w.out.Err = w.d.fail("publish", w.withTop())
		}
	}
	p.syncNames(todo, dirs)
	for _, w := range todo {
		w.settle()
	}
	return out
}

// take finds the drafts of this package in the batch, and refuses what can not
// be published.
func (p *Backend) take(ctx context.Context, batch []mover.Draft, out []mover.Outcome) []pending {
	todo := make([]pending, 0, len(batch))
	for i, b := range batch {
		s, ok := mover.As[some](b)
		switch {
		case !ok || s.common().place != p:
			out[i].Err = p.fail("publish", "", fmt.Errorf("%w: a draft of another place", mover.ErrUsage))
			continue
		case ctx.Err() != nil:
			out[i].Err = context.Cause(ctx)
			continue
		}
		d := s.common()
		if out[i].Level = d.publishedAs(); out[i].Level != mover.Unchecked {
			continue
		}
		if out[i].Err = d.enter("publish", finished); out[i].Err != nil {
			continue
		}
		d.mu.Unlock()
		if err := d.sound(); err != nil { // it was published, and its name not confirmed
			out[i].Err = mover.Unconfirmed(d.fail("publish", err))
			continue
		}
		todo = append(todo, pending{s, d, &out[i]})
	}
	return todo
}

// syncContents puts what the drafts contain on stable storage. Where each file is
// synced by itself, Finish has done it.
func (p *Backend) syncContents(todo []pending) {
	if p.system.Durable != fstype.WholeSystem {
		return
	}
	err := p.syncSystem()
	for _, w := range todo {
		switch {
		case err != nil:
			w.out.Err = w.d.fail("sync", err)
		case w.d.losses != p.loss.seen():
			w.out.Err = w.d.fail("sync", errEarlierSync)
		}
	}
}

// shardNames is how many renames are worth a goroutine of their own.
const shardNames = 512

// renameAll gives every draft its name. Consecutive drafts of one directory stay
// together: the kernel locks it for each rename.
func (p *Backend) renameAll(todo []pending) {
	var g errgroup.Group
	g.SetLimit(runtime.NumCPU())
	for len(todo) > 0 {
		n := min(len(todo), shardNames)
		for n < len(todo) && todo[n].d.seat == todo[n-1].d.seat {
			n++
		}
		shard := todo[:n]
		if todo = todo[n:]; len(todo) == 0 && n <= shardNames {
			p.renameShard(shard) // the last, and often the only one
			break
		}
		g.Go(func() error { p.renameShard(shard); return nil })
	}
	_ = g.Wait() // every error is an outcome
}

func (p *Backend) renameShard(shard []pending) {
	var at *handle
	for _, w := range shard {
		if w.d.in != nil || w.out.Err != nil {
			continue
		}
		if at == nil || at.seat != w.d.seat {
			if at != nil {
				at.release()
			}
			var err error
			if at, err = p.handles.get(w.d.seat); err != nil {
				w.out.Err = w.d.fail("publish", err)
				at = nil
				continue
			}
		}
		w.out.Err = w.d.fail("publish", w.rename(at))
	}
	if at != nil {
		at.release()
	}
}

// rename gives one draft its name.
func (w *pending) rename(at *handle) error {
	d := w.d
	_, base := mover.Parent(d.name)
	if dir, ok := w.some.(*dirDraft); ok {
		return dir.appear(at, base)
	}
	err := d.place.give(at, d, base)
	if errors.Is(err, mover.ErrNotExist) {
		return fmt.Errorf("%w: the draft is gone, or its directory was moved (%w)", mover.ErrChanged, err)
	}
	if err == nil && d.link {
		err = ignoreMissing(unlink(at.fd, d.temp, 0)) // a rename between two names of one inode does nothing
	}
	return immutable(at.fd, base, err)
}

// appear publishes a directory and all that was built in it.
func (d *dirDraft) appear(at *handle, base string) error {
	defer d.place.handles.forget(d.path)
	err := renameNew(at.fd, d.temp, at.fd, base)
	if err != unix.EEXIST {
		d.appeared.Store(err == nil)
		return immutable(at.fd, base, err)
	}
	if err := namesake(at.fd, base); err != nil {
		return err
	}
	err = d.merge(at.fd, d.temp, at.fd, base, d.name)
	if err == unix.ENOTDIR || err == unix.ELOOP {
		err = d.place.replace(at.fd, d.temp, at.fd, base, d.name, mover.Dir)
	}
	d.place.handles.forget(d.name)
	d.appeared.Store(err == nil)
	return err
}

// withTop says whether a draft was published with the directory it was built in.
func (w *pending) withTop() error {
	top := w.d.in.top()
	if !top.appeared.Load() {
		return fmt.Errorf("%w: its directory is not in the batch, or failed", mover.ErrConflict)
	}
	return top.fate(w.d.name)
}

// renameNew renames to a name that must be free.
func renameNew(from int, old string, to int, name string) error {
	err := kernel.Renameat2(from, old, to, name, unix.RENAME_NOREPLACE)
	if err != unix.EINVAL && err != unix.ENOSYS {
		return err
	}
	return renameByLink(from, old, to, name)
}

// renameByLink is renameNew on a file system without the flag (Lustre, NFS, FUSE): a
// link never replaces. What can not be linked, as a directory, is looked for first.
func renameByLink(from int, old string, to int, name string) error {
	err := kernel.Again(func() error { return unix.Linkat(from, old, to, name, 0) })
	if err == nil {
		return unlink(from, old, 0)
	}
	if err == unix.EEXIST {
		return err
	}
	var st unix.Statx_t
	switch err := kernel.StatxSegment(to, name, &st); err {
	case unix.ENOENT:
		return kernel.Renameat2(from, old, to, name, 0)
	case nil:
		return unix.EEXIST
	default:
		return err
	}
}

// replace gives src the name dst, in place of what has it. An empty directory can
// be replaced by another kind and the other way round: the two change places in
// one step, and what was there is then removed.
func (p *Backend) replace(from int, src string, to int, dst, name string, kind mover.Kind) error {
	if p.backup != nil {
		if err := p.backup.keep(to, dst, name); err != nil {
			return fmt.Errorf("backup: %w", err)
		}
	}
	err := kernel.Renameat2(from, src, to, dst, 0)
	if err != unix.EISDIR && err != unix.ENOTDIR {
		return err
	}
	err = kernel.Renameat2(from, src, to, dst, unix.RENAME_EXCHANGE)
	if err == unix.EINVAL || err == unix.ENOSYS { // a file system that can not: absent for a moment
		if err := removeEmpty(to, dst); err != nil {
			return err
		}
		return renameNew(from, src, to, dst)
	}
	if err != nil {
		return err
	}
	p.handles.forget(name)
	if err := removeEmpty(from, src); err != nil {
		return errors.Join(err, kernel.Renameat2(from, src, to, dst, unix.RENAME_EXCHANGE))
	}
	return nil
}

func removeEmpty(dirfd int, base string) error {
	err := unlink(dirfd, base, 0)
	if err == unix.EISDIR || err == unix.EPERM {
		err = unlink(dirfd, base, unix.AT_REMOVEDIR)
	}
	return err
}

// settle writes down what became of the draft. One that failed stays finished: it
// can be published again, and Close drops it.
func (w *pending) settle() {
	if w.out.Err != nil {
		return
	}
	w.d.mu.Lock()
	w.d.state = published
	w.d.mu.Unlock()
	w.out.Level = w.d.publishedAs()
}

// publishedAs is the level at which the draft was published; mover.Unchecked when
// it was not.
func (d *draft) publishedAs() mover.Level {
	d.mu.RLock()
	defer d.mu.RUnlock()
	switch {
	case d.state != published:
		return mover.Unchecked
	case d.cloned:
		return mover.Cloned
	}
	return d.place.traits.Level
}
