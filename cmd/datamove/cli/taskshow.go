package cli

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
	"datamove.dev/mover"
	"datamove.dev/mover/task/convert"
	"datamove.dev/mover/units"
)

func (a *app) taskShow() *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use:               "show [flags] ID...",
		Short:             "Print all that is known of tasks",
		Example:           "  datamove task show 06c8fk2rjq7m1x0v4d5e",
		Args:              someIDs,
		ValidArgsFunction: a.completeTasks(),
	}
	cmd.RunE = a.do(func(ctx context.Context, ids []string) error {
		return a.ask(ctx, listTasks, func(c *api.Client) error {
			tasks := getTasks(ctx, c, ids)
			if f != formatTable {
				if len(ids) == 1 && f != formatName {
					return one(tasks, func(t *pb.Task) error { return writeOne(a.out, f, viewTask(t)) })
				}
				return list(a, f, tasksListing, tasks)
			}
			return one(tasks, func(t *pb.Task) error { return a.printTask(t) })
		})
	})
	formatVar(cmd.Flags(), &f, listFormats...)
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
func (a *app) printTask(t *pb.Task) error {
	out := newLines(a.out)
	field := func(name, text string) {
		if text != "" {
			out.Printf("%-9s %s", name, shown(text))
		}
	}
	out.Printf("%-9s %s", "task", shown(t.GetId()))
	out.Printf("%-9s %s", "state", a.coloured(stateColours[t.GetState()], shown(stateText(t))))
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
func printEnd(out *lines, t *pb.Task) {
	report := convert.LocalReport(t.GetReport())
	var b strings.Builder
	printSummary(&b, commandOf(t.GetSpec().GetKind()), report)
	for _, it := range report.Failures[:min(len(report.Failures), maxShown)] {
		printList(&b, "failed", []string{shown(it.Err.Error())})
	}
	if more := report.Failed - int64(min(len(report.Failures), maxShown)); more > 0 {
		printList(&b, "failed", []string{units.Count(more) + " more; -o json names the first 1,000"})
	}
	out.Raw(b.String())
}

// stateText is the state of a task with its phase, and why.
func stateText(t *pb.Task) string {
	text := stateWord(t.GetState())
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
	if c := classWord(t.GetSpec().GetClass()); c != "" {
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
	text := "made " + moment(t.GetCreateTime())
	if t.GetStartTime() != nil {
		text += ", begun " + moment(t.GetStartTime())
	}
	if first := t.GetFirstByteTime(); first != nil {
		text += ", first byte " + units.Duration(first.AsTime().Sub(t.GetCreateTime().AsTime())) + " after it was made"
	}
	if t.GetEndTime() != nil {
		text += ", ended " + moment(t.GetEndTime())
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

func (a *app) taskWhy() *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use:   "why [flags] ID",
		Short: "Say what holds a task back, and what to do about it",
		Long: `Why names the bottleneck of a task: source, link, target, limit, queue, room or
person; one sentence about it; the figures behind it; and what could be done.`,
		Example:           "  datamove task why 06c8fk2rjq7m1x0v4d5e",
		Args:              exactly(1, "the id of one task"),
		ValidArgsFunction: a.completeTasks(),
	}
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		return a.ask(ctx, listTasks, func(c *api.Client) error {
			e, err := c.ExplainTask(ctx, &pb.ExplainTaskRequest{Id: args[0]})
			if err != nil {
				return err
			}
			v := explanationView{schemaExplanation, e.GetId(), word(e.GetBottleneck(), "BOTTLENECK_"), e.GetText(), append([]string{}, e.GetEvidence()...), e.GetAdvice()}
			if f != formatTable {
				return writeOne(a.out, f, v)
			}
			return v.table(a.out)
		})
	})
	formatVar(cmd.Flags(), &f, formatTable, formatJSON, formatJSONL, formatYAML)
	return cmd
}

// explanationView is why a task is not faster, as JSON.
type explanationView struct {
	Schema     string   `json:"schema"`
	ID         string   `json:"id"`
	Bottleneck string   `json:"bottleneck"`
	Text       string   `json:"text"`
	Evidence   []string `json:"evidence"`
	Advice     string   `json:"advice,omitempty"`
}

func (v *explanationView) table(w io.Writer) error {
	fmt.Fprintf(w, "%s: %s\n", shown(v.Bottleneck), shown(v.Text))
	for _, figure := range v.Evidence {
		fmt.Fprintf(w, "  %s\n", shown(figure))
	}
	if v.Advice != "" {
		_, err := fmt.Fprintf(w, "try: %s\n", shown(v.Advice))
		return err
	}
	return nil
}

const schemaExplanation = "datamove.explanation/v1"
