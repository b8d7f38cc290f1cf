package transfer

import (
	"context"
	"slices"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/plan"
)

// item is one action with its place in the stream. What is exported of it goes through a spool.
type item struct {
	Seq int64
	plan.Action
	Tries int  // that have failed, of those that make it wait in run.redo
	build bool // a new directory that lies wholly in its batch: built as a draft
}

// name is what the action is about, on whichever side it is.
func (it *item) name() string {
	if it.Source.Kind == 0 {
		return it.Target.Name
	}
	return it.Source.Name
}

// level is a directory that holds the present position in the stream.
type level struct {
	it    item
	batch int  // its index in the batch while it is not decided how to make it; else -1
	dirty bool // something in it changes: its facts are to be set at the end
	late  bool // made, with all that is in it, when the removals are done
	fail  error
}

// cutter cuts the stream of actions into units. What it has is of the goroutine that owns it.
type cutter struct {
	r     *run
	owned chan struct{}
	seq   int64
	path  []level // the directories around the present position, the root first
	batch []item
	bytes int64
}

// add takes the next action of the stream. An error ends the run.
func (c *cutter) add(ctx context.Context, a plan.Action) error {
	c.seq++
	it := item{Seq: c.seq, Action: a}
	name := it.name()
	if err := c.leave(name); err != nil {
		return err
	}
	if c.full(name) {
		if err := c.flush(ctx, name); err != nil {
			return err
		}
	}
	if held, err := c.held(it); held {
		return err
	}
	if c.r.touches && changesParent(a) {
		c.path[len(c.path)-1].dirty = true
	}
	return c.place(ctx, it)
}

// held deals with an action in a directory that is not there.
func (c *cutter) held(it item) (bool, error) {
	top := &c.path[len(c.path)-1]
	switch {
	case it.Op == plan.Remove || top.fail == nil && !top.late:
		return false, nil
	case top.fail != nil:
		c.r.failed(&it, inFailed(top.fail))
	case it.Op == plan.Conflict:
		c.r.failed(&it, c.r.conflict(&it))
	default:
		return true, c.r.wait(it)
	}
	return true, nil
}

// decided is held after the directories around an action were decided.
func (c *cutter) decided(ctx context.Context, it item) (bool, error) {
	if err := c.decide(ctx, it.Source.Name); err != nil {
		return true, err
	}
	return c.held(it)
}

// changesParent says whether the action may make, replace or remove a name, and
// with it the times of the directory around it.
func changesParent(a plan.Action) bool {
	switch a.Op {
	case plan.Keep, plan.Update, plan.Conflict:
		return false
	case plan.Compare:
		return a.Source.Kind != mover.Dir
	}
	return true
}

// place puts the action where it will be done.
func (c *cutter) place(ctx context.Context, it item) error {
	switch {
	case it.Op == plan.Remove, it.Op == plan.Conflict && it.Source.Kind == 0: // what is not removed is told when the rest is
		return c.r.removes.Add(it)
	case it.Op == plan.Link:
		// It is made at the very end, so its directory gets its facts even later.
		if held, err := c.decided(ctx, it); held {
			return err
		}
		return c.r.links.Add(it)
	case it.Op == plan.Conflict:
		c.r.failed(&it, c.r.conflict(&it))
		return nil
	case it.Source.Kind == mover.Dir:
		return c.dir(ctx, it)
	case it.Op == plan.Keep:
		c.r.result(Result{Seq: it.Seq, Op: plan.Keep, Entry: c.r.stays(it.Action), Why: it.Why})
		return nil
	case it.Target.Kind == mover.Dir:
		return c.r.wait(it) // its place is free only when the removals are done
	case it.Op == plan.Compare && c.r.o.Plan.CompareBy == plan.ByContent && c.r.isLarge(&it.Source): // it is read, and others would wait for that
		return c.r.put(unitOf(it, false))
	case c.r.inParts(&it):
		if held, err := c.decided(ctx, it); held {
			return err
		}
		return c.r.put(unitOf(it, true))
	}
	c.batch = append(c.batch, it)
	c.bytes += it.Source.Size
	return nil
}

// dir enters a directory.
func (c *cutter) dir(ctx context.Context, it item) error {
	l := level{it: it, batch: -1, dirty: it.Op != plan.Keep}
	switch {
	case it.Op != plan.Create && it.Op != plan.Replace:
	case c.r.to.DirDrafts && it.Target.Kind == 0:
		l.batch = len(c.batch)
		it.build = true
		c.batch = append(c.batch, it)
	default:
		l.fail = c.r.mkdir(ctx, &it)
	}
	err := c.unmade(ctx, &l)
	c.path = append(c.path, l)
	return err
}

// unmade reports a directory that could not be made, has it wait for the removals, or ends the run.
func (c *cutter) unmade(ctx context.Context, l *level) error {
	switch {
	case l.fail == nil:
		return nil
	case c.r.fatal(ctx, l.fail):
		return l.fail
	case c.r.waits(l.fail):
		l.fail, l.late = nil, true
		return c.r.wait(l.it)
	}
	c.r.failed(&l.it, l.fail)
	return nil
}

// postpone has what is in the batch of a directory wait with it.
func (c *cutter) postpone(dir string) error {
	n := slices.IndexFunc(c.batch, func(it item) bool { return it.name() != dir && mover.Within(it.name(), dir) })
	if n < 0 {
		return nil
	}
	for _, it := range c.batch[n:] { // all behind the first one are below dir, too
		if err := c.r.wait(it); err != nil {
			return err
		}
	}
	c.batch = c.batch[:n]
	return nil
}

// leave closes the directories that do not hold name.
func (c *cutter) leave(name string) error {
	for len(c.path) > 1 {
		l := &c.path[len(c.path)-1]
		if mover.Within(name, l.it.Source.Name) {
			return nil
		}
		if err := c.closed(l); err != nil {
			return err
		}
		c.path = c.path[:len(c.path)-1]
	}
	return nil
}

// closed notes what remains to be done for a directory after the last entry below it.
func (c *cutter) closed(l *level) error {
	switch {
	case l.fail != nil, l.late: // told already, or later
		return nil
	case l.batch >= 0: // a draft of the batch
		return nil
	case l.dirty:
		return c.r.dirs.Add(l.it)
	}
	c.r.result(Result{Seq: l.it.Seq, Op: plan.Keep, Entry: c.r.stays(l.it.Action), Why: l.it.Why})
	return nil
}

// full says that the batch should end before name. A batch that has its size
// still waits for the end of the innermost directory, so that more directories are
// whole, up to twice the size.
func (c *cutter) full(name string) bool {
	n, bytes, files := len(c.batch), c.bytes, c.batchFiles()
	if n < files && bytes < c.r.batchBytes {
		return false
	}
	inside := len(c.path) > 1 && c.path[len(c.path)-1].batch >= 0
	return !inside || n >= 2*files || bytes >= 2*c.r.batchBytes
}

// batchFiles is how many files make a batch at this point of the stream: few at first,
// so that a small tree gives work to all, then more and more.
func (c *cutter) batchFiles() int {
	most := c.r.to.BatchFiles
	return min(most, max(most/4, int(c.seq/16)))
}

// decide makes the undecided directories around name now, at their final names.
func (c *cutter) decide(ctx context.Context, name string) error {
	for i := range c.path {
		l := &c.path[i]
		if l.batch < 0 || !mover.Within(name, l.it.Source.Name) {
			continue
		}
		if c.path[i-1].late { // the batch does not have it any more; the root is never undecided
			l.batch, l.late = -1, true
			continue
		}
		c.batch[l.batch].build = false
		l.batch = -1
		l.dirty = true
		l.fail = c.r.mkdir(ctx, &l.it)
		if err := c.unmade(ctx, l); err != nil {
			return err
		}
		if l.late {
			if err := c.postpone(l.it.Source.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// flush hands the batch over. Directories that go on behind it are made first.
func (c *cutter) flush(ctx context.Context, next string) error {
	if err := c.decide(ctx, next); err != nil {
		return err
	}
	batch := slices.DeleteFunc(c.batch, func(it item) bool { return it.Source.Kind == mover.Dir && !it.build })
	for i := range c.path {
		c.path[i].batch = -1
	}
	c.batch, c.bytes = make([]item, 0, len(c.batch)), 0
	if len(batch) == 0 {
		return nil
	}
	return c.r.put(unit{batch: batch, part: -1})
}

// end closes everything when the stream has ended.
func (c *cutter) end(ctx context.Context) error {
	for len(c.path) > 1 {
		if err := c.closed(&c.path[len(c.path)-1]); err != nil {
			return err
		}
		c.path = c.path[:len(c.path)-1]
	}
	if err := c.flush(ctx, ""); err != nil {
		return err
	}
	return c.r.dirs.Add(c.path[0].it)
}

// stays is the entry that stays: the source's facts with the target's identity, and
// what the walk of the source did not look at as the target has it.
func (r *run) stays(a plan.Action) mover.Entry {
	t := &a.Target
	e := r.o.Plan.Stays(a.Source, t)
	e.ETag, e.Version = t.ETag, t.Version
	e.Take(t, t.Known&^e.Known&(mover.FactCRC|mover.FactXattrs|mover.FactHoles|mover.FactsOfObject))
	return e
}
