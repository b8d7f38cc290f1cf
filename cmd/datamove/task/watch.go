package task

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/cmd/datamove/progress"
)

func watchCommand(a *cli.App) *cobra.Command {
	var f cli.Format
	cmd := &cobra.Command{
		Use:   "watch [flags] ID",
		Short: "Follow a task until it has ended",
		Long: `Watch shows a task live on a terminal; elsewhere it prints a line whenever the
state changes, and every ten seconds while bytes move. With -o jsonl every change
that the service tells is a line. ^C ends the watching, and not the task. The exit
code is 0 however the task has ended; datamove task wait ends as the task did.`,
		Example:           "  datamove task watch 06c8fk2rjq7m1x0v4d5e",
		Args:              cli.Exactly(1, "the id of one task"),
		ValidArgsFunction: completeTasks(a),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		return a.AskService(ctx, cli.TaskList, func(c *api.Client) error {
			if f == cli.FormatJSONL {
				return watchLines(ctx, a, c, args[0])
			}
			return watch(ctx, a, c, args[0])
		})
	})
	cli.FormatVar(cmd.Flags(), &f, cli.FormatTable, cli.FormatJSONL)
	return cmd
}

// watchLines prints every change as an object.
func watchLines(ctx context.Context, a *cli.App, c *api.Client, id string) error {
	out := cli.NewLines(a.Out)
	_, err := c.Wait(ctx, id, func(t *pb.Task) {
		out.JSON(viewOf(t))
		_ = out.Flush() // the error stays and is found at the end
	})
	if err != nil {
		return err
	}
	return out.Flush()
}

// watch shows a task to a person.
func watch(ctx context.Context, a *cli.App, c *api.Client, id string) error {
	hear, stop := display(a)
	last, err := c.Wait(ctx, id, hear)
	stop()
	if err != nil {
		return err
	}
	out := cli.NewLines(a.Out)
	out.Printf("%s  %s", cli.Shown(last.GetId()), a.Coloured(stateColours[last.GetState()], cli.Shown(stateText(last))))
	if last.GetReport() != nil {
		printEnd(out, last)
	}
	return out.Flush()
}

// display is where a task is seen that is watched: live, or as lines.
func display(a *cli.App) (hear func(*pb.Task), stop func()) {
	f, ok := a.Terminal(a.Out)
	if !ok {
		p := &changes{app: a}
		return p.hear, func() {}
	}
	w := &Watcher{Task: &Request{App: a, Command: "task: watch"}}
	live := &remote{}
	w.Show(live)
	d := progress.Start(a.Out, progress.Options{Terminal: true, Width: cli.TerminalWidth(f)}, w.sample)
	w.Screen = d
	return func(t *pb.Task) { live.hear(t); w.hear(t) }, d.Stop
}

// changes prints a line for each change that a person wants to know of.
type changes struct {
	app  *cli.App
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
	fmt.Fprintln(p.app.Out, cli.Shown(line)) // an error is found at the end
}
