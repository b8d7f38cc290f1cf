package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"datamove.dev/mover"
	"datamove.dev/tiering/burst"
	"datamove.dev/tiering/burst/budget"
)

// Down takes a burst down: only when all that has to come home is there and verified, but for what is abandoned by name, and clients write nothing any more. What would be lost is mover.ErrConflict, and
// nothing is taken. Then the file system goes, what is in the bucket below the prefix of the burst, and the money is settled.
func (l *Manager) Down(ctx context.Context, r *burst.Record, abandoned []burst.Path) error {
	w, err := l.work(r)
	if err != nil {
		return err
	}
	if r.State.Ended() {
		return nil
	}
	return w.ended(w.down(ctx, abandoned))
}

func (w *work) down(ctx context.Context, abandoned []burst.Path) error {
	if w.record.State != burst.Leaving {
		if err := w.giveUp(ctx, abandoned); err != nil {
			return err
		}
	}
	if err := w.unmake(ctx); err != nil {
		return err
	}
	if err := w.empty(ctx); err != nil {
		return err
	}
	if err := w.stopped(ctx); err != nil {
		return err
	}
	out, err := w.Purse.Settle(ctx, budget.Request{Team: string(w.burst.Spec.Team), Burst: w.record.ID, Why: "it is over", Key: "settle"})
	if err != nil {
		return err
	}
	w.tell("burst %s is gone from AWS; %v of what was reserved are free again", w.burst.Metadata.Name, out.Freed)
	return w.enter(burst.Gone)
}

// giveUp has a burst leave. What is abandoned by name stays so only if it does: a refused command has given nothing up.
func (w *work) giveUp(ctx context.Context, abandoned []burst.Path) error {
	was := slices.Clone(w.record.Abandoned)
	err := w.abandon(abandoned)
	if err == nil {
		err = w.leave(ctx)
	}
	if err != nil {
		w.record.Abandoned = was
		return errors.Join(err, w.keep())
	}
	return w.enter(burst.Leaving)
}

// abandon notes what is given up by name: a directory that comes home, or something in one.
func (w *work) abandon(paths []burst.Path) error {
	for _, p := range paths {
		if !slices.ContainsFunc(w.burst.Homeward(), func(h burst.Result) bool { return mover.Within(string(p), string(h.Path)) }) {
			return fmt.Errorf("%w: %s is nothing that comes home of burst %s", mover.ErrUsage, p, w.burst.Metadata.Name)
		}
		w.record.Abandon(p)
	}
	return nil
}

// leave makes sure that nothing is lost.
func (w *work) leave(ctx context.Context) error {
	if w.record.Ready.IsZero() {
		return nil // no job ran
	}
	if holders := w.holders(); len(holders) > 0 {
		return fmt.Errorf("%w: burst %s is held by %s; wait, or have the owner drop it: datamove lease drop ID", mover.ErrHeld, w.burst.Metadata.Name, strings.Join(holders, ", "))
	}
	if w.allAbandoned() {
		return nil
	}
	// What never came home, or not whole, is told at once, and not after a last export.
	if err := w.lost(&burst.Activity{}); err != nil {
		return err
	}
	looks := w.record.FileSystem != nil && w.Settle >= 0
	begun := w.now()
	if looks {
		var err error
		if begun, err = w.minute(ctx); err != nil {
			return err
		}
	}
	if err := w.comeHome(ctx); err != nil {
		return err
	}
	if looks {
		return w.still(ctx, begun)
	}
	return w.lost(&burst.Activity{})
}

func (w *work) holders() []string {
	if w.Leases == nil {
		return nil
	}
	return w.Leases(w.burst)
}

func (w *work) allAbandoned() bool {
	for _, h := range w.burst.Homeward() {
		if !w.record.GaveUp(h.Path, "") {
			return false
		}
	}
	return true
}

// lost is mover.ErrConflict where something would be lost, and names it.
func (w *work) lost(activity *burst.Activity) error {
	missing := w.record.Missing(w.burst, activity)
	if len(missing) == 0 {
		return nil
	}
	name := w.burst.Metadata.Name
	return fmt.Errorf("%w: burst %s has what is not home: %s; datamove burst sync-back %s brings it, --abandon PATH gives it up", mover.ErrConflict, name, strings.Join(missing, ", "), name)
}

// minute waits for the next minute to begin: figures of AWS are of whole ones, and would not tell what was written before the last export from what was written after it began.
func (w *work) minute(ctx context.Context) (begun time.Time, err error) {
	next := w.now().Truncate(burst.Figure).Add(burst.Figure)
	err = w.Cloud.Await(ctx, func(context.Context) (bool, error) { return !w.now().Before(next), nil })
	return w.now(), err
}

// still waits until AWS has told what clients did since the last export, and refuses where they wrote.
func (w *work) still(ctx context.Context, begun time.Time) error {
	settle := w.Settle
	if settle == 0 {
		settle = burst.DefaultSettle
	}
	w.tell("waiting until AWS has told of what clients did up to now: %s", settle)
	err := w.Cloud.Await(ctx, func(context.Context) (bool, error) { return w.now().Sub(begun) >= settle, nil })
	if err != nil {
		return err
	}
	activity, err := w.Cloud.FileSystemActivity(ctx, w.record.FileSystem.ID, begun.Add(-settle), w.now())
	if err != nil {
		return err
	}
	return w.lost(&activity)
}

// unmake takes the file system away, and waits until it is gone.
func (w *work) unmake(ctx context.Context) error {
	f := w.record.FileSystem
	if f == nil || f.Gone {
		return nil
	}
	if f.ID == "" { // it was asked for, and no answer came
		if err := w.find(ctx); err != nil || f.ID == "" {
			return err
		}
	}
	if err := w.rest(ctx); err != nil {
		return err
	}
	if err := w.Cloud.Delete(ctx, f.ID, w.record.Token("gone", 1)); err != nil && !errors.Is(err, mover.ErrNotExist) {
		return err
	}
	w.tell("file system %s is being taken away", f.ID)
	err := w.Cloud.Await(ctx, func(ctx context.Context) (bool, error) {
		_, err := w.Cloud.FileSystem(ctx, f.ID)
		if errors.Is(err, mover.ErrNotExist) {
			return true, nil
		}
		return false, err
	})
	if err != nil {
		return err
	}
	f.Gone = true
	return w.keep()
}

// rest cancels what the file system still does, and waits for its end: one with a task can not be deleted. All that has to be home is.
func (w *work) rest(ctx context.Context) error {
	cancelled := map[string]bool{}
	return w.Cloud.Await(ctx, func(ctx context.Context) (over bool, err error) {
		tasks, err := w.Cloud.Tasks(ctx, w.record.FileSystem.ID)
		if errors.Is(err, mover.ErrNotExist) {
			return true, nil
		}
		over = true
		for _, t := range tasks {
			if t.Ended() {
				continue
			}
			over = false
			if !cancelled[t.ID] {
				cancelled[t.ID] = true
				w.tell("cancelling task %s of file system %s", t.ID, w.record.FileSystem.ID)
				if err := w.Cloud.Cancel(ctx, t.ID); err != nil && !errors.Is(err, mover.ErrNotExist) && !errors.Is(err, mover.ErrConflict) { // it has ended meanwhile
					return false, err
				}
			}
		}
		return over, err
	})
}

// findsMost is how often a file system is looked for of which no answer came: a listing may be behind.
const findsMost = 3

// find looks for the file system of a request when its answer never came.
func (w *work) find(ctx context.Context) error {
	looked := 0
	return w.Cloud.Await(ctx, func(ctx context.Context) (bool, error) {
		all, err := w.Cloud.FileSystems(ctx)
		if err != nil {
			return false, err
		}
		for _, fs := range all {
			if fs.Tags[burst.TagBurst] == w.record.ID {
				w.record.FileSystem.ID = fs.ID
				return true, w.keep()
			}
		}
		if looked++; looked < findsMost {
			return false, nil
		}
		w.record.FileSystem.Gone = true
		return true, w.keep()
	})
}

// empty removes what is in the bucket, each directory with its manifest, and nothing that is not below the prefix of the burst; and that only where the mark of the burst lies.
func (w *work) empty(ctx context.Context) error {
	if err := w.marked(ctx); err != nil {
		return err
	}
	all := []string{w.burst.Location(mark), w.burst.Spec.Cloud.Tier + ":" + w.burst.Prefix(), w.burst.Location(reports)}
	for _, h := range w.burst.Homeward() {
		all = append(all, w.burst.Location(h.Path))
	}
	for _, d := range w.burst.Spec.Data {
		all = append(all, w.burst.Location(d.To))
	}
	for _, text := range slices.Backward(all) { // the prefix last, and its mark
		at, err := w.Find(text)
		if err != nil {
			return err
		}
		if err := w.Way.Remove(ctx, at); err != nil && !errors.Is(err, mover.ErrNotExist) {
			return err
		}
	}
	return nil
}
