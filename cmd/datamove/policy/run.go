package policy

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/catalog"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/mover/units"
	"datamove.dev/tiering/policy/run"
)

const (
	schemaRun        = "datamove.run/v1"
	schemaExplained  = "datamove.explained/v1"
	schemaDifference = "datamove.difference/v1"
)

func runCommand(a *cli.App) *cobra.Command {
	var f cli.Format
	var plan string
	var detach bool
	cmd := &cobra.Command{
		Use:   "run [flags] --plan ID",
		Short: "Do what a plan lists, as far as it is still true",
		Long: `Run has the service do what the plan lists and nothing else. Each file is looked at once more
before anything is done to it, and at the very moment when it is taken away: what has changed, or is
held by then, is skipped. What is taken away without a copy elsewhere is kept for a while, see
datamove policy undo. ^C leaves the run alone; datamove policy stop ends it.`,
		Example: `  datamove policy run --plan 01m8b9fwq1dpygtsk89g`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return cli.Advise(mover.Misusef("a policy runs by its schedule, or by a plan that a person has seen"),
				"datamove policy plan "+cli.ShellWord(args[0])+", and datamove policy run --plan with the id that it prints")
		},
	}
	cmd.RunE = a.Do(func(ctx context.Context, _ []string) error {
		if plan == "" {
			return cli.Advise(mover.Misusef("want --plan ID: a policy runs by its schedule, or by a plan that a person has seen"), "datamove policy plan POLICY")
		}
		return a.AskService(ctx, listPolicies, func(c *api.Client) error {
			r, err := c.RunPlan(ctx, &pb.RunPlanRequest{Plan: plan})
			if err == nil && !detach {
				r, err = untilEnded(ctx, a, c, r)
			}
			if err != nil {
				return err
			}
			return tellRun(a, f, r, run.Done)
		})
	})
	flags := cmd.Flags()
	cli.FormatVar(flags, &f, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL, cli.FormatYAML, cli.FormatName)
	flags.StringVar(&plan, "plan", "", "the plan `ID`")
	flags.BoolVar(&detach, "detach", false, "print the run, and return")
	return cmd
}

// runPoll is how often a run is looked at.
const runPoll = time.Second

// untilEnded waits for the end of a run, and says how far it is.
func untilEnded(ctx context.Context, a *cli.App, c *api.Client, r *pb.Run) (*pb.Run, error) {
	told := time.Now()
	for pause := runPoll / 5; run.Active(r.GetState()); pause = runPoll {
		select {
		case <-ctx.Done():
			return r, cli.Advise(context.Cause(ctx), "datamove policy history: the run goes on")
		case <-time.After(pause):
		}
		answer, err := c.ListRuns(ctx, &pb.ListRunsRequest{Id: r.GetId()})
		if err != nil || len(answer.GetRuns()) == 0 {
			return r, err
		}
		r = answer.GetRuns()[0]
		if !a.Quiet && time.Since(told) >= catalog.TellEvery {
			told = time.Now()
			fmt.Fprintf(a.Err, "datamove: policy: %s: %s of %s, %s skipped, %s failed\n", runWord(r.GetState()), totalsText(r.GetDone()), totalsText(r.GetPlanned()), units.Count(r.GetSkipped()), units.Count(r.GetFailed()))
		}
	}
	return r, nil
}

// tellRun prints a run, and ends as it did.
func tellRun(a *cli.App, f cli.Format, r *pb.Run, want pb.RunState) error {
	var err error
	switch {
	case f == cli.FormatTable && a.Quiet && r.GetState() == want && r.GetFailed() == 0: // neither an error nor an id to wait for
	case f == cli.FormatTable:
		err = printRun(a.Out, r)
	default:
		err = cli.List(a, f, runsListing, cli.Every([]*pb.Run{r}))
	}
	switch {
	case err != nil || run.Active(r.GetState()):
		return err
	case r.GetFailed() > 0:
		return &cli.PartialError{Failed: r.GetFailed(), Err: fmt.Errorf("%s", cli.Shown(r.GetError()))}
	case r.GetState() != want:
		return fmt.Errorf("%w: it is %s: %s", mover.ErrRefused, runWord(r.GetState()), cli.Shown(r.GetWhy()))
	}
	return nil
}

func printRun(w io.Writer, r *pb.Run) error {
	_, err := fmt.Fprintf(w, "run %s of %s is %s: %s of %s, %s skipped, %s failed\n", cli.Shown(r.GetId()), cli.Shown(r.GetPolicy()), runWord(r.GetState()),
		totalsText(r.GetDone()), totalsText(r.GetPlanned()), units.Count(r.GetSkipped()), units.Count(r.GetFailed()))
	if r.GetWhy() != "" {
		_, err = fmt.Fprintf(w, "  %s\n", cli.Shown(r.GetWhy()))
	}
	if r.GetError() != "" {
		_, err = fmt.Fprintf(w, "  failed: %s\n", cli.Shown(r.GetError()))
	}
	for _, notice := range r.GetNotices() {
		_, err = fmt.Fprintf(w, "  %s\n", cli.Shown(notice))
	}
	if r.GetState() == run.Undone {
		_, err = fmt.Fprintf(w, "  %s given back\n", units.Plural(r.GetRestored(), "file was", "files were"))
	} else if r.GetKeptUntil() != nil {
		_, err = fmt.Fprintf(w, "  can be undone until %s: datamove policy undo %s\n", minute(r.GetKeptUntil()), cli.Shown(r.GetId()))
	}
	return err
}

// runWord is the state of a run in one word.
func runWord(s pb.RunState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "RUN_STATE_"))
}

func historyCommand(a *cli.App) *cobra.Command {
	var f cli.Format
	req := &pb.ListRunsRequest{}
	cmd := &cobra.Command{
		Use:               "history [flags] [POLICY]",
		ValidArgsFunction: completePolicies(a),
		Short:             "List runs of policies, the newest first",
		Example:           `  datamove policy history to-archive`,
		Args:              cobra.MaximumNArgs(1),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		if len(args) == 1 {
			req.Policy = args[0]
		}
		return a.AskService(ctx, listPolicies, func(c *api.Client) error {
			answer, err := c.ListRuns(ctx, req)
			if err != nil {
				return err
			}
			return cli.List(a, f, runsListing, cli.Every(answer.GetRuns()))
		})
	})
	cli.FormatVar(cmd.Flags(), &f, cli.ListFormats...)
	cmd.Flags().Int32Var(&req.Limit, "limit", 0, "the newest `N` (default 100)")
	return cmd
}

// runsListing is how runs are listed.
var runsListing = cli.Listing[*pb.Run]{
	What: "runs",
	Columns: []cli.Column[*pb.Run]{
		{Head: "ID", Width: 20, Text: (*pb.Run).GetId},
		{Head: "POLICY", Width: 16, Text: (*pb.Run).GetPolicy},
		{Head: "STATE", Width: 8, Text: func(r *pb.Run) string { return runWord(r.GetState()) }},
		{Head: "BEGAN", Width: 16, Text: func(r *pb.Run) string { return minute(r.GetStartTime()) }},
		{Head: "BY", Width: 9, Text: (*pb.Run).GetBy},
		{Head: "DONE", Width: -11, Text: func(r *pb.Run) string { return units.Count(r.GetDone().GetFiles()) }},
		{Head: "BYTES", Width: -9, Text: func(r *pb.Run) string { return units.Bytes(r.GetDone().GetBytes()) }},
		{Head: "SKIPPED", Width: -8, Text: func(r *pb.Run) string { return units.Count(r.GetSkipped()) }},
		{Head: "FAILED", Width: -8, Text: func(r *pb.Run) string { return units.Count(r.GetFailed()) }},
		{Head: "UNDO UNTIL", Width: 16, Text: func(r *pb.Run) string { return minute(r.GetKeptUntil()) }},
		{Head: "WHY", Width: 0, Text: func(r *pb.Run) string { return cli.OrDash(cmp.Or(r.GetWhy(), r.GetError())) }},
	},
	View: cli.View[*pb.Run](runKeys, nil),
	Name: (*pb.Run).GetId,
	Colour: func(r *pb.Run) string {
		switch {
		case r.GetFailed() > 0:
			return cli.Red
		case r.GetState() == run.Stopped:
			return cli.Yellow
		}
		return ""
	},
}

// runKeys are the keys of a run as JSON, with the tasks that are under way.
const runKeys = "schema:" + schemaRun + " id policy state by due=due_time? started=start_time? ended=end_time? planned" + amount + "done" + amount +
	"skipped failed restored? undo_until=kept_until? why? error? notices? tasks=parts.task?"

func undoCommand(a *cli.App) *cobra.Command {
	var f cli.Format
	cmd := &cobra.Command{
		Use:   "undo [flags] RUN",
		Short: "Give back what a run has taken away",
		Long: `Undo gives each file back that the run has taken away, from where it is kept or from its copy. What has
its name by now stays as it is. What a run has copied, and not taken away, stays, too.`,
		Example: `  datamove policy undo 06c8fk2rjq7m1x0v4d5e`,
		Args:    cli.Exactly(1, "one run, as datamove policy history lists them"),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		return a.AskService(ctx, "datamove policy history", func(c *api.Client) error {
			r, err := c.UndoRun(ctx, &pb.UndoRunRequest{Id: args[0]})
			if err == nil {
				r, err = untilEnded(ctx, a, c, r)
			}
			if err != nil {
				return err
			}
			return tellRun(a, f, r, run.Undone)
		})
	})
	cli.FormatVar(cmd.Flags(), &f, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL, cli.FormatYAML, cli.FormatName)
	return cmd
}

func stopCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "stop RUN",
		Short:   "Have a run begin nothing more",
		Example: `  datamove policy stop 06c8fk2rjq7m1x0v4d5e`,
		Args:    cli.Exactly(1, "one run, as datamove policy history lists them"),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		return a.AskService(ctx, "datamove policy history", func(c *api.Client) error {
			r, err := c.StopRun(ctx, &pb.StopRunRequest{Id: args[0]})
			if err != nil {
				return err
			}
			return printRun(a.Out, r)
		})
	})
	return cmd
}

// explainedCommand asks what policies say of a file.
func explainedCommand(a *cli.App, use, short, long string, tell func(*pb.ExplainFileResponse) error) *cobra.Command {
	var f cli.Format
	var of, node string
	cmd := &cobra.Command{
		Use:     use + " [flags] LOCATION",
		Example: "  datamove policy " + use + " project:runs/7/step-1.pt",
		Short:   short,
		Long:    long,
		Args:    cli.Exactly(1, "one file in a tier"),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		l, err := cli.ParseLocation(args[0])
		if err != nil {
			return err
		}
		req := &pb.ExplainFileRequest{Location: l.String(), Node: node}
		if of != "" {
			if req.Policy, req.Text, err = named(of); err != nil {
				return err
			}
		}
		return a.AskService(ctx, "datamove tier scans, which shows how old the catalog is", func(c *api.Client) error {
			answer, err := c.ExplainFile(ctx, req)
			if err != nil {
				return err
			}
			if f != cli.FormatTable {
				return cli.WriteOne(a.Out, f, viewExplained(answer))
			}
			return tell(answer)
		})
	})
	flags := cmd.Flags()
	cli.FormatVar(flags, &f, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL, cli.FormatYAML)
	flags.StringVar(&of, "policy", "", "only what `POLICY` says, of the service or in a file")
	flags.StringVar(&node, "node", "", "the `NODE` of a node-local tier (default this one)")
	return cmd
}

func explainCommand(a *cli.App) *cobra.Command {
	return explainedCommand(a, "explain", "Say clause by clause what policies say of a file", "Explain shows each rule up to the one that decides, what each of its clauses wants and what the file has.",
		func(e *pb.ExplainFileResponse) error { return printExplained(a.Out, e) })
}

func whyCommand(a *cli.App) *cobra.Command {
	return explainedCommand(a, "why", "Say in a line for each policy what it does to a file, and which runs listed it",
		"Why says what each policy would do to the file, and why, and which runs of policies have listed it.",
		func(e *pb.ExplainFileResponse) error { return printWhy(a.Out, e) })
}

func printExplained(w io.Writer, e *pb.ExplainFileResponse) error {
	fmt.Fprintf(w, "%s, of use last %s\n", units.Bytes(e.GetFile().GetBytes()), cli.Shown(cmp.Or(e.GetUsed(), "unknown")))
	if len(e.GetPolicies()) == 0 {
		fmt.Fprintln(w, "no policy is about it")
	}
	var err error
	for _, p := range e.GetPolicies() {
		_, err = fmt.Fprintf(w, "%s (%s): %s\n", cli.Shown(p.GetPolicy()), cli.Shown(p.GetMode()), cli.Shown(p.GetReason()))
		for _, r := range p.GetRules() {
			fmt.Fprintf(w, "  rule %s %s\n", cli.Shown(r.GetRule()), map[bool]string{true: "decides", false: "does not match"}[r.GetHolds()])
			for _, c := range r.GetClauses() {
				fmt.Fprintf(w, "    %s  %s %s, and is %s\n", map[bool]string{true: "yes", false: "no "}[c.GetHolds()], cli.Shown(c.GetField()), cli.Shown(c.GetWant()), cli.Shown(c.GetIs()))
			}
			if r.GetError() != "" {
				fmt.Fprintf(w, "    it fails: %s\n", cli.Shown(r.GetError()))
			}
		}
		if p.GetNextTime() != nil {
			_, err = fmt.Fprintf(w, "  looked at next %s\n", minute(p.GetNextTime()))
		}
	}
	return err
}

func printWhy(w io.Writer, e *pb.ExplainFileResponse) error {
	var err error
	if len(e.GetPolicies()) == 0 {
		_, err = fmt.Fprintln(w, "no policy is about it")
	}
	for _, p := range e.GetPolicies() {
		_, err = fmt.Fprintf(w, "%s (%s): %s\n", cli.Shown(p.GetPolicy()), cli.Shown(p.GetMode()), cli.Shown(p.GetReason()))
	}
	for _, r := range e.GetRuns() {
		_, err = fmt.Fprintf(w, "run %s of %s listed it, %s: %s\n", cli.Shown(r.GetId()), cli.Shown(r.GetPolicy()), minute(r.GetStartTime()), runWord(r.GetState()))
	}
	return err
}

// viewExplained is what policies say of a file, as JSON.
var viewExplained = cli.View("schema:"+schemaExplained+" file used policies[] { policy mode reason rules { rule decides=holds error? clauses { field want is holds } } next=next_time? } runs? { "+runKeys+" }",
	map[string]func(*pb.ExplainFileResponse) any{"file": func(e *pb.ExplainFileResponse) any { return catalog.ViewFile(e.GetFile()) }})

func diffCommand(a *cli.App) *cobra.Command {
	var f cli.Format
	cmd := &cobra.Command{
		Use:               "diff [flags] POLICY|FILE POLICY|FILE",
		ValidArgsFunction: completePolicies(a),
		Short:             "Say what two policies, or two versions of one, would do differently",
		Long: `Diff plans both, and lists the files to which they would do different things. It ends with 0 when
there are none, and with 6 when there are some.`,
		Example: `  datamove policy diff scratch-to-cold ./new.yaml`,
		Args:    cli.Exactly(2, "two policies"),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		return a.AskService(ctx, listPolicies, func(c *api.Client) error {
			var deeds [2]map[string]string
			for i, arg := range args {
				name, text, err := named(arg)
				if err != nil {
					return err
				}
				plan, err := c.PlanPolicy(ctx, &pb.PlanPolicyRequest{Policy: name, Text: text})
				if err != nil {
					return err
				}
				deeds[i] = map[string]string{}
				for item, err := range planItems(ctx, c, plan.GetId(), nil) {
					if err != nil {
						return err
					}
					key := item.GetTier() + ":" + string(item.GetName())
					if item.GetNode() != "" {
						key = item.GetNode() + " " + key
					}
					deeds[i][key] = strings.TrimSpace(deeds[i][key] + " " + strings.TrimSpace(item.GetAction()+" "+item.GetTarget()))
				}
			}
			rows := differing(deeds[0], deeds[1])
			if err := cli.List(a, f, differingListing, cli.Every(rows)); err != nil {
				return err
			}
			if len(rows) > 0 {
				return &cli.PartialError{Failed: int64(len(rows)), Differ: true}
			}
			return nil
		})
	})
	cli.FormatVar(cmd.Flags(), &f, cli.ListFormats...)
	return cmd
}

// difference is a file to which two policies would do different things.
type difference struct {
	Schema string `json:"schema"`
	Name   string `json:"name"`
	First  string `json:"first"`
	Second string `json:"second"`
}

func differing(first, second map[string]string) (rows []difference) {
	const none = "keep"
	for name, does := range first {
		if second[name] != does {
			rows = append(rows, difference{schemaDifference, name, does, cmp.Or(second[name], none)})
		}
	}
	for name, does := range second {
		if _, both := first[name]; !both {
			rows = append(rows, difference{schemaDifference, name, none, does})
		}
	}
	slices.SortFunc(rows, func(a, b difference) int { return cmp.Compare(a.Name, b.Name) })
	return rows
}

var differingListing = cli.Listing[difference]{
	What: "differences",
	Columns: []cli.Column[difference]{
		{Head: "FIRST", Width: 16, Text: func(d difference) string { return d.First }},
		{Head: "SECOND", Width: 16, Text: func(d difference) string { return d.Second }},
		{Head: "NAME", Width: 0, Text: func(d difference) string { return mover.Printable(d.Name) }},
	},
	View: func(d difference) any { return d },
	Name: func(d difference) string { return mover.Printable(d.Name) },
}
