package task

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	tasks "datamove.dev/mover/task"
	"datamove.dev/mover/units"
)

func waitCommand(a *cli.App) *cobra.Command {
	var f cli.Format
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait [flags] ID...",
		Short: "Wait until tasks have ended, and end as they did",
		Long: `Wait ends with the exit code of the task: the one that the command would have had
that began it. Of several tasks the gravest counts. With --timeout it ends with 10
when one of them has not ended by then; the tasks go on.`,
		Example: `  datamove task wait 06c8fk2rjq7m1x0v4d5e
  id=$(datamove copy --detach /data archive:data) && datamove task wait --timeout 1h $id`,
		Args:              someIDs,
		ValidArgsFunction: completeTasks(a),
	}
	cmd.RunE = a.Do(func(ctx context.Context, ids []string) error {
		return a.AskService(ctx, cli.TaskList, func(c *api.Client) error {
			w := &waiting{client: c, ids: ids, timeout: timeout}
			if err := cli.List(a, f, endsListing, w.ends(ctx)); err != nil {
				return err
			}
			return w.end()
		})
	})
	cli.FormatVar(cmd.Flags(), &f, cli.ListFormats...)
	cli.ParsedVar(cmd.Flags(), &timeout, "timeout", units.ParseSpan, "wait at most this `TIME`, like 90s, 1h or 2d (default: for ever)")
	return cmd
}

// endsListing is how tasks are listed that have ended.
var endsListing = cli.Listing[*pb.Task]{
	What: "tasks",
	Columns: []cli.Column[*pb.Task]{
		{Head: "ID", Width: 20, Text: (*pb.Task).GetId},
		{Head: "STATE", Width: 9, Text: func(t *pb.Task) string { return cli.StateWord(t.GetState()) }},
		{Head: "EXIT", Width: -4, Text: func(t *pb.Task) string { return fmt.Sprint(t.GetExitCode()) }},
		{Head: "WHAT", Width: 0, Text: what},
	},
	View:   listing.View,
	Name:   listing.Name,
	Colour: listing.Colour,
}

// waiting is a command that waits for tasks.
type waiting struct {
	client  *api.Client
	ids     []string
	timeout time.Duration // 0 is none
	code    int           // the gravest
	failed  []string      // what to say of those that did not do all
}

// ends yields each task when it has ended.
func (w *waiting) ends(ctx context.Context) func(func(*pb.Task, error) bool) {
	return func(yield func(*pb.Task, error) bool) {
		for _, err := range getTasks(ctx, w.client, w.ids) { // a misspelt one is found at once
			if err != nil {
				yield(nil, err)
				return
			}
		}
		if w.timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, w.timeout, errWaited)
			defer cancel()
		}
		for _, id := range w.ids {
			t, err := w.client.Wait(ctx, id, nil)
			if err == nil {
				w.ended(t)
			} else {
				err = fmt.Errorf("wait for task %s: %w", id, err)
			}
			if !yield(t, err) || err != nil {
				return
			}
		}
	}
}

// ended remembers how a task has ended.
func (w *waiting) ended(t *pb.Task) {
	err := EndError(t)
	if err == nil {
		return
	}
	w.code = cli.GraverExit(w.code, cli.ExitCode(err))
	w.failed = append(w.failed, cli.Shown(fmt.Sprintf("task %s: %s", t.GetId(), failureText(t, err))))
}

// errWaited is the end of the time to wait.
var errWaited = fmt.Errorf("%w: it has not ended, and goes on", mover.ErrTimeout)

// end is the error of all that were waited for.
func (w *waiting) end() error {
	if w.code == 0 {
		return nil
	}
	e := &cli.EndedError{Text: strings.Join(w.failed, "\n"), Code: w.code}
	return cli.Advise(e, "datamove task show "+strings.Join(w.ids, " "))
}

// failureText says why a task did not do all.
func failureText(t *pb.Task, err error) string {
	if t.GetState() == pb.TaskState_TASK_STATE_CANCELLED {
		return stateText(t)
	}
	if failed := t.GetReport().GetFailed(); failed > 0 {
		return (&cli.PartialError{Failed: failed, Differ: tasks.Of(t.GetSpec()).ReadOnly}).Error()
	}
	return err.Error()
}
