package burstbuffer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/task"
	"datamove.dev/tiering/slurm"
)

const (
	commentPatience = 5 * time.Second // for an answer of Slurm's
	commentRuns     = 8               // of a job, of which its comment tells: others write there, too
)

// moved is what was moved for a run of a job.
type moved struct{ tasks, files, bytes int64 }

// movedBy sums up tasks of a run: those that bring something in, or away.
func movedBy(t *datamovev1.Task, began time.Time, out bool) (m moved) {
	labels := t.GetSpec().GetLabels()
	leaves := labels[slurm.Leaves]
	switch {
	case !task.Of(t.GetSpec()).Brings(), leaves == slurm.AllNodes, (leaves != "") != out, labels[slurm.PartLabel] == slurm.Space, labels[slurm.PartLabel] == slurm.Watch, t.GetCreateTime().AsTime().Before(began.Truncate(time.Millisecond)):
		return m
	}
	return moved{1, t.GetReport().GetFiles(), t.GetReport().GetBytes()}
}

// account writes once for each run of a job what was brought in for it, or away, where Slurm keeps it with the job. A failure harms no job.
func (w *work) account(ctx context.Context, out bool) {
	what := "in"
	if out {
		what = "out"
	}
	if err := w.accounted(ctx, what, out); err != nil {
		w.tell("Slurm's comment of the job does not say what was staged %s: %v", what, err)
	}
}

func (w *work) accounted(ctx context.Context, what string, out bool) error {
	var p Place
	if err := w.records().read(w.Job, filePlace, &p); w.Comment == nil || errors.Is(err, mover.ErrNotExist) || p.Count >= commentRuns {
		return nil
	} else if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(api.For(context.WithoutCancel(ctx), w.UID), commentPatience)
	defer cancel()
	client, err := w.stage.Client(ctx)
	if err != nil {
		return err
	}
	var sum moved
	for t, err := range client.Tasks(ctx, &datamovev1.ListTasksRequest{Labels: w.own.Labels()}) {
		if err != nil {
			return err
		}
		m := movedBy(t, w.Began, out)
		sum = moved{sum.tasks + m.tasks, sum.files + m.files, sum.bytes + m.bytes}
	}
	if sum.tasks == 0 {
		return nil
	}
	var told []string
	if err := w.records().read(w.Job, fileAccount, &told); err != nil && !errors.Is(err, mover.ErrNotExist) {
		return err
	}
	if slices.Contains(told, what) {
		return nil
	}
	if err := w.records().write(w.Job, fileAccount, append(told, what)); err != nil {
		return err
	}
	text := fmt.Sprintf("datamove staged %s: %d bytes in %d files", what, sum.bytes, sum.files)
	if p.Count > 0 {
		text += fmt.Sprintf(" (restart %d)", p.Count)
	}
	return w.Comment(ctx, w.slurmID(p), text, out)
}

// slurmID is the job for Slurm's commands, to which the number of the first task of an array means all of them.
func (w *work) slurmID(p Place) string {
	if p.Array != "" && p.Task != "" {
		return p.Array + "_" + p.Task
	}
	return strconv.FormatUint(uint64(w.Job), 10)
}
