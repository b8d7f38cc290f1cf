package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/progress"
)

func (a *app) taskWatch() *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use:   "watch [flags] ID",
		Short: "Follow a task until it has ended",
		Long: `Watch shows a task live on a terminal; elsewhere it prints a line whenever the
state changes, and every ten seconds while bytes move. With -o jsonl every change
that the service tells is a line. ^C ends the watching, and not the task. The exit
code is 0 however the task has ended; datamove task wait ends as the task did.`,
		Example:           "  datamove task watch 06c8fk2rjq7m1x0v4d5e",
		Args:              exactly(1, "the id of one task"),
		ValidArgsFunction: a.completeTasks(),
	}
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		return a.ask(ctx, listTasks, func(c *api.Client) error {
			if f == formatJSONL {
				return a.watchLines(ctx, c, args[0])
			}
			return a.watch(ctx, c, args[0])
		})
	})
	formatVar(cmd.Flags(), &f, formatTable, formatJSONL)
	return cmd
}

// watchLines prints every change as an object.
func (a *app) watchLines(ctx context.Context, c *api.Client, id string) error {
	out := newLines(a.out)
	_, err := c.Wait(ctx, id, func(t *pb.Task) {
		out.JSON(viewTask(t))
		_ = out.Flush() // the error stays and is found at the end
	})
	if err != nil {
		return err
	}
	return out.Flush()
}

// watch shows a task to a person.
func (a *app) watch(ctx context.Context, c *api.Client, id string) error {
	hear, stop := a.display()
	last, err := c.Wait(ctx, id, hear)
	stop()
	if err != nil {
		return err
	}
	out := newLines(a.out)
	out.Printf("%s  %s", shown(last.GetId()), a.coloured(stateColours[last.GetState()], shown(stateText(last))))
	if last.GetReport() != nil {
		printEnd(out, last)
	}
	return out.Flush()
}

// display is where a task is seen that is watched: live, or as lines.
func (a *app) display() (hear func(*pb.Task), stop func()) {
	f, ok := a.terminal(a.out)
	if !ok {
		p := &changes{app: a}
		return p.hear, func() {}
	}
	w := &watcher{task: &task{app: a, command: "task: watch"}}
	live := &remote{}
	w.sees(live)
	d := progress.Start(a.out, progress.Options{Terminal: true, Width: columns(f)}, w.sample)
	w.screen = d
	return func(t *pb.Task) { live.hear(t); w.hear(t) }, d.Stop
}

// changes prints a line for each change that a person wants to know of.
type changes struct {
	app  *app
	last string
	at   time.Time // of the last line
}

// progressEvery is how often lines tell of bytes that move.
const progressEvery = 10 * time.Second

func (p *changes) hear(t *pb.Task) {
	state := stateText(t)
	if api.Ended(t.GetState()) || state == p.last && time.Since(p.at) < progressEvery {
		return
	}
	p.last, p.at = state, time.Now()
	line := p.at.Format(time.TimeOnly) + "  " + state
	if counts := countsText(t.GetProgress()); counts != "" {
		line += "  " + counts
	}
	fmt.Fprintln(p.app.out, shown(line)) // an error is found at the end
}
