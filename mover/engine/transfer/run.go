package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/compare"
	"datamove.dev/mover/engine/concurrency"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/spool"
	"datamove.dev/mover/engine/transfer/nospace"
	"datamove.dev/mover/engine/transfer/standstill"
)

// run is the state of one Run.
type run struct {
	source mover.Source
	target mover.Backend
	from   mover.Capabilities
	to     mover.Capabilities
	o      Options
	n      *Counters
	log    *slog.Logger

	small      int64       // files up to this size travel in batches
	batchBytes int64       // that make a batch
	preserve   mover.Facts // what is carried over
	level      mover.Level // that every moved content must reach
	touches    bool        // making a name changes the times of its directory
	queue      *queue
	gate       *concurrency.Gate
	relieve    func(first func(context.Context) error) // begins a worker in place of one with a call that does not return
	crowded    atomic.Bool                             // others want turns too
	sender     mover.Sender                            // the target, if it is one
	commit     *committer
	room       nospace.Room
	clones     atomic.Bool          // the target has copied the last content by itself
	apart      standstill.Allowance // entries that stand still, and are moved apart from their batches
	recalls    recalls
	hand       bool // does works for another run: publishes each at once, leaves large files to the lead

	// What comes last: entries to be moved once more, hard links, removals,
	// entries with the name of a directory of the target, links that wait for one of
	// those, and the facts of directories.
	redo, links, removes, blocked, lateLinks, dirs *spool.Of[item]

	unsynced unsynced // results of what is done, and not yet on stable storage

	doubt atomic.Bool // some listing or action failed: nothing may be removed
	freed atomic.Bool // the removals are done, or will not be: a name that is taken stays taken

	doubted []uint64 // in the journal: what earlier runs have published and nothing has confirmed, which is moved anew

	// Of files with several names:
	unlike    nameSet // that have another content at the target than the walk saw
	awaited   nameSet // that wait in blocked
	unmade    nameSet // directories that waited in blocked and could not be made
	unmadeFor error   // the kind of why, of the last one
	spared    nameSet // directories in which something stays that a removal leaves alone
}

// Run does the actions, in whatever order is fastest and safe, and returns when
// all that could be done is durable. It returns an error only when it had to stop;
// entries that failed are told to the observer.
//
// An error in the stream with an entry is reported as a failure of that entry,
// and nothing will be removed; an error with no entry ends the run.
func Run(ctx context.Context, source mover.Source, target mover.Backend, actions iter.Seq2[plan.Action, error], o Options) (err error) {
	r, err := newRun(source, target, o)
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.recover(ctx); err != nil {
		return err
	}
	if err := r.move(ctx, actions); err != nil {
		return err
	}
	if err := r.last(ctx); err != nil || len(r.doubted) == 0 {
		return err
	}
	return r.o.Journal.Clear(ctx, r.doubted...) // what failed again has another record
}

func newRun(source mover.Source, target mover.Backend, o Options) (*run, error) {
	r := &run{source: source, target: target, from: source.Capabilities(), to: target.Capabilities(), o: o, n: o.Counters, log: o.Logger}
	if r.n == nil {
		r.n = new(Counters)
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	if r.preserve = o.Plan.Preserve; r.preserve == 0 {
		r.preserve = ^mover.Facts(0)
	}
	if r.o.SpoolDir == "" {
		r.o.SpoolDir = os.TempDir()
	}
	if r.gate = o.Gate; r.gate == nil {
		r.gate = NewGate(r.from, r.to, o.Jobs)
	}
	r.sender, _ = mover.As[mover.Sender](target)
	r.recalls.from, _ = mover.As[mover.Recaller](source)
	r.level = max(cmp.Or(o.Level, r.to.Least), r.to.Level)
	r.small, r.batchBytes = small(r.from, r.to), r.to.BatchBytes
	if r.from.Remote {
		r.batchBytes = min(r.batchBytes, r.from.BatchBytes)
	}
	r.touches = r.to.Keeps.Has(mover.FactMtime) && !r.to.NeedsManifest
	r.room = nospace.Room{Fail: o.FailFull, Tell: r.paused}
	r.apart.Fill()
	for _, s := range []**spool.Of[item]{&r.redo, &r.links, &r.removes, &r.blocked, &r.lateLinks, &r.dirs, &r.recalls.later} {
		*s = spool.New[item](r.o.SpoolDir)
	}
	return r, nil
}

func (r *run) close() {
	for _, s := range []*spool.Of[item]{r.redo, r.links, r.removes, r.blocked, r.lateLinks, r.dirs, r.recalls.later} {
		_ = s.Close()
	}
}

// bounds returns how many units are worth having in work at first, and at most.
func bounds(from, to mover.Capabilities, jobs int) (first, most int) {
	if jobs > 0 {
		return jobs, jobs
	}
	first = max(from.Parallel, to.Parallel, 1)
	return first, max(from.MaxParallel, to.MaxParallel, first)
}

// NewGate returns the gate for transfers between two places: pinned to jobs, or
// climbing within their traits when jobs is 0. What tries again on behalf of a
// place can tell it of throttling.
func NewGate(from, to mover.Capabilities, jobs int) *concurrency.Gate {
	first, most := bounds(from, to, jobs)
	least := min(first, 2)
	if jobs > 0 {
		least = most
	}
	return concurrency.NewGate(concurrency.GateOptions{Start: first, Min: least, Max: most})
}

// workers is how many goroutines move at once, at most.
func (r *run) workers() int {
	_, most := bounds(r.from, r.to, r.o.Jobs)
	return most
}

// move does everything but what comes last.
func (r *run) move(ctx context.Context, actions iter.Seq2[plan.Action, error]) error {
	root := item{Action: plan.Action{Op: plan.Keep}}
	e, err := r.source.Stat(ctx, "")
	switch {
	case err == nil:
		root.Source = e
	case !errors.Is(err, mover.ErrNotExist): // a prefix of objects needs no root of its own
		return err
	}
	root.Source.Name, root.Source.Kind = "", mover.Dir
	return r.work(ctx, func(ctx context.Context) error {
		c := &cutter{r: r, owned: make(chan struct{}, 1), path: []level{{it: root, batch: -1}}}
		stop := c.watch(ctx)
		err := r.cut(ctx, c, actions)
		return cmp.Or(err, stop())
	})
}

// cut cuts the whole stream.
func (r *run) cut(ctx context.Context, c *cutter, actions iter.Seq2[plan.Action, error]) error {
	for a, err := range actions {
		c.own()
		stop := r.step(ctx, c, a, err)
		c.disown()
		if stop != nil {
			return stop
		}
	}
	c.own()
	defer c.disown()
	return c.end(ctx)
}

// step takes one element of the stream.
func (r *run) step(ctx context.Context, c *cutter, a plan.Action, err error) error {
	switch {
	case err == nil:
		return c.add(ctx, a)
	case a.Source.Kind == 0 && a.Target.Kind == 0:
		return err
	}
	if a.Source.Key != "" { // it is known what is left out: what is elsewhere can be removed
		r.leftOut(&item{Seq: -1, Action: a}, err)
		return ctx.Err()
	}
	r.failed(&item{Seq: -1, Action: a}, err)
	return ctx.Err()
}

// work runs workers and the committer while feed puts units into the queue.
func (r *run) work(ctx context.Context, feed func(context.Context) error) error {
	g, gctx := errgroup.WithContext(ctx)
	first, _ := bounds(r.from, r.to, r.o.Jobs)
	r.queue = newQueue(2*first, r.abreast)
	r.commit = newCommitter(r)
	defer r.queue.stopOn(gctx)()
	workers, wctx := errgroup.WithContext(gctx)
	r.relieve = func(first func(context.Context) error) {
		workers.Go(func() error {
			if err := first(wctx); err != nil {
				r.queue.stop(err)
				return err
			}
			return r.worker(wctx)
		})
	}
	for range r.workers() + r.inLine(r.workers()) {
		workers.Go(func() error { return r.worker(wctx) })
	}
	g.Go(func() error {
		defer r.queue.close()
		return feed(gctx)
	})
	given, stopGiving := r.giver(wctx)
	g.Go(func() error {
		defer r.commit.close()
		err := workers.Wait()
		stopGiving()
		return errors.Join(err, given.Wait())
	})
	g.Go(func() error { return r.commit.loop(gctx, ctx) })
	err := g.Wait()
	r.commit.drain()
	r.abandon()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func (r *run) put(u unit) error {
	if !r.queue.put(u) {
		return r.queue.why()
	}
	return nil
}

// worker takes units until there are none. An error is one that ends the run.
func (r *run) worker(ctx context.Context) error {
	w := newWorker(r)
	defer w.feed.Close()
	for {
		u, ok := r.queue.next()
		if !ok {
			return nil
		}
		err := w.inTurn(ctx, u)
		if err == nil {
			err = w.publish(ctx)
		}
		w.handedOver()
		if w.spare {
			r.queue.returns()
		} else {
			r.queue.done()
		}
		if err != nil {
			r.queue.stop(err)
		}
		if err != nil || w.spare {
			return err
		}
	}
}

// mine returns an error when another process has taken this run over.
func (r *run) mine(ctx context.Context) error {
	if r.o.ConfirmLease == nil {
		return nil
	}
	return r.o.ConfirmLease(ctx)
}

// fatal says whether an error would hit every other entry too.
func (r *run) fatal(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, mover.ErrUnreachable) || errors.Is(err, mover.ErrFull)
}

// small is the size up to which files travel in batches: what the target says. A file
// from a remote source that is one part in any case is small, too. Then the process that moves it
// opens and publishes it. On many nodes that is not the lead.
func small(from, to mover.Capabilities) int64 {
	n := to.SmallBytes
	if from.Remote && !to.Remote {
		n = max(n, from.PartBytes)
	}
	return min(n, to.BatchBytes)
}

// isLarge says whether e is moved in parts.
func (r *run) isLarge(e *mover.Entry) bool { return e.Kind == mover.File && e.Size > r.small }

// inParts says whether it is known of an item that its content is to be moved in parts.
func (r *run) inParts(it *item) bool {
	return it.Op != plan.Update && it.Op != plan.Compare && r.isLarge(&it.Source)
}

// carry is what of e is carried over to the target.
func (r *run) carry(e mover.Entry) mover.Entry {
	e.Known &= r.preserve
	return e
}

// carryOver is carry for what comes to where there may be something: where that has something as an object, a file says that this has none any more.
func (r *run) carryOver(e mover.Entry, it *item) mover.Entry {
	e.Stated = e.Stated || it.Target.Stated || len(it.Target.KeptObject(mover.FactsOfObject)) > 0
	return r.carry(e)
}

// resolve decides an action that needs a look at facts or contents. alive is told of each sign of life.
func (r *run) resolve(ctx context.Context, a plan.Action, alive func()) (plan.Action, error) {
	size := a.Source.Size
	a, read, err := r.n.Look(func(read func(int64)) (plan.Action, error) {
		return compare.Resolve(ctx, r.source, r.target, a, r.o.Plan, func(n int64) { read(n); alive() })
	})
	if _, moves := a.Moves(); moves || err != nil {
		r.n.Bytes.Add(-read)
		return a, err
	}
	r.n.Looked(size - read)
	return a, nil
}

// mkdir makes a directory at its final name, in place of what is there.
func (r *run) mkdir(ctx context.Context, it *item) error {
	if k := it.Target.Kind; k != 0 && k != mover.Dir {
		if err := r.target.Remove(ctx, it.Target, r.o.By); err != nil && !errors.Is(err, mover.ErrNotExist) {
			return err
		}
	}
	return r.room.Retry(ctx, r.seeker(), func() error { return r.target.Mkdir(ctx, it.Source) })
}

func (r *run) result(res Result) {
	if r.o.Observer != nil {
		r.o.Observer.Result(res)
	}
}

// unlikely notes that what the target has by this name is not what the walk saw,
// but an older content or a newer one: nothing may be linked to it, because with the
// facts of what the walk saw it would pass for that ever after.
func (r *run) unlikely(e *mover.Entry) {
	if e.Nlink > 1 {
		r.unlike.add(e.Name)
	}
}

// failed reports an entry that can not be done. From now on nothing is removed, unless it is known that the entry is all that is left out.
func (r *run) failed(it *item, err error) {
	if it.Source.Key == "" && !unheld(it.Target.Kind, err) {
		r.doubt.Store(true)
	}
	r.leftOut(it, err)
}

// unheld says that an entry is one that the target can not hold, in no run, and has no counterpart of: no removal has to wait for it.
func unheld(at mover.Kind, err error) bool { return at == 0 && errors.Is(err, mover.ErrNoSuchName) }

// leftOut reports an entry that can not be done, for which nothing else is in doubt.
func (r *run) leftOut(it *item, err error) {
	r.n.Failed.Add(1)
	e := it.Source
	if e.Kind == 0 {
		e = it.Target
	}
	r.unlikely(&it.Source)
	r.result(Result{Seq: it.Seq, Op: it.Op, Entry: e, Why: it.Why, Err: err})
}

// conflict is why an entry can not be made beside what the target has.
func (r *run) conflict(it *item) error {
	op := "copy to"
	if it.Source.Kind == 0 {
		op = "remove"
	}
	return &mover.Error{Op: op, Location: r.target.String(), Name: it.name(), Err: fmt.Errorf("%w: %s", mover.ErrConflict, it.Why)}
}

func (r *run) paused(why error) {
	if r.o.Observer != nil {
		r.o.Observer.Paused(why)
	}
}

func closeAll(cs ...io.Closer) {
	for _, c := range cs {
		_ = c.Close()
	}
}
