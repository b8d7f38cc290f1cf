package transfer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/compare"
	"datamove.dev/mover/engine/journal"
	"datamove.dev/mover/engine/plan"
)

// recover publishes what an earlier run had finished and not yet published, as
// long as the source is still what was drafted. What can not be taken over is dropped,
// and what was published in doubt is moved anew.
func (r *run) recover(ctx context.Context) error {
	if r.o.Journal == nil {
		return nil
	}
	var done []drafted
	ids := map[uint64]bool{}
	for id, rec := range r.o.Journal.Left(ctx) {
		if rec.Doubted {
			if err := r.anew(ctx, id, rec.Name); err != nil {
				leave(done, true)
				return err
			}
			continue
		}
		if !rec.Complete {
			continue // a large file: its turn comes when the walk meets it
		}
		ids[id] = true
		d, err := r.adopt(ctx, &rec)
		switch {
		case err == nil:
			done = append(done, d)
		case r.fatal(ctx, err):
			leave(done, true)
			return err
		default: // changed or gone since
			if err := r.target.Drop(ctx, rec.Token); err != nil {
				leave(done, true)
				return err
			}
		}
	}
	if len(ids) == 0 {
		return nil
	}
	clear := make([]uint64, 0, len(ids))
	for id := range ids {
		clear = append(clear, id)
	}
	if len(done) == 0 {
		return r.o.Journal.Clear(ctx, clear...)
	}
	return r.recovered(ctx, done, clear)
}

// distrust notes an entry that was published and not confirmed, so that the next run does
// not take it for one that is there: it looks like that until the power fails.
func (r *run) distrust(ctx context.Context, e *mover.Entry, why error) error {
	if r.o.Journal == nil || !errors.Is(why, mover.ErrUnconfirmed) {
		return nil
	}
	_, err := r.o.Journal.Stage(ctx, []journal.Record{{Name: e.Name, Source: e.Identity(), Doubted: true}})
	return err
}

// anew has moved once more what an earlier run has published in doubt. A directory is as
// its entries make it.
func (r *run) anew(ctx context.Context, id uint64, name string) error {
	r.doubted = append(r.doubted, id)
	e, err := r.source.Stat(ctx, name)
	switch {
	case errors.Is(err, mover.ErrNotExist) || err == nil && e.Kind == mover.Dir:
		return nil // the walk decides
	case err != nil:
		return err
	}
	return r.redo.Add(item{Seq: -1, Action: plan.Action{Op: plan.Replace, Source: e, Why: plan.WhyUnconfirmed}})
}

// adopt takes over one finished draft.
func (r *run) adopt(ctx context.Context, rec *journal.Record) (drafted, error) {
	e, err := r.source.Stat(ctx, rec.Name)
	if err != nil {
		return drafted{}, err
	}
	if e.Identity() != rec.Source && e.Kind != mover.Dir {
		return drafted{}, mover.ErrChanged
	}
	if e.Kind == mover.Dir && r.doubtful() {
		return drafted{}, errUnread
	}
	d, err := r.target.Adopt(ctx, rec.Token)
	if err != nil {
		return drafted{}, err
	}
	e = r.carry(e)
	var receipts []mover.Receipt
	if e.Kind == mover.File {
		e.CRC, e.Known = rec.CRC, e.Known|mover.FactCRC
		receipts = []mover.Receipt{{Part: mover.Part{Length: e.Size}, CRC: rec.CRC}}
		if err := r.kept(ctx, d, receipts[0]); err != nil { // before Finish, which sets the time of the last access
			_ = d.Close()
			return drafted{}, err
		}
	}
	if err := d.Finish(ctx, e, receipts); err != nil {
		_ = d.Close()
		return drafted{}, err
	}
	return drafted{draft: d, entry: e}, nil
}

// doubtful says whether the target may have lost of finished drafts what it had stored.
func (r *run) doubtful() bool { return r.to.LateErrors && !r.to.FinishSyncs }

// errUnread is why a directory is moved anew that may have lost something: the journal has
// no checksums of what was built in it.
var errUnread = errors.New("what is in it can not be compared with what was stored")

// kept reads a whole draft that is in doubt, as confirm does parts.
func (r *run) kept(ctx context.Context, d mover.Draft, was mover.Receipt) error {
	if !r.doubtful() {
		return nil
	}
	there, err := reread(ctx, d)
	if errors.Is(err, mover.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return err
	}
	defer there.Close()
	sum, err := compare.HashPart(ctx, there, was.Part)
	if err == nil && sum != was.CRC {
		err = fmt.Errorf("%w: the target has lost what an earlier run has stored", mover.ErrChanged)
	}
	return err
}

// recovered publishes adopted drafts. They are no actions of this run's plan, so
// the observer gets no result; the walk finds them in place.
func (r *run) recovered(ctx context.Context, done []drafted, ids []uint64) error {
	if err := r.mine(ctx); err != nil {
		leave(done, true)
		return err
	}
	for i, o := range r.publish(ctx, done) {
		if o.Err != nil && r.fatal(ctx, o.Err) {
			leave(done[i:], true)
			return o.Err
		}
		if o.Err != nil {
			r.log.WarnContext(ctx, "a draft of an earlier run was dropped", "name", done[i].entry.Name, "err", o.Err)
		}
		_ = done[i].draft.Close()
	}
	r.log.InfoContext(ctx, "took over from an earlier run", "drafts", len(done))
	return r.o.Journal.Clear(ctx, ids...)
}

// resume takes over the draft of a large file with the parts that it has, when
// the source is the same as then. The parts are as large as they were.
func (r *run) resume(ctx context.Context, l *large) error {
	if r.o.Journal == nil || l.it.Tries > 0 {
		return nil
	}
	rec, id, ok := r.o.Journal.Lookup(l.entry.Name)
	if !ok || rec.Token == "" || rec.Complete {
		return nil
	}
	// Without a part there is nothing to go on with, and it may hold a clone. The record
	// of a draft that is dropped, or gone, stays until the end of the task, when it is dropped
	// once more: a part that was on its way to a store may have brought it back.
	if rec.Source != l.it.Source.Identity() || !planned(l.entry.Size, rec.PartBytes, r.to) || len(rec.Receipts) == 0 {
		return r.target.Drop(ctx, rec.Token)
	}
	l.cut(rec.PartBytes)
	d, err := r.target.Adopt(ctx, rec.Token)
	if errors.Is(err, mover.ErrNotExist) {
		return r.appears(ctx, l, &rec)
	}
	if err != nil {
		return err
	}
	l.draft, l.id = d, id
	for _, p := range rec.Receipts {
		if p.Index < len(l.have) && !l.have[p.Index] && p.Part == cut(l.entry.Size, l.bytes, p.Index) {
			l.receipts[p.Index], l.have[p.Index], l.taken[p.Index] = p, true, true
			l.left--
			r.n.Bytes.Add(p.Length)
			r.n.Known.Add(p.Length)
		}
	}
	r.log.InfoContext(ctx, "goes on with an earlier run", "name", l.entry.Name, "parts left", l.left)
	switch {
	case rec.Shared:
		return r.rehouse(ctx, l)
	case r.to.LateErrors:
		return r.confirm(ctx, l, rec.Unsure)
	}
	return nil
}

// confirm reads the parts that no sync has confirmed: the target may have lost them unnoticed when
// the run that stored them ended. There are no more bytes of them than one sync is
// done for (durableBytes).
func (r *run) confirm(ctx context.Context, l *large, unsure []int) error {
	if len(unsure) == 0 {
		return nil
	}
	there, err := reread(ctx, l.draft)
	if errors.Is(err, mover.ErrUnsupported) {
		return nil
	}
	if err != nil && !r.fatal(ctx, err) { // the sync that comes first says that something was lost
		return fmt.Errorf("%w: what an earlier run has stored can not be read: %w", mover.ErrTransient, err)
	}
	if err != nil {
		return err
	}
	defer there.Close()
	for _, i := range unsure {
		if i >= len(l.have) || !l.have[i] {
			continue
		}
		was := l.receipts[i]
		sum, err := compare.HashPart(ctx, there, was.Part)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil || sum != was.CRC {
			r.log.WarnContext(ctx, "a part that was stored is lost; it is moved again", "name", l.entry.Name, "part", i, "err", err)
			l.spoil(i)
			r.n.Bytes.Add(-was.Length)
		}
	}
	return nil
}

// errThere is the end of a large file that an earlier run has published after all.
var errThere = errors.New("already there")

// appears waits a while for a file that an earlier run had sent in whole, when its
// draft is gone. That run may have died while it published the file, and a
// store takes its time to put parts together.
func (r *run) appears(ctx context.Context, l *large, rec *journal.Record) error {
	if len(rec.Receipts) < len(l.have) {
		return nil
	}
	sum := sumOf(slices.SortedFunc(slices.Values(rec.Receipts), byIndex))
	end := time.Now().Add(appearsMost)
	for pause := appearsPause; time.Now().Before(end); pause *= 2 {
		now, err := r.target.Stat(ctx, l.entry.Name)
		if err != nil && !errors.Is(err, mover.ErrNotExist) {
			return err
		}
		if err == nil && r.isThere(l, &now, sum) {
			return errThere
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
	return nil
}

func byIndex(a, b mover.Receipt) int { return a.Index - b.Index }

// isThere says whether the target has what the parts of l make, and notes it.
func (r *run) isThere(l *large, now *mover.Entry, sum uint64) bool {
	if now.Kind != mover.File || now.Size != l.entry.Size {
		return false
	}
	l.there = mover.Outcome{ETag: now.ETag, Version: now.Version, Level: r.to.Level}
	l.entry.CRC, l.entry.Known = sum, l.entry.Known|mover.FactCRC
	if now.Known.Has(mover.FactCRC) {
		return now.CRC == sum
	}
	l.there.Level = mover.Written
	return now.Known.Has(mover.FactMtime) && r.to.Times.Same(l.entry.Mtime, now.Mtime)
}
