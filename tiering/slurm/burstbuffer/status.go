package burstbuffer

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/units"
	"datamove.dev/tiering/dataset/datasetclient"
	"datamove.dev/tiering/slurm"
)

// Status is a table of the jobs that have asked for something, and how far it is. Slurm's controller waits for it: a mover that does not answer at once is
// left out.
func (c *Controller) Status(ctx context.Context) (string, error) {
	jobs, err := c.records().all(fileJob)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, glance/2)
	defer cancel()
	client, err := c.Dial(ctx)
	if err == nil {
		defer client.Close()
	}
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "JOB\tUSER\tFOR\tASKED\tSTATE")
	for _, f := range jobs {
		job := f.job
		x, err := c.records().load(job, fileJob)
		if err != nil {
			fmt.Fprintf(table, "%d\t\t\t\t%s\n", job, mover.Printable(err.Error()))
			continue
		}
		how := "the mover does not answer"
		if client != nil {
			how = c.how(ctx, client, x)
		}
		if waits := c.waiting(job); waits != "" {
			how = waits
		}
		for i, line := range x.Asked.Summary() {
			if i == 0 {
				fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\n", job, mover.Printable(x.User), units.Duration(time.Since(x.Began)), line, how)
			} else {
				fmt.Fprintf(table, "\t\t\t%s\t\n", line)
			}
		}
	}
	err = table.Flush()
	return b.String(), err
}

// waiting is what a phase of a job waits for that is no task of it.
type waiting struct {
	For   string    `json:"for"`
	Since time.Time `json:"since"`
}

// waitsFor remembers that, for Status; "" is nothing.
func (w *work) waitsFor(what string) {
	if what == w.waits {
		return
	}
	w.waits = what
	err := w.records().drop(w.Job, fileWaits)
	if what != "" {
		err = w.records().write(w.Job, fileWaits, waiting{what, time.Now().UTC()})
	}
	if err != nil {
		w.tell("scontrol show bbstat does not show what it waits for: %v", err)
	}
}

// waiting tells it; "" is nothing.
func (c *Controller) waiting(job uint32) string {
	var w waiting
	if c.records().read(job, fileWaits, &w) != nil {
		return ""
	}
	return fmt.Sprintf("waits for %s: %s", units.Duration(time.Since(w.Since)), mover.Printable(w.For))
}

// how says how far the tasks of a job are: the first that has not ended.
func (c *Controller) how(ctx context.Context, client *api.Client, x Record) string {
	going, text, seen := 0, "", map[string]bool{}
	for t, err := range client.Tasks(ctx, &datamovev1.ListTasksRequest{Brief: true, Labels: c.labels(x.Job)}) {
		if err != nil {
			return "the mover does not answer"
		}
		if t.GetOwner().GetUid() != x.UID { // any account can set a label
			continue
		}
		copied := t.GetSpec().GetLabels()[slurm.CopyLabel]
		if copied != "" && seen[copied] {
			continue // of those that are the same copy, tried again, the newest comes first, and counts
		}
		seen[copied] = true
		switch {
		case t.GetState() == datamovev1.TaskState_TASK_STATE_RUNNING, t.GetState() == datamovev1.TaskState_TASK_STATE_QUEUED:
			if going++; text == "" {
				text = fmt.Sprintf("%s (task %s)", datasetclient.Progress(t), t.GetId())
			}
		case t.GetState() == datamovev1.TaskState_TASK_STATE_FAILED:
			if text == "" {
				text = fmt.Sprintf("failed: %s (task %s)", mover.Printable(t.GetError()), t.GetId())
			}
		}
	}
	if text == "" {
		text = "there is nothing to wait for"
	}
	if going > 1 {
		text += fmt.Sprintf(" and %d more", going-1)
	}
	return text
}
