package burstbuffer

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/location"
	"datamove.dev/tiering/slurm"
	"datamove.dev/tiering/slurm/directive"
)

// followPatience is how long a job waits until what earlier ones leave is asked for: longer than they wait to hear how they have ended.
const followPatience = 2 * exitPatience

// follow waits until all is asked for that jobs which have ended leave where this one reads. From then on the mover has this one wait for it: Slurm lets a job
// begin that depends on another one while that one's data_out goes on.
func (w *work) follow(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, followPatience)
	defer cancel()
	for {
		before := w.departing()
		if before == 0 {
			w.waitsFor("")
			return
		}
		w.waitsFor(fmt.Sprintf("job %d has ended, and is about to say what it leaves where this one reads: %s at most", before, followPatience))
		select {
		case <-ctx.Done():
			w.tell("job %d has ended, and what it leaves is not asked for yet: what this job stages in may be older", before)
			return
		case <-time.After(placePause):
		}
	}
}

// departing is another job that has ended and leaves something where this one reads, and has not asked for that yet; 0 is none.
func (w *work) departing() uint32 {
	all, err := w.records().all(fileLeaves)
	if err != nil {
		return 0
	}
	for _, f := range all {
		if x, err := w.Controller.Run(f.job); err == nil && f.job != w.Job && w.leadsTo(x.Asked, w.Asked) {
			return f.job
		}
	}
	return 0
}

// leadsTo says whether something of a job may go where another one reads.
func (c *Controller) leadsTo(a, b directive.Job) bool {
	for _, verb := range []directive.Verb{directive.StageOut, directive.Checkpoint} {
		for out := range a.Of(verb) {
			for in := range b.Of(directive.StageIn) {
				for _, to := range out.To {
					if !in.From.IsDataset() && overlap(c.spelled(to), c.spelled(in.From)) {
						return true
					}
				}
			}
		}
	}
	return false
}

// spelled is a location as far as it is the same for every job, in one spelling.
func (c *Controller) spelled(l location.Location) string {
	text := l.Path
	if t := c.Config.Tiers[l.Tier]; l.InStore() {
		text = "//" + l.Bucket + "/" + l.Prefix
	} else if l.InTier() && t.S3 != nil {
		text = "//" + t.S3.Bucket + "/" + path.Join(t.S3.Prefix, l.Path)
	} else if l.InTier() {
		text = path.Join(t.Path, l.Path)
	}
	return strings.TrimSuffix(known(text), "/")
}

// overlap says whether one of two places lies in the other.
func overlap(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}

// unbroken is an error where earlier jobs of the same user were to bring data to where this one reads, and have failed. Slurm holds the job then. It is said once: a job that a person
// releases goes on.
func (w *work) unbroken(ctx context.Context) error {
	var told []string
	if err := w.records().read(w.Job, fileTold, &told); err != nil && !errors.Is(err, mover.ErrNotExist) {
		return err
	}
	all, err := w.records().all(fileJob)
	if err != nil {
		return err
	}
	known := len(told)
	var errs []error
	var late error
	for _, f := range all {
		x, err := w.Controller.Run(f.job)
		if err != nil || f.job == w.Job || x.UID != w.UID || !w.leadsTo(x.Asked, w.Asked) {
			continue
		}
		broken, leaving, err := w.broken(ctx, x)
		if err != nil {
			return err
		}
		late = errors.Join(late, leaving)
		for _, t := range broken {
			if !slices.Contains(told, t.GetId()) {
				told = append(told, t.GetId())
				errs = append(errs, fmt.Errorf("%w: job %d has not brought to %s what this job reads: task %s is %s: %s; bring it there, or do without it, and release the job",
					mover.ErrRefused, f.job, mover.Printable(t.GetSpec().GetTarget()), t.GetId(), strings.ToLower(strings.TrimPrefix(t.GetState().String(), "TASK_STATE_")), t.GetError()))
			}
		}
	}
	if len(told) == known {
		return late
	}
	return errors.Join(append(errs, w.records().write(w.Job, fileTold, told))...)
}

// broken are the copies of a run of an earlier job that have failed, of what leaves to where this one reads; of those that were begun again the last one counts. late is an error of
// kind [mover.ErrTransient] for checkpoints that leave its nodes after its end.
func (w *work) broken(ctx context.Context, x Record) (all []*datamovev1.Task, late, err error) {
	client, err := w.stage.Client(ctx)
	if err != nil {
		return nil, nil, err
	}
	seen := map[string]bool{}
	for t, err := range client.Tasks(ctx, &datamovev1.ListTasksRequest{PageSize: 1000, Brief: true, Labels: w.labels(x.Job)}) { // the newest first
		if err != nil {
			return nil, nil, err
		}
		labels := t.GetSpec().GetLabels()
		key, leaves := labels[slurm.CopyLabel], labels[slurm.Leaves]
		if w.others(labels) || leaves == "" || leaves == slurm.AllNodes || !x.its(t) || seen[key] || !w.reads(t.GetSpec().GetTarget()) {
			continue
		}
		seen[key] = true
		switch part := labels[slurm.PartLabel]; {
		case part == slurm.Watch && !api.Ended(t.GetState()) && w.hasEnded(x):
			late = fmt.Errorf("%w: job %d has ended, and its checkpoints are leaving %s for %s still (task %s)", mover.ErrTransient, x.Job, mover.Printable(leaves), mover.Printable(t.GetSpec().GetTarget()), t.GetId())
		case part == slurm.Watch, part == slurm.Space:
		case part != "" && t.GetState() == datamovev1.TaskState_TASK_STATE_FAILED && !lasts(t): // its node tries again
		case api.Ended(t.GetState()) && t.GetState() != datamovev1.TaskState_TASK_STATE_DONE:
			all = append(all, t)
		}
	}
	return all, late, nil
}

// its says whether a task is one of a run of a job. What a node has asked for itself, for checkpoints, does not name the run.
func (x Record) its(t *datamovev1.Task) bool {
	run, part := t.GetSpec().GetLabels()[slurm.RunLabel], t.GetSpec().GetLabels()[slurm.PartLabel]
	return run == x.RunID() || run == "" && part != "" && !t.GetCreateTime().AsTime().Before(x.Began)
}

// hasEnded says whether a run of a job has ended, as far as Slurm has told.
func (w *work) hasEnded(x Record) bool {
	var e End
	return w.records().read(x.Job, fileEnd, &e) == nil
}

// reads says whether the job reads where a task has brought something.
func (w *work) reads(target string) bool {
	to, err := location.Parse(target)
	if err != nil {
		return false
	}
	for in := range w.Asked.Of(directive.StageIn) {
		if !in.From.IsDataset() && overlap(w.spelled(to), w.spelled(in.From)) {
			return true
		}
	}
	return false
}
