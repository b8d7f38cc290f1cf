package cli

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	tasks "datamove.dev/mover/task"
	"datamove.dev/mover/task/convert"
	"datamove.dev/mover/units"
)

func (a *app) taskCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "task",
		Short: "Look at the tasks of the service, and steer them",
		Long: `A task is a request that the service keeps until it is done: over restarts, dead
nodes and power cuts. copy, sync, verify, rm, stage and others begin one and wait
for it, or return at once with --detach.`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = a.do(func(context.Context, []string) error { return cmd.Help() })
	cmd.AddCommand(a.taskList(), a.taskShow(), a.taskWatch(), a.taskWait(), a.taskWhy(),
		a.taskChange("pause", "Stop work on tasks, and keep what is done", "A task that is paused stays so until it is resumed.",
			func(ctx context.Context, c *api.Client, id string) (*pb.Task, error) {
				return c.PauseTask(ctx, &pb.PauseTaskRequest{Id: id})
			}),
		a.taskChange("resume", "Put paused tasks back into the queue", "A task goes on where it stopped.",
			func(ctx context.Context, c *api.Client, id string) (*pb.Task, error) {
				return c.ResumeTask(ctx, &pb.ResumeTaskRequest{Id: id})
			}),
		a.taskChange("cancel", "End tasks; what they have published stays", "What is half done goes, and nothing of it was visible. The same request begins a new\ntask, which goes on from there.",
			func(ctx context.Context, c *api.Client, id string) (*pb.Task, error) {
				return c.CancelTask(ctx, &pb.CancelTaskRequest{Id: id})
			}))
	return cmd
}

// stateChoices are the states of tasks.
var stateChoices = []choice[pb.TaskState]{
	{"queued", pb.TaskState_TASK_STATE_QUEUED}, {"running", pb.TaskState_TASK_STATE_RUNNING}, {"paused", pb.TaskState_TASK_STATE_PAUSED},
	{"done", pb.TaskState_TASK_STATE_DONE}, {"failed", pb.TaskState_TASK_STATE_FAILED}, {"cancelled", pb.TaskState_TASK_STATE_CANCELLED},
}

// living are the states of tasks that have not ended.
var living = []pb.TaskState{pb.TaskState_TASK_STATE_QUEUED, pb.TaskState_TASK_STATE_RUNNING, pb.TaskState_TASK_STATE_PAUSED}

// parseStates reads a list of states.
func parseStates(s string) (states []pb.TaskState, err error) {
	for name := range strings.SplitSeq(s, ",") {
		var one pb.TaskState
		if err := (&chosen[pb.TaskState]{dst: &one, choices: stateChoices}).Set(strings.TrimSpace(name)); err != nil {
			return nil, err
		}
		states = append(states, one)
	}
	return states, nil
}

func (a *app) taskList() *cobra.Command {
	var f format
	var all bool
	var slurmJob string
	l := tasksListing
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
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		switch {
		case all && req.States != nil:
			return mover.Misusef("--all and --state exclude each other")
		case !all && req.States == nil:
			req.States, l.none = living, "no tasks that have not ended; --all lists the others, too"
		}
		if slurmJob != "" {
			req.Labels = a.ofSlurmJob(req.Labels, slurmJob)
		}
		return a.ask(ctx, listTasks, func(c *api.Client) error { return list(a, f, l, c.Tasks(ctx, req)) })
	})
	flags := cmd.Flags()
	formatVar(flags, &f, listFormats...)
	parsedVar(flags, &req.States, "state", parseStates, "only tasks in these `STATES`: queued,running,paused,done,failed,cancelled")
	flags.BoolVarP(&all, "all", "a", false, "also tasks that have ended")
	flags.StringVar(&req.Project, "project", "", "only tasks of this `PROJECT`")
	flags.StringVar(&req.Owner, "owner", "", "only tasks of this `PERSON`")
	labelVar(flags, &req.Labels, "label", "only tasks with this label, `KEY=VALUE`; may be repeated")
	flags.StringVar(&slurmJob, "slurm-job", "", "only tasks that were begun in the Slurm job `ID`, or that it waits for")
	return cmd
}

// tasksListing is how tasks are listed.
var tasksListing = listing[*pb.Task]{
	what: "tasks",
	columns: []column[*pb.Task]{
		{"ID", 20, (*pb.Task).GetId},
		{"STATE", 9, func(t *pb.Task) string { return stateWord(t.GetState()) }},
		{"OWNER", 8, func(t *pb.Task) string { return known(t.GetOwner().GetName()) }},
		{"PROJECT", 8, func(t *pb.Task) string { return known(t.GetSpec().GetProject()) }},
		{"PROGRESS", -8, percent},
		{"RATE", -10, speed},
		{"AGE", -6, func(t *pb.Task) string { return ago(t.GetCreateTime()) }},
		{"WHAT", 0, what},
	},
	view:   func(t *pb.Task) any { return viewTask(t) },
	name:   (*pb.Task).GetId,
	colour: func(t *pb.Task) string { return stateColours[t.GetState()] },
}

var stateColours = map[pb.TaskState]string{
	pb.TaskState_TASK_STATE_DONE: green, pb.TaskState_TASK_STATE_PAUSED: yellow, pb.TaskState_TASK_STATE_FAILED: red,
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
		return "burst " + strings.ReplaceAll(word(b.GetStep(), "BURST_STEP_"), "_", "-") + " " + mover.Printable(b.GetName())
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

// taskChange makes a command that calls one method for each of its tasks.
func (a *app) taskChange(verb, short, long string, call func(context.Context, *api.Client, string) (*pb.Task, error)) *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use:               verb + " [flags] ID...",
		Short:             short,
		Long:              short + ".\n\n" + long,
		Example:           "  datamove task " + verb + " 06c8fk2rjq7m1x0v4d5e",
		Args:              someIDs,
		ValidArgsFunction: a.completeTasks(),
	}
	cmd.RunE = a.do(func(ctx context.Context, ids []string) error {
		return a.ask(ctx, listTasks, func(c *api.Client) error {
			return eachOf(ids, func(id string) (*pb.Task, error) { return call(ctx, c, id) }, a, f, changesListing)
		})
	})
	formatVar(cmd.Flags(), &f, listFormats...)
	return cmd
}

// changesListing is how tasks are listed that were changed.
var changesListing = listing[*pb.Task]{
	what: "tasks were changed",
	columns: []column[*pb.Task]{
		{"ID", 20, (*pb.Task).GetId},
		{"STATE", 0, stateText},
	},
	view: tasksListing.view,
	name: tasksListing.name,
}

// someIDs wants one task or more.
var someIDs = some("the id of a task, or several; datamove task list has them")

func (a *app) completeTasks() cobra.CompletionFunc {
	return completeWith(a, func(ctx context.Context, c *api.Client) iter.Seq2[*pb.Task, error] {
		return c.Tasks(ctx, &pb.ListTasksRequest{PageSize: mostWords, Brief: true})
	}, func(t *pb.Task) (string, string) { return t.GetId(), stateWord(t.GetState()) + ": " + what(t) })
}
