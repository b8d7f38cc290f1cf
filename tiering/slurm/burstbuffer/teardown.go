package burstbuffer

import (
	"context"
	"errors"
	"strings"
	"time"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/task"
	"datamove.dev/tiering/dataset/datasetclient"
	"datamove.dev/tiering/slurm"
)

// Teardown ends what was asked for a job: what it holds is let go, and what was to come to it comes no more. In a hurry nothing leaves
// its nodes any more; else what is on its way goes on, and what never began to leave stays. A mover that is away delays no job: the
// next teardown of any job tells it.
func (c *Controller) Teardown(ctx context.Context, job uint32, hurry bool) error {
	err := c.records().locked(func() error {
		x, err := c.Run(job)
		if err != nil {
			return err
		}
		return c.records().end(x, hurry)
	})
	if err != nil && !errors.Is(err, mover.ErrNotExist) { // such was ended before, or has asked for nothing
		return err
	}
	return c.sweep(ctx, job)
}

// Run is the run of a job that goes on; mover.ErrNotExist is none.
func (c *Controller) Run(job uint32) (Record, error) { return c.records().load(job, fileJob) }

// GiveUp is Teardown in a hurry of one run of a job, also of one that was torn down while something was asked for it still. Where another one has begun
// meanwhile, that one's In, or its Teardown, ends what is left of this one: it has the same holders.
func (c *Controller) GiveUp(ctx context.Context, x Record) error {
	return c.giveUp(ctx, x, func() bool { return true })
}

// giveUp does it where that may be done, under a lock, so that no other process changes it meanwhile.
func (c *Controller) giveUp(ctx context.Context, x Record, may func() bool) error {
	err := c.records().locked(func() error {
		if !may() {
			return nil
		}
		if now, err := c.Run(x.Job); err == nil && now.RunID() == x.RunID() {
			return c.records().end(x, true)
		}
		return c.records().hurry(x)
	})
	if err != nil {
		return err
	}
	return c.sweep(ctx, x.Job)
}

// sweep undoes what was asked for jobs that are over. What is wrong with one of them is told, and an error of that one alone.
func (c *Controller) sweep(ctx context.Context, job uint32) error {
	over, err := c.records().all(fileEnded)
	errs := []error{err, c.records().tidy(time.Now())}
	for _, f := range over {
		switch err := c.undone(ctx, f, c.idle); {
		case err == nil:
		case away(err):
			c.tell("job %d: will be undone later: %v", f.job, err)
			return errors.Join(errs...)
		case f.job == job:
			errs = append(errs, err)
		default:
			c.tell("job %d: %v", f.job, err)
		}
	}
	return errors.Join(errs...)
}

// idle says whether no run of a job goes on. Where one does, its In undoes what those before it have left: both have the same holders.
func (c *Controller) idle(job uint32) bool {
	_, err := c.Run(job)
	return errors.Is(err, mover.ErrNotExist)
}

// earlier undoes what was asked for runs of a job that are over, if that is to be done still.
func (c *Controller) earlier(ctx context.Context, job uint32) error {
	over, err := c.records().all(fileEnded)
	errs := []error{err}
	for _, f := range over {
		if f.job == job {
			errs = append(errs, c.undone(ctx, f, func(uint32) bool { return true }))
		}
	}
	return errors.Join(errs...)
}

// undone undoes what was asked for a run that is over, if it may. A run of the job that begins meanwhile waits for that in its In: what it asks for is
// not undone with it.
func (c *Controller) undone(ctx context.Context, f file, may func(job uint32) bool) error {
	letGo, err := c.records().claim(ctx, f)
	if errors.Is(err, mover.ErrNotExist) {
		return nil // another process has
	}
	if err != nil {
		return err
	}
	defer letGo()
	x, err := c.records().load(f.job, f.what)
	if errors.Is(err, mover.ErrNotExist) || !may(f.job) {
		return nil
	}
	if err != nil {
		return err
	}
	w := c.work(x)
	defer w.close()
	if err := w.undo(api.For(ctx, x.UID)); err != nil {
		return err
	}
	return c.records().drop(f.job, f.what)
}

// undo ends the tasks of a job, and then lets go of what it holds: what it waited for comes no more.
func (w *work) undo(ctx context.Context) error {
	client, err := w.stage.Client(ctx)
	if err == nil {
		err = w.cancel(ctx, client)
	}
	if err != nil {
		return err
	}
	for l, err := range client.Leases(ctx, &datamovev1.ListLeasesRequest{}) {
		if err != nil {
			return err
		}
		if !strings.HasPrefix(l.GetHolder(), w.own.Holder("")) || l.GetOwner().GetUid() != w.UID || w.others(l.GetLabels()) { // anybody can hold something in the name of a job
			continue
		}
		if _, err := client.DropLease(ctx, &datamovev1.DropLeaseRequest{Id: l.GetId()}); err != nil && !errors.Is(err, mover.ErrNotExist) {
			return err
		}
	}
	return nil
}

// cancel ends the tasks of a job that have not ended, but for what leaves, where there is no hurry.
func (w *work) cancel(ctx context.Context, client *api.Client) error {
	arriving, err := w.foreseeable()
	if err != nil {
		return err
	}
	var errs []error
	for t, err := range datasetclient.Tasks(ctx, client, &datamovev1.ListTasksRequest{Brief: true, Labels: w.own.Labels()}) {
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		if labels := t.GetSpec().GetLabels(); w.others(labels) || api.Ended(t.GetState()) || labels[slurm.Leaves] != "" && (!w.Hurry || labels[slurm.RunLabel] != w.RunID()) {
			continue
		}
		asks := []*datamovev1.CancelTaskRequest{{Id: t.GetId()}}
		if task.Of(t.GetSpec()).Shared { // others may want it, and this person for another job
			asks = nil
			for _, d := range arriving {
				warm := d
				warm.node = ""
				asks = append(asks, &datamovev1.CancelTaskRequest{Id: t.GetId(), Holder: w.holder(d)}, &datamovev1.CancelTaskRequest{Id: t.GetId(), Holder: w.holder(warm)})
			}
		}
		for _, ask := range asks {
			if _, err := client.CancelTask(ctx, ask); err != nil && !errors.Is(err, mover.ErrConflict) && !errors.Is(err, mover.ErrNotExist) { // it has just ended
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
