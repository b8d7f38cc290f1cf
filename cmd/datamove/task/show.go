package task

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/mover/task/convert"
	"datamove.dev/mover/units"
)

const schemaExplanation = "datamove.explanation/v1"

func showCommand(a *cli.App) *cobra.Command {
	var f cli.Format
	cmd := &cobra.Command{
		Use:               "show [flags] ID...",
		Short:             "Print all that is known of tasks",
		Example:           "  datamove task show 06c8fk2rjq7m1x0v4d5e",
		Args:              someIDs,
		ValidArgsFunction: completeTasks(a),
	}
	cmd.RunE = a.Do(func(ctx context.Context, ids []string) error {
		return a.AskService(ctx, cli.TaskList, func(c *api.Client) error {
			tasks := getTasks(ctx, c, ids)
			if f != cli.FormatTable {
				if len(ids) == 1 && f != cli.FormatName {
					return cli.ForEach(tasks, func(t *pb.Task) error { return cli.WriteOne(a.Out, f, viewOf(t)) })
				}
				return cli.List(a, f, listing, tasks)
			}
			return cli.ForEach(tasks, func(t *pb.Task) error { return printTask(a, t) })
		})
	})
	cli.FormatVar(cmd.Flags(), &f, cli.ListFormats...)
	return cmd
}

// getTasks gets tasks by their ids.
func getTasks(ctx context.Context, c *api.Client, ids []string) iter.Seq2[*pb.Task, error] {
	return func(yield func(*pb.Task, error) bool) {
		for _, id := range ids {
			t, err := c.GetTask(ctx, &pb.GetTaskRequest{Id: id})
			if !yield(t, err) || err != nil {
				return
			}
		}
	}
}

// printTask tells a person all of a task.
func printTask(a *cli.App, t *pb.Task) error {
	out := cli.NewLines(a.Out)
	field := func(name, text string) {
		if text != "" {
			out.Printf("%-9s %s", name, cli.Shown(text))
		}
	}
	out.Printf("%-9s %s", "task", cli.Shown(t.GetId()))
	out.Printf("%-9s %s", "state", a.Coloured(stateColours[t.GetState()], cli.Shown(stateText(t))))
	field("what", what(t))
	field("dataset", t.GetDataset())
	field("owner", ownerText(t))
	field("labels", labelsText(t.GetSpec().GetLabels()))
	field("agent", agentText(t))
	field("times", timesText(t))
	if !api.Ended(t.GetState()) {
		field("progress", countsText(t.GetProgress()))
		for _, slow := range t.GetProgress().GetSlowest() {
			field("slowest", fmt.Sprintf("%s %s %s", units.Duration(slow.GetSince().AsDuration()), mover.Printable(string(slow.GetName())), inBrackets(slow.GetAgent())))
		}
	}
	field("error", t.GetError())
	field("try", t.GetReport().GetRemedy())
	if t.GetReport() != nil {
		printEnd(out, t)
	}
	return out.Flush()
}

// printEnd prints the report of a task, as the command did that waited for it.
func printEnd(out *cli.Lines, t *pb.Task) {
	report := convert.LocalReport(t.GetReport())
	var b strings.Builder
	PrintSummary(&b, commandOf(t.GetSpec().GetKind()), report)
	for _, it := range report.Failures[:min(len(report.Failures), maxShown)] {
		printList(&b, "failed", []string{cli.Shown(it.Err.Error())})
	}
	if more := report.Failed - int64(min(len(report.Failures), maxShown)); more > 0 {
		printList(&b, "failed", []string{units.Count(more) + " more; -o json names the first 1,000"})
	}
	out.Raw(b.String())
}

// stateText is the state of a task with its phase, and why.
func stateText(t *pb.Task) string {
	text := cli.StateWord(t.GetState())
	if t.GetState() == pb.TaskState_TASK_STATE_RUNNING && t.GetPhase() != "" {
		text += ", " + t.GetPhase()
	}
	if t.GetWhy() != "" {
		text += ": " + t.GetWhy()
	}
	if api.Ended(t.GetState()) {
		text += fmt.Sprintf(" (exit %d)", t.GetExitCode())
	}
	return text
}

func ownerText(t *pb.Task) string {
	text := fmt.Sprintf("%s (uid %d)", cmp.Or(t.GetOwner().GetName(), "-"), t.GetOwner().GetUid())
	if p := t.GetSpec().GetProject(); p != "" {
		text += ", project " + p
	}
	if c := cli.ClassWord(t.GetSpec().GetClass()); c != "" {
		text += ", class " + c
	}
	return text
}

func labelsText(labels map[string]string) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, key+"="+labels[key])
	}
	return strings.Join(all, ", ")
}

func agentText(t *pb.Task) string {
	if t.GetTries() == 0 {
		return ""
	}
	text := fmt.Sprintf("%s, lead %d", cmp.Or(t.GetAgent(), "-"), t.GetTries())
	if h := t.GetHelpers(); len(h) > 0 {
		text += ", helped by " + strings.Join(h, ", ")
	}
	return text
}

func timesText(t *pb.Task) string {
	text := "made " + cli.Moment(t.GetCreateTime())
	if t.GetStartTime() != nil {
		text += ", begun " + cli.Moment(t.GetStartTime())
	}
	if first := t.GetFirstByteTime(); first != nil {
		text += ", first byte " + units.Duration(first.AsTime().Sub(t.GetCreateTime().AsTime())) + " after it was made"
	}
	if t.GetEndTime() != nil {
		text += ", ended " + cli.Moment(t.GetEndTime())
	}
	return text
}

// countsText is how far a task is, as the live display has it.
func countsText(p *pb.Progress) string {
	if p == nil {
		return ""
	}
	more := "+"
	if p.GetPlanComplete() {
		more = ""
	}
	planned := convert.PlanTotals(p.GetPlanned())
	text := fmt.Sprintf("%s/%s%s files  %s/%s%s  %s", units.Count(p.GetFilesDone()), units.Count(planned.Files+planned.Compares), more,
		units.Bytes(p.GetBytesDone()), units.Bytes(planned.Bytes+planned.CompareBytes), more, units.PerSecond(p.GetBytesPerSecond()))
	if p.GetFailed() > 0 {
		text += "  " + units.Count(p.GetFailed()) + " failed"
	}
	return text
}

func inBrackets(text string) string {
	if text == "" {
		return ""
	}
	return "(" + text + ")"
}

func whyCommand(a *cli.App) *cobra.Command {
	var f cli.Format
	cmd := &cobra.Command{
		Use:   "why [flags] ID",
		Short: "Say what holds a task back, and what to do about it",
		Long: `Why names the bottleneck of a task: source, link, target, limit, queue, room or
person; one sentence about it; the figures behind it; and what could be done.`,
		Example:           "  datamove task why 06c8fk2rjq7m1x0v4d5e",
		Args:              cli.Exactly(1, "the id of one task"),
		ValidArgsFunction: completeTasks(a),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		return a.AskService(ctx, cli.TaskList, func(c *api.Client) error {
			e, err := c.ExplainTask(ctx, &pb.ExplainTaskRequest{Id: args[0]})
			if err != nil {
				return err
			}
			if f != cli.FormatTable {
				return cli.WriteOne(a.Out, f, viewExplanation(e))
			}
			return printExplanation(a.Out, e)
		})
	})
	cli.FormatVar(cmd.Flags(), &f, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL, cli.FormatYAML)
	return cmd
}

// viewExplanation is why a task is not faster, as JSON.
var viewExplanation = cli.View[*pb.Explanation]("schema:"+schemaExplanation+" id bottleneck text evidence[] advice?", nil)

func printExplanation(w io.Writer, e *pb.Explanation) error {
	fmt.Fprintf(w, "%s: %s\n", cli.Word(e.GetBottleneck(), "BOTTLENECK_"), cli.Shown(e.GetText()))
	for _, figure := range e.GetEvidence() {
		fmt.Fprintf(w, "  %s\n", cli.Shown(figure))
	}
	if e.GetAdvice() != "" {
		_, err := fmt.Fprintf(w, "try: %s\n", cli.Shown(e.GetAdvice()))
		return err
	}
	return nil
}
