// Package task has the command task, and what each command needs that begins a task: [Request], done in this process or by the service.
//
// It owns how a request is submitted once, followed over restarts of the service, cancelled with the command, and reported; the progress is shown by a [Watcher].
// Which files, and with which flags, is of the commands (files, dataset, burst). cmd/datamove/root TestInterruptThere, TestRestart and TestEnds show it against a service
// in memory.
package task

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	tasks "datamove.dev/mover/task"
	"datamove.dev/mover/task/convert"
	"datamove.dev/mover/units"
)

// Command is datamove task.
func Command(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "task",
		Short: "Look at the tasks of the service, and steer them",
		Long: `A task is a request that the service keeps until it is done: over restarts, dead
nodes and power cuts. copy, sync, verify, rm, stage and others begin one and wait
for it, or return at once with --detach.`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = a.Do(func(context.Context, []string) error { return cmd.Help() })
	cmd.AddCommand(listCommand(a), showCommand(a), watchCommand(a), waitCommand(a), whyCommand(a),
		changeCommand(a, "pause", "Stop work on tasks, and keep what is done", "A task that is paused stays so until it is resumed.",
			func(ctx context.Context, c *api.Client, id string) (*pb.Task, error) {
				return c.PauseTask(ctx, &pb.PauseTaskRequest{Id: id})
			}),
		changeCommand(a, "resume", "Put paused tasks back into the queue", "A task goes on where it stopped.",
			func(ctx context.Context, c *api.Client, id string) (*pb.Task, error) {
				return c.ResumeTask(ctx, &pb.ResumeTaskRequest{Id: id})
			}),
		changeCommand(a, "cancel", "End tasks; what they have published stays", "What is half done goes, and nothing of it was visible. The same request begins a new\ntask, which goes on from there.",
			func(ctx context.Context, c *api.Client, id string) (*pb.Task, error) {
				return c.CancelTask(ctx, &pb.CancelTaskRequest{Id: id})
			}))
	return cmd
}

// StateChoices are the states of tasks.
var StateChoices = []cli.Choice[pb.TaskState]{
	{Word: "queued", Value: pb.TaskState_TASK_STATE_QUEUED}, {Word: "running", Value: pb.TaskState_TASK_STATE_RUNNING}, {Word: "paused", Value: pb.TaskState_TASK_STATE_PAUSED},
	{Word: "done", Value: pb.TaskState_TASK_STATE_DONE}, {Word: "failed", Value: pb.TaskState_TASK_STATE_FAILED}, {Word: "cancelled", Value: pb.TaskState_TASK_STATE_CANCELLED},
}

// living are the states of tasks that have not ended.
var living = []pb.TaskState{pb.TaskState_TASK_STATE_QUEUED, pb.TaskState_TASK_STATE_RUNNING, pb.TaskState_TASK_STATE_PAUSED}

// parseStates reads a list of states.
func parseStates(s string) (states []pb.TaskState, err error) {
	for name := range strings.SplitSeq(s, ",") {
		var one pb.TaskState
		if err := (&cli.Chosen[pb.TaskState]{Dst: &one, Choices: StateChoices}).Set(strings.TrimSpace(name)); err != nil {
			return nil, err
		}
		states = append(states, one)
	}
	return states, nil
}

func listCommand(a *cli.App) *cobra.Command {
	var f cli.Format
	var all bool
	var slurmJob string
	l := listing
	req := &pb.ListTasksRequest{PageSize: 500, Brief: true}
	cmd := &cobra.Command{
		Use:   "list [flags]",
		Short: "List tasks, the newest first",
		Long: `List prints tasks that have not ended, or with --all or --state others as well:
your own, and for an operator those of everybody. They are printed as the service
sends them, however many there are.`,
		Example: `  datamove task list
  datamove task list --all --project vision
  datamove task list --slurm-job 4711 -o name | xargs datamove task cancel`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = a.Do(func(ctx context.Context, _ []string) error {
		switch {
		case all && req.States != nil:
			return mover.Misusef("--all and --state exclude each other")
		case !all && req.States == nil:
			req.States, l.None = living, "no tasks that have not ended; --all lists the others, too"
		}
		if slurmJob != "" {
			req.Labels = WithSlurmJob(a, req.Labels, slurmJob)
		}
		return a.AskService(ctx, cli.TaskList, func(c *api.Client) error { return cli.List(a, f, l, c.Tasks(ctx, req)) })
	})
	flags := cmd.Flags()
	cli.FormatVar(flags, &f, cli.ListFormats...)
	cli.ParsedVar(flags, &req.States, "state", parseStates, "only tasks in these `STATES`: queued,running,paused,done,failed,cancelled")
	flags.BoolVarP(&all, "all", "a", false, "also tasks that have ended")
	flags.StringVar(&req.Project, "project", "", "only tasks of this `PROJECT`")
	flags.StringVar(&req.Owner, "owner", "", "only tasks of this `PERSON`")
	LabelVar(flags, &req.Labels, "label", "only tasks with this label, `KEY=VALUE`; may be repeated")
	flags.StringVar(&slurmJob, "slurm-job", "", "only tasks that were begun in the Slurm job `ID`, or that it waits for")
	return cmd
}

// listing is how tasks are listed.
var listing = cli.Listing[*pb.Task]{
	What: "tasks",
	Columns: []cli.Column[*pb.Task]{
		{Head: "ID", Width: 20, Text: (*pb.Task).GetId},
		{Head: "STATE", Width: 9, Text: func(t *pb.Task) string { return cli.StateWord(t.GetState()) }},
		{Head: "OWNER", Width: 8, Text: func(t *pb.Task) string { return cli.OrDash(t.GetOwner().GetName()) }},
		{Head: "PROJECT", Width: 8, Text: func(t *pb.Task) string { return cli.OrDash(t.GetSpec().GetProject()) }},
		{Head: "PROGRESS", Width: -8, Text: percent},
		{Head: "RATE", Width: -10, Text: speed},
		{Head: "AGE", Width: -6, Text: func(t *pb.Task) string { return cli.Ago(t.GetCreateTime()) }},
		{Head: "WHAT", Width: 0, Text: what},
	},
	View:   viewOf,
	Name:   (*pb.Task).GetId,
	Colour: func(t *pb.Task) string { return stateColours[t.GetState()] },
}

var stateColours = map[pb.TaskState]string{
	pb.TaskState_TASK_STATE_DONE: cli.Green, pb.TaskState_TASK_STATE_PAUSED: cli.Yellow, pb.TaskState_TASK_STATE_FAILED: cli.Red,
}

// percent is how far a task is.
func percent(t *pb.Task) string {
	snap := convert.Snapshot(t.GetProgress())
	switch p := snap.Work(); {
	case t.GetState() == pb.TaskState_TASK_STATE_DONE:
		return "100%"
	case p.Complete && p.PlannedBytes > 0:
		return fmt.Sprintf("%d%%", 100*min(p.Bytes, p.PlannedBytes)/p.PlannedBytes)
	case p.Complete && p.PlannedFiles > 0:
		return fmt.Sprintf("%d%%", 100*min(p.Files, p.PlannedFiles)/p.PlannedFiles)
	case p.Bytes > 0:
		return units.Bytes(p.Bytes)
	}
	return "-"
}

// speed is how fast a task is.
func speed(t *pb.Task) string {
	if t.GetState() != pb.TaskState_TASK_STATE_RUNNING {
		return "-"
	}
	return units.PerSecond(t.GetProgress().GetBytesPerSecond())
}

// what is a task in one line.
func what(t *pb.Task) string {
	s := t.GetSpec()
	if b := s.GetBurst(); b != nil {
		return "burst " + strings.ReplaceAll(cli.Word(b.GetStep(), "BURST_STEP_"), "_", "-") + " " + mover.Printable(b.GetName())
	}
	words := []string{commandOf(s.GetKind())}
	sources := append([]string{s.GetSource()}, s.GetSources()...)
	if kind := tasks.Of(s); kind.Replica && kind.RemovesTarget {
		sources = nil // it names the copy that stays
	}
	for _, l := range sources {
		if l != "" {
			words = append(words, mover.Printable(l))
		}
		if len(words) > 4 {
			words = append(words, "…")
			break
		}
	}
	if s.GetTarget() != "" {
		if len(words) > 1 {
			words = append(words, "→")
		}
		words = append(words, mover.Printable(s.GetTarget()))
	}
	if tier := s.GetStaging().GetTier(); tier != "" && s.GetTarget() == "" {
		words = append(words, "on", mover.Printable(tier))
	}
	return strings.Join(words, " ")
}

// changeCommand makes a command that calls one method for each of its tasks.
func changeCommand(a *cli.App, verb, short, long string, call func(context.Context, *api.Client, string) (*pb.Task, error)) *cobra.Command {
	var f cli.Format
	cmd := &cobra.Command{
		Use:               verb + " [flags] ID...",
		Short:             short,
		Long:              short + ".\n\n" + long,
		Example:           "  datamove task " + verb + " 06c8fk2rjq7m1x0v4d5e",
		Args:              someIDs,
		ValidArgsFunction: completeTasks(a),
	}
	cmd.RunE = a.Do(func(ctx context.Context, ids []string) error {
		return a.AskService(ctx, cli.TaskList, func(c *api.Client) error {
			return cli.EachOf(ids, func(id string) (*pb.Task, error) { return call(ctx, c, id) }, a, f, changesListing)
		})
	})
	cli.FormatVar(cmd.Flags(), &f, cli.ListFormats...)
	return cmd
}

// changesListing is how tasks are listed that were changed.
var changesListing = cli.Listing[*pb.Task]{
	What: "tasks were changed",
	Columns: []cli.Column[*pb.Task]{
		{Head: "ID", Width: 20, Text: (*pb.Task).GetId},
		{Head: "STATE", Width: 0, Text: stateText},
	},
	View: listing.View,
	Name: listing.Name,
}

// someIDs wants one task or more.
var someIDs = cli.AtLeastOne("the id of a task, or several; datamove task list has them")

func completeTasks(a *cli.App) cobra.CompletionFunc {
	return cli.CompleteWith(a, func(ctx context.Context, c *api.Client) iter.Seq2[*pb.Task, error] {
		return c.Tasks(ctx, &pb.ListTasksRequest{PageSize: cli.MostCompletions, Brief: true})
	}, func(t *pb.Task) (string, string) { return t.GetId(), cli.StateWord(t.GetState()) + ": " + what(t) })
}
