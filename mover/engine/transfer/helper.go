package transfer

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/spool"
)

// Helper does works of a run that another process leads. What it publishes is durable
// where the target promises that; what comes last it leaves to the lead.
type Helper struct {
	source mover.Source
	target mover.Backend
	o      Options
}

// NewHelper returns a helper between two backends. Of the options, By gives the task only
// (an epoch comes with each work), and Journal, Allow and Helpers mean nothing.
func NewHelper(source mover.Source, target mover.Backend, o Options) *Helper {
	o.Journal, o.Allow, o.Helpers = nil, nil, nil
	if o.Counters == nil {
		o.Counters = new(Counters)
	}
	return &Helper{source, target, o}
}

// Do does one work under an epoch of its own. Mine is asked for that epoch before
// anything is published. When yield is closed, it stops at the next entry, publishes
// what it has, and replies with the rest undone. An error says that this hand can not
// do the work, and that nothing of it will be published any more. Works may be done
// at the same time.
func (h *Helper) Do(ctx context.Context, epoch uint64, mine func(context.Context) error, yield <-chan struct{}, w *Work) (*Reply, error) {
	if err := w.check(); err != nil {
		return nil, err
	}
	told := &tally{}
	o := h.o
	o.By, o.ConfirmLease, o.Observer = mover.WriterID{Task: w.Task, Epoch: epoch}, mine, handObserver{told, h.o.Observer}
	r, err := newRun(h.source, h.target, o)
	if err != nil {
		return nil, err
	}
	defer r.close()
	r.hand = true
	if err := r.sweep(ctx, w); err != nil {
		return nil, err
	}
	d := newWorker(r)
	defer d.feed.Close()
	if w.Parts != nil {
		return d.doParts(ctx, yield, w.Parts)
	}
	undone, err := d.doSteps(ctx, yield, w)
	if err != nil {
		return nil, err
	}
	return r.reply(told, undone)
}

// doSteps does a batch and returns what it did not begin.
func (w *worker) doSteps(ctx context.Context, yield <-chan struct{}, work *Work) (undone []Step, err error) {
	items := itemsOf(work.Steps)
	if work.Again {
		if items, err = w.r.lookAgain(ctx, items); err != nil {
			return nil, err
		}
	}
	if len(items) == 0 {
		return nil, nil
	}
	leave, err := w.enter(ctx, (&unit{batch: items, part: -1}).cost())
	if err != nil {
		return nil, err
	}
	defer func() { leave(w.leaves(err)) }()
	left, err := w.batchUntil(ctx, items, yield)
	if err == nil {
		err = w.publish(ctx)
	}
	if err == nil && !w.r.atOnce() {
		err = w.r.sync(ctx)
	}
	return stepsOf(left), err
}

// lookAgain compares each entry of a batch with what the target has by now, because
// an earlier helper may have published some of it.
func (r *run) lookAgain(ctx context.Context, items []item) ([]item, error) {
	var out []item
	for _, it := range items {
		if it.Source.Kind == 0 {
			out = append(out, it)
			continue
		}
		if dir, _ := mover.Parent(it.Source.Name); r.unmade.has(dir) {
			r.unmade.add(it.Source.Name) // where it is a directory
			r.failed(&it, inFailed(mover.MarkNamesake(mover.ErrConflict)))
			continue
		}
		now, err := r.target.Stat(ctx, it.Source.Name)
		if err == nil && it.Target.Kind == 0 {
			err = r.spelled(ctx, it.Source.Name)
		}
		if errors.Is(err, mover.ErrNamesake) {
			r.unmade.add(it.Source.Name)
			r.failed(&it, err)
			continue
		}
		if err != nil && !errors.Is(err, mover.ErrNotExist) {
			return nil, err
		}
		o := r.o.Plan
		o.Delete, o.Keeps = false, true
		var there []mover.Entry
		if err == nil {
			there = append(there, now)
		}
		for a, err := range plan.Diff(each([]mover.Entry{it.Source}), each(there), o) {
			if err != nil {
				return nil, err
			}
			again := item{Seq: it.Seq, Action: a.Named(it.Link), Tries: it.Tries} // its leader is not in sight of this comparison
			if a.Source.Kind == mover.Dir && a.Op == plan.Create {
				if err := r.mkdir(ctx, &again); err != nil {
					return nil, err
				}
			}
			if a.Source.Kind == mover.Dir { // the lead gives it its facts when all is in it
				if err := r.dirs.Add(again); err != nil {
					return nil, err
				}
				continue
			}
			out = append(out, again)
		}
	}
	return out, nil
}

// spelled is an error when what has a name at the target is another entry of the plan.
func (r *run) spelled(ctx context.Context, name string) error {
	if s, ok := mover.As[mover.Speller](r.target); ok {
		return s.Spelled(ctx, name)
	}
	return nil
}

func each(entries []mover.Entry) func(func(mover.Entry, error) bool) {
	return func(yield func(mover.Entry, error) bool) {
		for i := range entries {
			if !yield(entries[i], nil) {
				return
			}
		}
	}
}

// doParts moves parts of a large file into the draft that the lead has begun.
func (w *worker) doParts(ctx context.Context, yield <-chan struct{}, p *Parts) (*Reply, error) {
	r := w.r
	l := &large{it: item{Action: plan.Action{Source: p.Source}}, entry: p.Entry, bytes: p.PartBytes}
	r.n.InWork.begin(p.Source.Name)
	defer r.n.InWork.end(p.Source.Name)
	var err error
	if l.content, err = r.source.Open(ctx, p.Source); err != nil {
		return r.partsReply(ctx, nil, err)
	}
	defer l.content.Close()
	if l.draft, err = r.target.Adopt(ctx, p.Token); err != nil {
		return r.partsReply(ctx, nil, err)
	}
	defer func() { _ = l.draft.Suspend() }() // it is the lead's
	receipts, err := w.moveParts(ctx, yield, l, p.Index)
	if s, ok := mover.As[interface{ Sync(context.Context) error }](l.draft); ok && err == nil && len(receipts) > 0 {
		err = s.Sync(ctx) // what this node has cached, the lead's sync may not reach
	}
	return r.partsReply(ctx, receipts, err)
}

// moveParts moves parts, several at a time, until one fails or yield is closed.
func (w *worker) moveParts(ctx context.Context, yield <-chan struct{}, l *large, index []int) ([]mover.Receipt, error) {
	r := w.r
	var mu sync.Mutex
	var receipts []mover.Receipt
	g, gctx := errgroup.WithContext(ctx)
	todo := make(chan int)
	for range min(len(index), max(r.from.Parallel, r.to.Parallel, 1)) {
		g.Go(func() error {
			w := newWorker(r)
			defer w.feed.Close()
			for i := range todo {
				rec, err := w.onePart(gctx, l, i)
				if err != nil {
					return err
				}
				mu.Lock()
				receipts = append(receipts, rec)
				mu.Unlock()
			}
			return nil
		})
	}
	offer(gctx, yield, index, todo)
	close(todo)
	return receipts, g.Wait()
}

// offer sends the indexes of parts to the workers, each to the next free one.
func offer(ctx context.Context, yield <-chan struct{}, index []int, todo chan<- int) {
	for _, i := range index {
		select {
		case todo <- i:
		case <-yield:
			return
		case <-ctx.Done():
			return
		}
	}
}

// onePart moves a part through the gate, when it is its turn.
func (w *worker) onePart(ctx context.Context, l *large, i int) (rec mover.Receipt, err error) {
	r := w.r
	leave, err := w.enter(ctx, cost{bytes: cut(l.entry.Size, l.bytes, i).Length})
	if err != nil {
		return rec, err
	}
	defer func() { leave(w.leaves(err)) }()
	err = r.room.Retry(ctx, w.seeker(), func() error { rec, err = w.move(ctx, l, i); return err })
	if err == nil {
		err = l.content.Check(ctx)
	}
	return rec, err
}

// partsReply tells what parts are there. An error that another node may not have is
// the hand's; that the file has changed is the lead's to know.
func (r *run) partsReply(ctx context.Context, receipts []mover.Receipt, err error) (*Reply, error) {
	if err != nil && len(receipts) == 0 && r.fatal(ctx, err) {
		return nil, err
	}
	if r.fatal(ctx, err) { // what is stored counts; the rest comes back
		err = nil
	}
	return &Reply{Receipts: receipts, Failed: faultOf(err)}, nil
}

// reply collects what became of a batch.
func (r *run) reply(told *tally, undone []Step) (*Reply, error) {
	reply := &Reply{Results: told.all, Undone: undone, Unlike: r.unlike.list()}
	for _, s := range []struct {
		spool *spool.Of[item]
		steps *[]Step
	}{{r.redo, &reply.Redo}, {r.links, &reply.Links}, {r.dirs, &reply.Dirs}} {
		err := s.spool.Each(false, func(items []item) error {
			*s.steps = append(*s.steps, stepsOf(items)...)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return reply, nil
}

// tally collects results.
type tally struct {
	mu  sync.Mutex
	all []Told // guarded by mu
}

// handObserver collects results for the reply, and tells of pauses.
type handObserver struct {
	*tally
	outer Observer // may be nil
}

func (o handObserver) Result(res Result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := Told{Result: res, Fault: faultOf(res.Err)}
	t.Err = nil
	o.all = append(o.all, t)
}

func (o handObserver) Paused(why error) {
	if o.outer != nil {
		o.outer.Paused(why)
	}
}

func (o handObserver) Step(string) {}
