package transfer

import (
	"context"
	"errors"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/plan"
)

// committer collects finished drafts and publishes many at once, because each
// Publish waits for stable storage. One goroutine; workers wait when it is behind.
type committer struct {
	r  *run
	in chan staged
}

// staged is what one batch or one large file has to publish, with the id of its
// record in the journal (0 is none).
type staged struct {
	done []drafted
	id   uint64
}

func newCommitter(r *run) *committer {
	return &committer{r: r, in: make(chan staged, 4*r.workers())}
}

func (c *committer) close() { close(c.in) }

// add stages the drafts and queues them.
func (c *committer) add(ctx context.Context, done []drafted) error {
	s := staged{done: done, id: done[0].id}
	if s.id == 0 {
		var err error
		if s.id, err = c.r.stage(ctx, done); err != nil {
			return err
		}
	}
	select {
	case c.in <- s:
		return nil
	case <-ctx.Done():
		for i := range done {
			_ = done[i].draft.Suspend()
		}
		return context.Cause(ctx)
	}
}

// loop publishes when enough is there, when it has waited long enough, and at the end.
func (c *committer) loop(ctx context.Context) error {
	every := c.r.to.CommitEvery
	if every <= 0 {
		every = durableEvery
	}
	timer := time.NewTimer(every)
	defer timer.Stop()
	var g group
	for {
		select {
		case s, ok := <-c.in:
			if !ok {
				return g.publish(ctx, c.r)
			}
			g.add(s)
			if g.bytes < c.r.to.CommitBytes && len(g.done) < stagedDrafts {
				continue
			}
		case <-timer.C:
		case <-ctx.Done():
			g.suspend()
			return context.Cause(ctx)
		}
		if err := g.publish(ctx, c.r); err != nil {
			return err
		}
		timer.Reset(every)
	}
}

// group is what the next Publish takes.
type group struct {
	done  []drafted
	ids   []uint64
	bytes int64
}

func (g *group) add(s staged) {
	g.done = append(g.done, s.done...)
	for i := range s.done {
		g.bytes += s.done[i].size
	}
	if s.id != 0 {
		g.ids = append(g.ids, s.id)
	}
}

func (g *group) publish(ctx context.Context, r *run) error {
	done, ids := g.done, g.ids
	*g = group{}
	if len(done) == 0 {
		return nil
	}
	return r.settle(ctx, done, ids)
}

func (g *group) suspend() {
	for i := range g.done {
		_ = g.done[i].draft.Suspend()
	}
}

// settle publishes drafts, checks what publishing did not check, tells the
// journal and then the observer. It is where an entry becomes visible.
func (r *run) settle(ctx context.Context, done []drafted, ids []uint64) error {
	batch := make([]mover.Draft, len(done))
	for i := range done {
		batch[i] = done[i].draft
	}
	start := time.Now()
	outcomes := r.target.Publish(ctx, batch)
	r.n.TargetWait.Add(int64(time.Since(start)))
	for i := range done {
		if outcomes[i].Err == nil {
			outcomes[i].Err = r.checked(ctx, &done[i], outcomes[i])
		}
	}
	if r.o.Journal != nil && len(ids) > 0 && ctx.Err() == nil {
		if err := r.o.Journal.Clear(ctx, ids...); err != nil {
			return err
		}
	}
	for i := range done {
		if err := r.told(ctx, &done[i], outcomes[i].Err); err != nil {
			return err
		}
	}
	return nil
}

// checked brings a published file to the level that is asked for.
func (r *run) checked(ctx context.Context, d *drafted, o mover.Outcome) error {
	d.entry.ETag, d.entry.Version = o.ETag, o.Version
	if d.entry.Kind != mover.File || d.level != mover.Unchecked {
		return nil
	}
	if d.level = o.Level; d.level >= r.level {
		return nil
	}
	e, err := r.target.Stat(ctx, d.entry.Name)
	if err != nil {
		return err
	}
	c, err := r.target.Open(ctx, e)
	if err != nil {
		return err
	}
	defer c.Close()
	d.level = mover.Read
	return sameSum(ctx, c, d.entry)
}

// told reports one published draft. What failed for a passing reason is moved
// once more, alone.
func (r *run) told(ctx context.Context, d *drafted, err error) error {
	_ = d.draft.Close()
	d.draft = nil
	switch {
	case err == nil:
		op := d.it.Op
		if op == plan.Compare {
			op = plan.Replace
		}
		if d.entry.Kind == mover.File {
			r.n.Files.Add(1)
		}
		r.result(Result{Seq: d.it.seq, Op: op, Entry: d.entry, Level: d.level, Why: d.it.Why})
		return nil
	case r.fatal(ctx, err) && !errors.Is(err, mover.ErrFull):
		return err
	case !d.again && d.entry.Kind == mover.File && (errors.Is(err, mover.ErrCorrupt) || errors.Is(err, mover.ErrFull) || errors.Is(err, mover.ErrTransient)):
		return r.again(ctx, d.it)
	}
	r.failed(d.it, err)
	return nil
}

// again moves one file a second time, and publishes it alone.
func (r *run) again(ctx context.Context, it *item) error {
	w := &worker{r: r, feed: feed{bytes: &r.n.Bytes, wait: &r.n.SourceWait}}
	defer w.feed.Close()
	d := drafted{it: it, again: true}
	if err := w.try(ctx, &d, mover.Hints{By: r.o.By}); err != nil {
		if r.fatal(ctx, err) {
			return err
		}
		r.failed(it, err)
		return nil
	}
	return r.settle(ctx, []drafted{d}, nil)
}
