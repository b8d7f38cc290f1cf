package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/units"
	"datamove.dev/tiering/burst"
	"datamove.dev/tiering/burst/link"
	"datamove.dev/tiering/burst/pricing"
	"datamove.dev/tiering/checkpoint"
)

// SyncBack brings home what jobs have saved, checkpoints first: what is only on the file system is exported, and the report of that read; then it comes over the link, and is verified by reading it here.
func (l *Manager) SyncBack(ctx context.Context, r *burst.Record) error {
	w, err := l.work(r)
	if err != nil {
		return err
	}
	if r.Ready.IsZero() || r.State == burst.Gone || r.State == burst.Leaving {
		return fmt.Errorf("%w: burst %s is %s: there is nothing to bring home", mover.ErrConflict, w.burst.Metadata.Name, r.State)
	}
	return w.ended(w.comeHome(ctx))
}

func (w *work) comeHome(ctx context.Context) error {
	if err := w.charge(ctx); err != nil {
		return err
	}
	begun := w.now()
	if err := w.export(ctx); err != nil {
		return err
	}
	var errs []error
	for _, c := range w.burst.Spec.Checkpoints {
		err := w.checkpoints(ctx, &c, begun)
		if errs = append(errs, err); stops(ctx, err) {
			return errors.Join(errs...)
		}
	}
	for _, d := range w.burst.Spec.Results {
		err := w.one(ctx, d.Path, d.Home, begun, nil, w.Way.Home)
		if errs = append(errs, err); stops(ctx, err) {
			return errors.Join(errs...)
		}
	}
	if err := errors.Join(errs...); err != nil || !w.Release {
		return err
	}
	return w.release(ctx)
}

// release gives back the space of directories of which all is home and verified: their contents are in the bucket, and come back when they are read.
func (w *work) release(ctx context.Context) error {
	if w.record.FileSystem == nil {
		return nil
	}
	paths := slices.DeleteFunc(w.homeward(), func(path string) bool {
		home := w.record.CameHome(burst.Path(path))
		return home == nil || !home.Verified
	})
	if len(paths) == 0 {
		return nil
	}
	done, err := w.task(ctx, burst.ReleaseWork, paths)
	if err == nil {
		w.tell("gave back the space of %s on the file system", units.Plural(done.Total, "file", "files"))
	}
	return err
}

func (w *work) homeward() (paths []string) {
	for _, h := range w.burst.Homeward() {
		paths = append(paths, string(h.Path))
	}
	return paths
}

// stops says whether what went wrong with one directory would go wrong with all.
func stops(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, mover.ErrRefused) || errors.Is(err, mover.ErrPermission)
}

// export has all that comes home be in the bucket. One of which a file failed ends it: that was never home.
func (w *work) export(ctx context.Context) error {
	if w.record.FileSystem == nil || w.record.FileSystem.ID == "" || w.record.FileSystem.Gone {
		return nil
	}
	paths := w.homeward()
	if len(paths) == 0 {
		return nil
	}
	if w.open(burst.ExportWork) != nil { // one that was begun before: what was written since is in the next
		if _, err := w.task(ctx, burst.ExportWork, paths); err != nil {
			return err
		}
	}
	done, err := w.task(ctx, burst.ExportWork, paths)
	if err != nil || done.Total == 0 {
		return err
	}
	w.tell("exported %s to the bucket", units.Plural(done.Total, "file", "files"))
	_, err = w.spend(ctx, done.ID, []pricing.Usage{{Rate: pricing.S3Put, Amount: pricing.Requests(done.Total), Why: "to export what was saved"}})
	return err
}

// checkpoints brings one directory of checkpoints home, and says as soon as it is seen that more work could be lost than may be.
func (w *work) checkpoints(ctx context.Context, c *burst.Checkpoint, begun time.Time) error {
	since := w.record.Ready
	if was := w.record.CameHome(c.Path); was != nil {
		since = was.At
	}
	said := false
	forecast := func(bytes int64) {
		left, late := c.Forecast(bytes, w.now().Sub(begun), w.now().Sub(since))
		if late && !said {
			said = true
			w.tell("warning: %s: what was saved since %s is not home, and is there in %s at the rate of now: %s may be lost at most", c.Path, units.Duration(w.now().Sub(since)), units.Duration(left), units.Duration(c.Objective()))
		}
	}
	err := w.one(ctx, c.Path, c.Home, begun, forecast, func(ctx context.Context, from, to place, toll link.CostGate) (link.Moved, error) {
		return w.Way.Checkpoints(ctx, from, to, checkpoint.Profile(c.Profile), begun, toll)
	})
	if late := w.now().Sub(since); late > c.Objective() {
		w.tell("warning: %s: what was saved since %s ago was not home, and %s may be lost at most", c.Path, units.Duration(late), units.Duration(c.Objective()))
	}
	return err
}

// one brings one directory home.
func (w *work) one(ctx context.Context, path burst.Path, text string, begun time.Time, seen func(int64), bring func(ctx context.Context, from, to place, toll link.CostGate) (link.Moved, error)) error {
	from, err := w.cloudly(path)
	if err != nil {
		return err
	}
	to, err := w.home(text)
	if err != nil {
		return err
	}
	toll := w.toll(w.burst.Spec.Link.Egress(), pricing.S3Get)
	toll.seen = seen
	moved, err := bring(ctx, from, to, toll.pass)
	if err = errors.Join(err, toll.close(ctx)); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	left := slices.DeleteFunc(moved.Left, func(why string) bool { return w.record.GaveUp(path, burst.LeftName(why)) })
	w.record.Come(burst.Homecame{Path: path, At: begun, Files: moved.Files, Bytes: moved.Bytes, Sent: moved.Sent, Verified: len(left) == 0, Left: left, Took: moved.Took.Seconds()})
	w.tell("%s is home: %s in %s, verified by reading; %s came now", path, units.Bytes(moved.Bytes), units.Plural(moved.Files, "file", "files"), units.Bytes(moved.Sent))
	for _, why := range left {
		w.tell("warning: %s/%s", path, why)
	}
	return errors.Join(w.running(ctx, string(path), pricing.S3Standard, moved.Bytes, w.now()), w.keep())
}
