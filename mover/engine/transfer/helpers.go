package transfer

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/spool"
)

// Helpers are the other processes that may work on a run: they reach source and target too, from
// other nodes as a rule. The run stays the lead: it alone plans, opens and publishes
// large files, and does what comes last.
type Helpers interface {
	// Wanted waits until a helper is ready to take a work, and returns the number of helpers
	// that take works. An error is the end of ctx.
	Wanted(ctx context.Context) (others int, err error)
	// Give hands a work to a helper and returns its reply. The lead handles
	// the errors below; every other one ends the run.
	Give(ctx context.Context, w *Work) (*Reply, error)
}

// How a work may come back without a reply.
var (
	// ErrNobody says that no helper can do the work, and that none began it.
	ErrNobody = errors.New("no helper is there to do it")
	// ErrSilent says that a helper with parts of a file no longer answers:
	// it may still write them, at any time.
	ErrSilent = errors.New("the helper that had it is silent")
)

// Begun says that a helper began a batch and is gone, and that no other one can take it.
// The lead does the batch, and looks first at what is there by now.
type Begun struct {
	Over []uint64 // the epochs of the helpers that are gone: they publish nothing any more
}

// Error implements error.
func (*Begun) Error() string {
	return "the helper that began it is gone, and no other one is there to do it"
}

// givenMost bounds the works of one run that others have at one time.
const givenMost = 512

// giver gives works to the crew until stop is called; g is the end of all of them.
func (r *run) giver(ctx context.Context) (g *errgroup.Group, stop func()) {
	g, gctx := errgroup.WithContext(ctx)
	if r.o.Helpers == nil {
		return g, func() {}
	}
	wctx, stop := context.WithCancel(gctx)
	g.Go(func() error {
		r.give(gctx, wctx, g)
		return nil
	})
	return g, stop
}

// give hands over one work after the other, each when one is wanted. Answers are waited
// for aside.
func (r *run) give(ctx, while context.Context, g *errgroup.Group) {
	room := make(chan struct{}, givenMost)
	for {
		select {
		case room <- struct{}{}:
		case <-while.Done():
			return
		}
		others, err := r.o.Helpers.Wanted(while)
		if err != nil {
			return // the run is over, or stops for a reason that others tell
		}
		u, ok := r.queue.nextAway(others)
		if !ok {
			return
		}
		g.Go(func() error {
			defer func() { <-room }()
			w := newWorker(r)
			defer w.feed.Close()
			err := w.giveAway(ctx, u)
			r.queue.back()
			if err != nil {
				r.queue.stop(err)
			}
			return err
		})
	}
}

// giveAway has a unit done by the crew. It opens a file that is not open yet, and takes the crew's parts of it
// first. The workers of this process may take parts faster.
func (w *worker) giveAway(ctx context.Context, u unit) error {
	switch {
	case u.large == nil:
		return w.giveBatch(ctx, u)
	case u.parts == nil:
		return w.beginFor(ctx, u.large, func() error { return w.giveParts(ctx, u.large, w.r.queue.offerAway(u.large)) })
	}
	return w.giveParts(ctx, u.large, u.parts)
}

func (w *worker) giveBatch(ctx context.Context, u unit) error {
	r := w.r
	r.n.InFlight.Add(1)
	defer r.n.InFlight.Add(-1)
	work := &Work{Task: r.o.By.Task, Steps: stepsOf(u.batch)}
	reply, err := r.o.Helpers.Give(ctx, work)
	if begun := (*Begun)(nil); errors.As(err, &begun) {
		reply, err = r.goOn(ctx, work, begun.Over)
	}
	switch {
	case errors.Is(err, ErrNobody):
		r.queue.putBack(u)
		return nil
	case err != nil:
		return err
	}
	late, err := r.merge(ctx, work, reply)
	if err != nil {
		return err
	}
	var undone []item
	for _, it := range itemsOf(reply.Undone) {
		if !slices.ContainsFunc(late, func(dir string) bool { return mover.Within(it.name(), dir) }) {
			undone = append(undone, it)
		} else if err := r.wait(it); err != nil {
			return err
		}
	}
	if len(undone) > 0 {
		r.queue.putBack(unit{batch: undone, part: -1})
	}
	return nil
}

// goOn does a batch that others began, as one of them would: what they have drafted
// goes, and what they have published is found.
func (r *run) goOn(ctx context.Context, work *Work, over []uint64) (*Reply, error) {
	o := r.o
	o.Counters = nil // merge counts
	work.Again, work.Over = true, over
	return NewHelper(r.source, r.target, o).Do(ctx, o.By.Epoch, o.ConfirmLease, nil, work)
}

// merge takes over what became of a batch. It returns the directories that wait for the removals.
func (r *run) merge(ctx context.Context, work *Work, reply *Reply) (late []string, err error) {
	for _, name := range reply.Unlike {
		r.unlike.add(name)
	}
	for i := range reply.Results {
		res := reply.Results[i].Result
		res.Err = reply.Results[i].Fault.Err()
		if s := slices.IndexFunc(work.Steps, func(s Step) bool { return s.Seq == res.Seq }); s >= 0 && r.waits(res.Err) {
			if err := r.wait(work.Steps[s].item()); err != nil {
				return late, err
			}
			if work.Steps[s].Action.Source.Kind == mover.Dir {
				late = append(late, res.Entry.Name)
			}
			continue
		}
		if err := r.mergeOne(ctx, res); err != nil {
			return late, err
		}
	}
	for _, s := range []struct {
		steps []Step
		spool *spool.Of[item]
	}{{reply.Redo, r.redo}, {reply.Links, r.links}, {reply.Dirs, r.dirs}} {
		for i := range s.steps {
			if err := s.spool.Add(s.steps[i].item()); err != nil {
				return late, err
			}
		}
	}
	return late, nil
}

// mergeOne takes over what became of one entry.
func (r *run) mergeOne(ctx context.Context, res Result) error {
	if res.Err != nil {
		if res.Op != plan.Create || !unheld(0, res.Err) {
			r.doubt.Store(true)
		}
		r.n.Failed.Add(1)
		if err := r.distrust(ctx, &res.Entry, res.Err); err != nil {
			return err
		}
	} else if bytes, moved := (&plan.Action{Op: res.Op, Source: res.Entry}).Moves(); moved {
		r.n.Files.Add(1)
		r.n.Bytes.Add(bytes)
	}
	r.result(res)
	return nil
}

// giveParts has parts of an open file moved by the crew.
func (w *worker) giveParts(ctx context.Context, l *large, parts []int) error {
	r := w.r
	if err := r.share(ctx, l); err != nil {
		return w.landed(ctx, l, len(parts), nil, err)
	}
	r.n.InFlight.Add(1)
	defer r.n.InFlight.Add(-1)
	reply, err := r.o.Helpers.Give(ctx, &Work{Task: r.o.By.Task, Parts: &Parts{
		Source: l.it.Source, Entry: l.entry, Token: l.draft.Token(), PartBytes: l.bytes, Index: parts,
	}})
	switch {
	case errors.Is(err, ErrSilent):
		r.queue.withdraw(l)
		l.mu.Lock()
		l.lost = true
		l.mu.Unlock()
		return w.landed(ctx, l, 0, parts, nil)
	case errors.Is(err, ErrNobody):
		return w.landed(ctx, l, 0, parts, nil)
	case err != nil:
		return errors.Join(err, w.landed(ctx, l, 0, parts, nil))
	}
	return w.took(ctx, l, parts, reply)
}

// took takes over the parts that the crew has stored.
func (w *worker) took(ctx context.Context, l *large, parts []int, reply *Reply) (err error) {
	given := make(map[int]bool, len(parts))
	for _, i := range parts {
		given[i] = true
	}
	done := 0
	for _, rec := range reply.Receipts {
		if !given[rec.Index] || rec.Part != cut(l.entry.Size, l.bytes, rec.Index) {
			continue // not what was asked for
		}
		delete(given, rec.Index)
		done++
		w.r.n.Bytes.Add(rec.Length)
		err = errors.Join(err, w.r.moved(ctx, l, rec))
	}
	var back []int
	for i := range given {
		back = append(back, i)
	}
	if err == nil {
		err = reply.Failed.Err()
	}
	return w.landed(ctx, l, done, back, err)
}

// share notes in the journal that other processes write to the draft of l. A run that takes over
// from this one must not write to it.
func (r *run) share(ctx context.Context, l *large) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shared || r.o.Journal == nil || l.id == 0 {
		return nil
	}
	l.shared = true
	return r.o.Journal.Share(ctx, l.id)
}
