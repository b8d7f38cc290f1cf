package transfer

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/transfer/standstill"
)

// reliefAfter is how long a call that was ended may take to return before another worker goes on with the rest of its batch. Calls of the
// kernel can not be ended: with the server of a mount away they return when it is back.
const reliefAfter = standstill.After

// hungMost bounds the hung calls of a run that other workers stand in for: each of them keeps a thread.
const hungMost = 64

// relief takes a batch over from a worker with a call that does not return, but for the entry of that call. The token of the batch is the worker's,
// but in calls; nothing that both use is used without it.
type relief struct {
	b     *batch
	items []item
	token chan struct{}
	calls atomic.Int64 // that have begun or were interrupted; changed with the token
	out   bool         // a call is in work; the worker's

	at   int     // of the item in work
	name string  // of it
	so   leaving // what the worker has done before the call
	come bool    // the batch is another worker's
	dirs bool    // what was drafted in directory drafts is drafted anew
}

// watched has the batch relieved when a call of it does not return. A batch of a hand has no other worker to go on with it.
func (b *batch) watched(ctx context.Context, items []item) {
	b.dog.Hangs = func() {}
	if b.w.r.relieve == nil {
		return
	}
	f := &relief{b: b, items: items, token: make(chan struct{}, 1)}
	f.token <- struct{}{}
	b.relief = f
	b.dog.Hangs = func() {
		call := f.calls.Load()
		time.AfterFunc(reliefAfter, func() { f.relieve(ctx, call) })
	}
}

// goesTo notes the item that is in work.
func (f *relief) goesTo(i int) {
	if f != nil {
		f.at, f.name = i, f.items[i].name()
	}
}

// came says that the batch is another worker's, but for the item that was in work.
func (f *relief) came() bool { return f != nil && f.come }

// tookDirs says that, too, and that the directory drafts around the item are given up.
func (f *relief) tookDirs() bool { return f != nil && f.dirs }

// outside does calls that may not return.
func (b *batch) outside(do func() error) error {
	f := b.relief
	if f == nil {
		return do()
	}
	f.so = b.w.leaves(nil)
	f.calls.Add(1)
	f.out = true
	<-f.token
	err := do()
	f.token <- struct{}{}
	f.out = false
	return err
}

// inside interrupts outside, if that is at work, until back is called.
func (b *batch) inside() (back func()) {
	f := b.relief
	if f == nil || !f.out {
		return func() {}
	}
	f.token <- struct{}{}
	f.calls.Add(1)
	f.out = false
	return func() {
		f.out = true
		<-f.token
	}
}

// relieve has another worker go on if the call is in work still.
func (f *relief) relieve(ctx context.Context, call int64) {
	select {
	case f.token <- struct{}{}:
	default:
		return // no call is in work
	}
	defer func() { <-f.token }()
	w, r := f.b.w, f.b.w.r
	if f.come || f.calls.Load() != call || ctx.Err() != nil || !r.queue.hangs() {
		return
	}
	f.come = true
	rest := f.take()
	w.leave(f.so)
	r.room.End()
	r.n.InWork.end(f.items[0].name())
	r.n.InWork.begin(f.name)
	r.log.WarnContext(ctx, "a call does not return, and can not be ended; another worker goes on without it, and the run ends when it has returned",
		"name", f.name, "source", r.source.String(), "target", r.target.String())
	r.relieve(func(ctx context.Context) error { return r.goOnAfter(ctx, rest) })
}

// rest is what becomes of a batch without the item that hangs.
type rest struct {
	done  []drafted // outside directory drafts
	dirs  []item    // the directories around the item, which were drafts
	items []item
}

// take takes all but the item in work. Its draft may have written to the directory draft that it is in, at any time: that one is never published.
func (f *relief) take() (left rest) {
	b := f.b
	n := len(b.done)
	if n > 0 && b.done[n-1].it == &f.items[f.at] {
		n--
	}
	if len(b.open) == 0 {
		left.done = b.first(n)
	} else {
		inDirs := b.open[0].index
		for i := inDirs; i < n; i++ {
			d := &b.done[i]
			b.w.r.n.Bytes.Add(-d.counted)
			if slices.ContainsFunc(b.open, func(o opened) bool { return o.index == i }) {
				left.dirs = append(left.dirs, *d.it)
				continue
			}
			left.items = append(left.items, *d.it)
		}
		left.done, f.dirs = b.first(inDirs), true
	}
	left.items = append(left.items, f.items[f.at+1:]...)
	return left
}

// goOnAfter publishes what is finished, makes the directories that were drafts, and has the rest drafted.
func (r *run) goOnAfter(ctx context.Context, left rest) error {
	if err := r.finished(ctx, left.done); err != nil {
		return err
	}
	for i := range left.dirs {
		it := &left.dirs[i]
		it.build = false
		err := r.mkdir(ctx, it)
		if err == nil {
			continue
		}
		if r.fatal(ctx, err) {
			return err
		}
		if err := r.without(it, err, slices.Concat(left.dirs[i+1:], left.items)); err != nil {
			return err
		}
		left.items = slices.DeleteFunc(left.items, func(in item) bool { return mover.Within(in.name(), it.name()) })
		left.dirs = left.dirs[:i]
		break
	}
	for _, it := range slices.Backward(left.dirs) { // children before their parents
		if err := r.dirs.Add(it); err != nil {
			return err
		}
	}
	if len(left.items) > 0 {
		r.queue.putBack(unit{batch: left.items, part: -1})
	}
	return nil
}

// without reports a directory that could not be made, and what is to be in it; or has them wait.
func (r *run) without(dir *item, why error, items []item) error {
	if r.waits(why) {
		for _, it := range items {
			if mover.Within(it.name(), dir.name()) {
				if err := r.wait(it); err != nil {
					return err
				}
			}
		}
		return r.wait(*dir)
	}
	r.failed(dir, why)
	for i := range items {
		if mover.Within(items[i].name(), dir.name()) {
			r.failed(&items[i], inFailed(why))
		}
	}
	return nil
}

// outdated ends an item of a directory draft that was given up while its call hung. The item is moved into the directory that is there by now.
func (b *batch) outdated(ctx context.Context, d *drafted, err error) error {
	if d.draft == nil {
		b.done = b.done[:len(b.done)-1]
	}
	it := *d.it
	b.w.r.n.Bytes.Add(-d.counted)
	b.abandon()
	b.done, b.open = nil, nil
	switch {
	case b.stop != nil:
		return b.stop
	case err != nil && b.w.r.fatal(ctx, err):
		return err
	}
	return b.w.r.redo.Add(it)
}
