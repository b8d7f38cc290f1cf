package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/transfer/nospace"
)

// committer collects finished drafts and publishes many at once, because each
// Publish waits for stable storage. One goroutine; workers wait when it is behind.
type committer struct {
	r    *run
	in   chan staged
	asks chan chan struct{} // each is closed when all that was added before is published
	over chan struct{}      // closed when nothing is published any more
}

// staged is what one batch or one large file has to publish, with the id of its
// record in the journal (0 is none).
type staged struct {
	done []drafted
	id   uint64
}

func newCommitter(r *run) *committer {
	return &committer{r: r, in: make(chan staged, 4*r.workers()), asks: make(chan chan struct{}), over: make(chan struct{})}
}

func (c *committer) close() { close(c.in) }

// add stages the drafts and queues them.
func (c *committer) add(ctx context.Context, done []drafted) error {
	s := staged{done: done, id: done[0].id}
	if s.id == 0 {
		var err error
		if s.id, err = c.r.stage(ctx, done); err != nil {
			leave(done, false)
			return err
		}
	}
	select {
	case c.in <- s:
		return nil
	case <-ctx.Done():
		leave(done, s.id != 0)
		return context.Cause(ctx)
	}
}

// flush waits until what was added before is published, or will not be. It may be called
// at any time, but not by what publishes.
func (c *committer) flush(ctx context.Context) error {
	done := make(chan struct{})
	select {
	case c.asks <- done:
	case <-c.over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-done:
	case <-c.over:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// waiting adds what is queued.
func (c *committer) waiting(g *group) {
	for {
		select {
		case s, ok := <-c.in:
			if !ok {
				return
			}
			g.add(s)
		default:
			return
		}
	}
}

// drain leaves what was queued and never taken. Nothing is added any more.
func (c *committer) drain() {
	for s := range c.in {
		leave(s.done, s.id != 0)
	}
}

// leave ends the work on drafts that are not published. Those that the journal
// knows stay for the next run. The others are dropped, because no later run finds them in a bucket.
func leave(done []drafted, recorded bool) {
	for i := range done {
		leaveOne(done[i].draft, recorded)
	}
}

func leaveOne(d mover.Draft, recorded bool) {
	if recorded {
		_ = d.Suspend()
		return
	}
	_ = d.Close()
}

// loop publishes when enough is there, when it has waited long enough, when room is
// sought, and at the end. A run that ends because the target is full, and is not stopped from outside, publishes what
// it has finished.
func (c *committer) loop(ctx, outside context.Context) error {
	every := c.r.to.CommitEvery
	if every <= 0 {
		every = durableEvery
	}
	timer := time.NewTimer(every)
	defer timer.Stop()
	defer close(c.over)
	var g group
	for {
		var asked chan struct{}
		select {
		case s, ok := <-c.in:
			if !ok {
				return g.publish(outside, c.r)
			}
			g.add(s)
			if g.bytes < c.r.to.CommitBytes && len(g.done) < stagedDrafts && !c.r.room.Short() {
				continue
			}
		case asked = <-c.asks:
			c.waiting(&g)
		case <-timer.C:
		case <-ctx.Done():
			if !errors.Is(context.Cause(ctx), mover.ErrFull) {
				leave(g.done, len(g.ids) > 0)
				return context.Cause(ctx)
			}
			for s := range c.in {
				g.add(s)
			}
			return g.publish(outside, c.r)
		}
		if err := g.publish(ctx, c.r); err != nil {
			return err
		}
		if asked != nil {
			close(asked)
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

// settle publishes drafts, checks what publishing did not check, tells the
// journal and then the observer. It is where an entry becomes visible. When the run
// has to stop, the drafts that are not published stay for the next one, and the
// journal keeps what it knows of them.
func (r *run) settle(ctx context.Context, done []drafted, ids []uint64) error {
	if err := r.mine(ctx); err != nil {
		leave(done, len(ids) > 0)
		return err
	}
	outcomes := r.publish(ctx, done)
	blame(done, outcomes)
	var stop error
	for i := range done {
		if outcomes[i].Err == nil {
			outcomes[i].Err = r.checked(ctx, &done[i], outcomes[i])
		}
		if err := outcomes[i].Err; stop == nil && err != nil && r.fatal(ctx, err) {
			stop = err
		}
	}
	reopen(done, outcomes)
	if r.o.Journal != nil && len(ids) > 0 && stop == nil {
		if stop = r.o.Journal.Clear(ctx, ids...); stop != nil {
			r.log.WarnContext(ctx, "the journal can not forget what is published", "err", stop)
		}
	}
	for i := range done {
		if stop != nil && outcomes[i].Err != nil {
			r.n.Bytes.Add(-done[i].counted)
			leaveOne(done[i].draft, len(ids) > 0)
			continue
		}
		stop = cmp.Or(stop, r.told(ctx, &done[i], outcomes[i].Err))
	}
	return stop
}

// blame gives what was built in a directory draft that failed the reason of the draft.
func blame(done []drafted, outcomes []mover.Outcome) {
	var failed map[mover.Draft]error
	for i := range done {
		err := outcomes[i].Err
		if err == nil {
			continue
		}
		if why := failed[done[i].in]; why != nil {
			err = why
			outcomes[i].Err = inFailed(why)
		}
		if done[i].entry.Kind == mover.Dir {
			if failed == nil {
				failed = map[mover.Draft]error{}
			}
			failed[done[i].draft] = err
		}
	}
}

// errDirectory is the failure of an entry in a directory that could not be made.
var errDirectory = errors.New("its directory could not be made")

func inFailed(why error) error { return fmt.Errorf("%w: %w", errDirectory, why) }

// reopen marks the directory drafts in which something is to be moved later.
func reopen(done []drafted, outcomes []mover.Outcome) {
	for i := range done {
		if done[i].in == nil || !passing(done[i].it, outcomes[i].Err) {
			continue
		}
		for j := range done[:i] {
			done[j].redone = done[j].redone || done[j].draft == done[i].in
		}
	}
}

// publish is Publish that waits while the target is full.
func (r *run) publish(ctx context.Context, done []drafted) []mover.Outcome {
	outcomes := make([]mover.Outcome, len(done))
	batch, index := make([]mover.Draft, len(done)), make([]int, len(done))
	for i := range done {
		batch[i], index[i] = done[i].draft, i
	}
	start := time.Now()
	_ = r.room.Retry(ctx, nospace.Seeker{}, func() (full error) { // each draft has its own outcome
		left, some := 0, false
		for j, o := range r.target.Publish(ctx, batch) {
			outcomes[index[j]] = o
			some = some || o.Err == nil
			if errors.Is(o.Err, mover.ErrFull) {
				full = o.Err
				batch[left], index[left] = batch[j], index[j]
				left++
			}
		}
		batch, index = batch[:left], index[:left]
		if some {
			r.room.Published()
		}
		return full
	})
	r.targetTook(time.Since(start))
	return outcomes
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
	if err = sameSum(ctx, c, d.entry); errors.Is(err, mover.ErrCorrupt) {
		// Its size and time are right, so the next run would believe that it is there.
		err = errors.Join(err, r.target.Remove(ctx, e, r.o.By))
	}
	return err
}

// told reports one published draft, or a failure. What failed for a passing reason
// is moved once more.
func (r *run) told(ctx context.Context, d *drafted, err error) error {
	_ = d.draft.Close()
	d.draft = nil
	if err == nil {
		return r.visible(d)
	}
	r.n.Bytes.Add(-d.counted)
	if err := r.distrust(ctx, &d.it.Source, err); err != nil {
		return err
	}
	if r.waits(err) {
		return r.wait(*d.it)
	}
	if passing(d.it, err) || errors.Is(err, mover.ErrChanged) && errors.Is(err, mover.ErrUnlike) { // of what the target copies by itself when it is published
		return r.later(ctx, d.it, err)
	}
	r.failed(d.it, err)
	return nil
}

// visible reports what is there now. A directory in which something will be moved
// later gets its facts once more, and is reported then.
func (r *run) visible(d *drafted) error {
	if d.redone {
		return r.dirs.Add(*d.it)
	}
	op := d.it.Op
	if op == plan.Compare {
		op = plan.Replace
	}
	if d.entry.Kind == mover.File && op != plan.Link {
		r.n.Files.Add(1)
	}
	r.result(Result{Seq: d.it.Seq, Op: op, Entry: d.entry, Level: d.level, Why: d.it.Why})
	return nil
}
