package transfer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/spool"
)

// Released says what happens to files that have their content in an archive only.
type Released uint8

// The ways to treat them.
const (
	ReleasedRestore Released = iota // ask for them, many at once, and move each when it is back
	ReleasedSkip                    // leave them out, and say so
	ReleasedFail                    // they fail, with mover.ErrReleased
)

const (
	recallMost     = 256  // files that are asked for at once
	recallWindow   = 4096 // files that are asked for and not back, at most
	recallPauseMin = time.Second
	recallPauseMax = 30 * time.Second
	recallAgain    = 5 * time.Minute // nothing came for so long: it is asked for again
)

// recalls are the files of a run that an archive is to bring back. A read that waits for one
// could not be stopped. So the run requests them while other files move, and
// moves them when they are back.
type recalls struct {
	from mover.Recaller // nil where there is no archive

	mu    sync.Mutex
	next  []item          // found, and not asked for; guarded by mu, as all below
	asked []item          // with next, at most recallWindow
	later *spool.Of[item] // found when these were full

	left nameSet // of files with several names, that stay in the archive
}

// released handles an item with its content in an archive. It returns
// false for any error but mover.ErrReleased.
func (r *run) released(ctx context.Context, it *item, err error) (bool, error) {
	if !errors.Is(err, mover.ErrReleased) {
		return false, nil
	}
	switch {
	case r.hand: // the lead asks for all of them together
		return true, r.redo.Add(*it)
	case r.o.Released == ReleasedSkip:
		r.leave(it)
		r.result(Result{Seq: it.Seq, Op: plan.Keep, Entry: it.Source, Why: plan.WhyReleased, Skipped: true})
		return true, nil
	case r.o.Released == ReleasedFail, r.recalls.from == nil, it.Op == plan.Link:
		r.leave(it)
		return false, nil
	}
	if it.Tries++; it.Tries > triesMost { // released again each time that it was back
		return false, nil
	}
	c := &r.recalls
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.next)+len(c.asked) >= recallWindow {
		return true, c.later.Add(*it)
	}
	if c.next = append(c.next, *it); len(c.next) < recallMost {
		return true, nil
	}
	asked, err := r.recall(ctx, c.next)
	c.next, c.asked = nil, append(c.asked, asked...)
	return true, err
}

// leave notes that an item stays in the archive: other names of it can not be linked to it.
func (r *run) leave(it *item) {
	if it.Source.Nlink > 1 {
		r.recalls.left.add(it.Source.Name)
	}
}

// isBack takes what a file is since its content came back. It reports false where that is
// another file, or another content: to be restored changes the ctime.
func (r *run) isBack(ctx context.Context, e *mover.Entry) bool {
	now, err := r.source.Stat(ctx, e.Name)
	if err != nil || now.Kind != e.Kind || now.Dev != e.Dev || now.Ino != e.Ino || now.Size != e.Size || now.Mtime != e.Mtime {
		return false
	}
	*e = now
	return true
}

// recall asks for the contents of items, and returns those that are to come. Where that
// fails, halves are asked for, so that one file which can not be had keeps back no other.
func (r *run) recall(ctx context.Context, items []item) ([]item, error) {
	if len(items) == 0 {
		return nil, nil
	}
	entries := make([]mover.Entry, len(items))
	for i := range items {
		entries[i] = items[i].Source
	}
	r.log.InfoContext(ctx, "asks the archive for contents", "files", len(items), "first", entries[0].Name)
	err := r.recalls.from.Recall(ctx, entries)
	switch {
	case err == nil:
		return items, nil
	case r.fatal(ctx, err):
		return nil, err
	case len(items) == 1:
		r.failed(&items[0], err)
		return nil, nil
	}
	half := len(items) / 2
	asked, err := r.recall(ctx, items[:half])
	if err != nil {
		return nil, err
	}
	more, err := r.recall(ctx, items[half:])
	return slices.Concat(asked, more), err
}

// some says whether there are any.
func (c *recalls) some() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.next)+len(c.asked) > 0 || c.later.Len() > 0
}

// moveRecalled moves what the archive brings back, until it has brought all.
func (r *run) moveRecalled(ctx context.Context) error {
	c := &r.recalls
	if !c.some() {
		return nil
	}
	c.mu.Lock()
	w, later := window{r: r, next: c.next, asked: c.asked, news: time.Now()}, c.later
	c.next, c.asked, c.later = nil, nil, spool.New[item](r.o.SpoolDir)
	c.mu.Unlock()
	err := r.work(ctx, func(ctx context.Context) error {
		err := later.Each(false, func(items []item) error { return w.add(ctx, items) })
		if err != nil {
			return err
		}
		return w.bring(ctx, 0)
	})
	return errors.Join(err, later.Close())
}

// window is what is waited for.
type window struct {
	r           *run
	next, asked []item
	news        time.Time // when something was asked for, or came
}

// add asks for more, as there is room.
func (w *window) add(ctx context.Context, items []item) error {
	for len(items) > 0 {
		if len(w.next)+len(w.asked) >= recallWindow {
			if err := w.bring(ctx, recallWindow-recallMost); err != nil {
				return err
			}
		}
		n := min(len(items), recallMost)
		w.next = append(w.next, items[:n]...)
		items = items[n:]
	}
	return ctx.Err()
}

// bring waits until no more than so many are away, and puts those that are back.
func (w *window) bring(ctx context.Context, most int) error {
	for pause := recallPauseMin; ; {
		for len(w.next) > 0 {
			n := min(len(w.next), recallMost)
			asked, err := w.r.recall(ctx, w.next[:n])
			if err != nil {
				return err
			}
			w.next, w.asked, w.news = w.next[n:], append(w.asked, asked...), time.Now()
		}
		before := len(w.asked)
		if err := w.look(ctx); err != nil || len(w.asked) <= most {
			return err
		}
		if pause = min(2*pause, recallPauseMax); len(w.asked) < before {
			pause, w.news = recallPauseMin, time.Now()
		}
		if err := w.wait(ctx, pause); err != nil {
			return err
		}
		// A request is lost when a copytool fails at it, or when its server restarts with a
		// cleared list; neither is reported. For a request that is not lost, the next one
		// finds the file there.
		if time.Since(w.news) >= recallAgain {
			w.next, w.asked = w.asked, nil
		}
	}
}

// look puts what is back by now.
func (w *window) look(ctx context.Context) error {
	still := w.asked[:0]
	for i := range w.asked {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		it := &w.asked[i]
		away, err := w.r.recalls.from.Away(ctx, it.Source)
		switch {
		case err != nil && w.r.fatal(ctx, err):
			return err
		case err != nil:
			w.r.failed(it, err)
		case away:
			still = append(still, *it)
		default:
			w.r.isBack(ctx, &it.Source) // false: the worker that moves the file finds the change
			if err := w.r.put(unitOf(*it, w.r.inParts(it))); err != nil {
				return err
			}
		}
	}
	clear(w.asked[len(still):])
	w.asked = still
	return nil
}

// wait says what is waited for, and waits a while.
func (w *window) wait(ctx context.Context, pause time.Duration) error {
	w.r.paused(fmt.Errorf("%d files are on their way back from the archive, %s among them; if nothing comes, no copytool may be running",
		len(w.asked), mover.Printable(w.asked[0].Source.Name)))
	defer w.r.paused(nil)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(pause):
		return nil
	}
}
