package transfer

import (
	"context"
	"errors"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/transfer/nospace"
	"datamove.dev/mover/engine/transfer/standstill"
)

// batch is a batch in work: its finished drafts and the directory drafts around
// the present position.
type batch struct {
	w     *worker
	done  []drafted
	open  []opened
	asked bool                 // whether the run is still ours
	stop  error                // why what was finished could not be handed over: it ends the run
	since time.Time            // when it began, or what was finished was last handed over
	dog   *standstill.Watchdog // of an entry that others of the batch wait for; nil is of none

	relief *relief // nil is none
}

// opened is a directory draft that is being filled.
type opened struct {
	name  string
	index int // in done, unless it failed
	fail  error
}

// add does one item. An error ends the run.
func (b *batch) add(ctx context.Context, it *item) error {
	if err := b.leave(ctx, it.name()); err != nil {
		return err
	}
	if err := b.handOver(ctx); err != nil {
		return err
	}
	defer b.dog.Rest()
	if it.Op == plan.Compare {
		err := b.outside(func() (err error) {
			it.Action, err = b.w.r.resolve(b.dog.Begin(ctx, it.Source.Kind), it.Action, b.dog.Alive)
			return err
		})
		if err != nil {
			return b.fail(ctx, it, err)
		}
	}
	return b.dog.Passed(b.decided(ctx, it))
}

// decided does an item of which it is known what is to be done.
func (b *batch) decided(ctx context.Context, it *item) error {
	r := b.w.r
	switch {
	case it.Op == plan.Keep && it.Link != "":
		return r.links.Add(*it) // is it one with its leader still, when that is done?
	case it.Op == plan.Keep:
		return b.keep(ctx, it)
	case it.Op == plan.Conflict:
		r.failed(it, r.conflict(it))
		return nil
	case it.Op == plan.Link: // a Compare: the first name of its file gets a new content
		return r.links.Add(*it)
	case it.Op == plan.Update:
		return b.update(ctx, it)
	case r.isLarge(&it.Source) && r.hand: // a closer look has found that its content differs
		return r.redo.Add(*it)
	case r.isLarge(&it.Source):
		r.queue.putBack(unitOf(*it, true))
		return nil
	}
	return b.draft(ctx, it)
}

// keep tells an entry that a closer look found to be there. When the manifest of
// its target is lost, or was never written, the look finds what it needs to say.
func (b *batch) keep(ctx context.Context, it *item) error {
	e := b.w.r.stays(it.Action)
	if err := b.w.r.findHoles(ctx, it.Source, &e); err != nil {
		return b.fail(ctx, it, err)
	}
	b.w.r.result(Result{Seq: it.Seq, Op: plan.Keep, Entry: e, Why: it.Why})
	return nil
}

// update sets facts only. That is visible at once, so it is asked before whether it
// is ours to do.
func (b *batch) update(ctx context.Context, it *item) error {
	if !b.asked {
		if err := b.w.r.mine(ctx); err != nil {
			return err
		}
		b.asked = true
	}
	var e mover.Entry
	err := b.outside(func() (err error) {
		e, err = b.w.r.update(b.dog.Begin(ctx, it.Source.Kind), b.seeker(), it)
		return err
	})
	if b.stop != nil {
		return b.stop
	}
	if err != nil {
		return b.fail(ctx, it, err)
	}
	return b.w.r.done(ctx, Result{Seq: it.Seq, Op: plan.Update, Entry: e, Why: it.Why})
}

// seen is what the draft of an item may replace, where another run may take over from this one; nil is anything.
func (r *run) seen(it *item) *mover.Entry {
	if k := it.Target.Kind; r.to.Guards && r.o.ConfirmLease != nil && it.Tries == 0 && (k == 0 || k == mover.File) {
		return &it.Target
	}
	return nil
}

// draft drafts a small entry or begins a directory.
func (b *batch) draft(ctx context.Context, it *item) error {
	h := mover.Hints{By: b.w.r.o.By, Seen: b.w.r.seen(it)}
	if n := len(b.open); n > 0 {
		if err := b.open[n-1].fail; err != nil {
			return b.fail(ctx, it, inFailed(err))
		}
		h.In = b.done[b.open[n-1].index].draft
	}
	b.done = append(b.done, drafted{it: it, in: h.In})
	d := &b.done[len(b.done)-1]
	err := b.outside(func() error { return b.w.try(b.dog.Begin(ctx, it.Source.Kind), b, d, h) })
	if b.relief.tookDirs() {
		return b.outdated(ctx, d, err)
	}
	if it.Source.Kind == mover.Dir {
		b.open = append(b.open, opened{it.Source.Name, len(b.done) - 1, err})
	}
	if err == nil {
		return nil
	}
	b.done = b.done[:len(b.done)-1]
	switch {
	case b.stop != nil:
		return b.stop
	case b.dog.Fired():
	case errors.Is(err, errManifestOnly):
		err = b.w.r.unkept(ctx, it)
	case errors.Is(err, errGrown):
		b.moreComes(it)
		return b.w.r.later(ctx, it, err)
	}
	if err == nil {
		return nil
	}
	return b.fail(ctx, it, err)
}

// leave finishes the directory drafts that do not hold name; "" is the end.
func (b *batch) leave(ctx context.Context, name string) error {
	for n := len(b.open); n > 0; n-- {
		o := b.open[n-1]
		if name != "" && mover.Within(name, o.name) {
			return nil
		}
		if o.fail != nil {
			b.open = b.open[:n-1]
			continue
		}
		d := &b.done[o.index]
		err := b.w.r.room.Retry(ctx, b.seeker(), func() error { return d.draft.Finish(ctx, d.entry, nil) })
		if b.stop != nil {
			return b.stop
		}
		index := b.open[n-1].index // which free may have moved
		b.open = b.open[:n-1]
		if err != nil {
			if err := b.spoilt(ctx, index, err); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *batch) seeker() nospace.Seeker { return nospace.Seeker{Free: b.free, Unit: b.w.unit} }

// free publishes what is finished, here and elsewhere, so that the room of what it
// replaces comes back. What is in an open directory draft is published with that.
func (b *batch) free(ctx context.Context) error {
	b.dog.Rest()
	defer b.inside()()
	if b.stop = b.w.r.finished(ctx, b.ready()); b.stop == nil {
		b.stop = b.w.r.flush(ctx)
	}
	return b.stop
}

// handOver has what is finished published when it has waited for long enough: the entries of a batch are slow.
func (b *batch) handOver(ctx context.Context) error {
	if len(b.done) == 0 || time.Since(b.since) < standstill.After {
		return nil
	}
	b.since = time.Now()
	return b.w.r.finished(ctx, b.ready())
}

// ready takes what is finished out of the batch.
func (b *batch) ready() []drafted {
	n := len(b.done)
	if len(b.open) > 0 {
		n = b.open[0].index
	} else if n > 0 && b.done[n-1].draft == nil { // it is being tried
		n--
	}
	return b.first(n)
}

// first takes the first n of what is finished out of the batch.
func (b *batch) first(n int) []drafted {
	ready := b.done[:n:n]
	b.done = b.done[n:] // in place: there are pointers to what stays
	for i := range b.open {
		b.open[i].index -= n
	}
	return ready
}

// spoilt reports a directory draft that can not be finished, and all that was
// built in it.
func (b *batch) spoilt(ctx context.Context, index int, err error) error {
	if b.w.r.fatal(ctx, err) {
		return err
	}
	lost := b.done[index:]
	b.done = b.done[:index]
	for i := len(lost) - 1; i >= 0; i-- {
		b.w.r.n.Bytes.Add(-lost[i].counted)
		_ = lost[i].draft.Close()
	}
	b.w.r.failed(lost[0].it, err)
	for i := range lost[1:] {
		b.w.r.failed(lost[1+i].it, inFailed(err))
	}
	return nil
}

// fail reports an item, or ends the run. One that stands still is moved by itself, when all else has been moved.
func (b *batch) fail(ctx context.Context, it *item, err error) error {
	if b.dog.Fired() {
		b.w.r.log.InfoContext(ctx, "stands still, will be moved apart from its batch", "name", it.name(), "err", err)
		b.moreComes(it)
		return b.w.r.redo.Add(*it)
	}
	if b.w.r.fatal(ctx, err) {
		return err
	}
	if b.w.r.waits(err) {
		b.moreComes(it)
		return b.w.r.wait(*it)
	}
	if dealt, err := b.w.r.released(ctx, it, err); dealt {
		b.moreComes(it)
		return err
	}
	b.w.r.failed(it, err)
	return nil
}

// abandon drops what the batch has drafted. Inner drafts go with their directory.
func (b *batch) abandon() {
	for i := len(b.done) - 1; i >= 0; i-- {
		_ = b.done[i].draft.Close()
	}
}

// moreComes notes that an item is moved later into the directory draft that it is in, if
// it is in one.
func (b *batch) moreComes(it *item) {
	n := len(b.open)
	if n > 0 && b.open[n-1].fail == nil && mover.Within(it.name(), b.open[n-1].name) {
		b.done[b.open[n-1].index].redone = true
	}
}

// stopped notes that more comes into the directories that are open.
func (b *batch) stopped() {
	for _, o := range b.open {
		if o.fail == nil {
			b.done[o.index].redone = true
		}
	}
}
