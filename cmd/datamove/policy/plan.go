package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/mover/units"
	"datamove.dev/tiering/policy"
)

const (
	schemaServed    = "datamove.served-policy/v1"
	schemaPlan      = "datamove.plan/v1"
	schemaPlanItem  = "datamove.plan-item/v1"
	schemaSimulated = "datamove.simulated/v1"
)

// listPolicies is the command that lists policies.
const listPolicies = "datamove policy list"

// named says which policy is meant: one of the service, or the text of a file.
func named(arg string) (name, text string, err error) {
	if !strings.HasSuffix(arg, ".yaml") && !strings.Contains(arg, "/") {
		return arg, "", nil
	}
	b, err := os.ReadFile(arg)
	if err != nil {
		return "", "", &mover.Error{Op: "read", Location: arg, Err: errors.Unwrap(err)}
	}
	all, err := policy.Read(arg, b)
	if err == nil && len(all) != 1 {
		err = mover.Misusef("%s has %d policies; want one in the file", mover.Printable(arg), len(all))
	}
	return "", string(b), err
}

func listCommand(a *cli.App) *cobra.Command {
	var f cli.Format
	cmd := &cobra.Command{
		Use:     "list [flags]",
		Short:   "List the policies of the service, with their next and last runs",
		Example: `  datamove policy list`,
		Args:    cobra.NoArgs,
	}
	cmd.RunE = a.Do(func(ctx context.Context, _ []string) error {
		return a.AskService(ctx, "", func(c *api.Client) error {
			answer, err := c.ListPolicies(ctx, &pb.ListPoliciesRequest{})
			if err != nil {
				return err
			}
			return cli.List(a, f, servedListing, cli.Every(answer.GetPolicies()))
		})
	})
	cli.FormatVar(cmd.Flags(), &f, cli.ListFormats...)
	return cmd
}

// servedListing is how the policies of a service are listed.
var servedListing = cli.Listing[*pb.Policy]{
	What: "policies",
	Columns: []cli.Column[*pb.Policy]{
		{Head: "NAME", Width: 16, Text: (*pb.Policy).GetName},
		{Head: "MODE", Width: 7, Text: (*pb.Policy).GetMode},
		{Head: "SCOPE", Width: 16, Text: func(p *pb.Policy) string { return mover.Printable(strings.Join(p.GetRoots(), ",")) }},
		{Head: "NEXT", Width: 16, Text: func(p *pb.Policy) string { return minute(p.GetNextTime()) }},
		{Head: "WILL DO", Width: -14, Text: func(p *pb.Policy) string {
			if p.GetAnnounced() == nil {
				return "-"
			}
			return totalsText(p.GetAnnounced().GetTotal())
		}},
		{Head: "LAST", Width: 16, Text: func(p *pb.Policy) string { return minute(p.GetLast().GetStartTime()) }},
		{Head: "STATE", Width: 0, Text: func(p *pb.Policy) string {
			if p.GetLast() == nil {
				return "-"
			}
			return strings.TrimSpace(runWord(p.GetLast().GetState()) + " " + p.GetLast().GetWhy())
		}},
	},
	View: cli.View[*pb.Policy]("schema:"+schemaServed+" name owner? mode file digest roots next=next_time? last? { "+runKeys+" } announced? { "+planKeys+" }", nil),
	Name: (*pb.Policy).GetName,
}

// minute is a time for people.
func minute(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return t.AsTime().Local().Format("2006-01-02 15:04")
}

func totalsText(t *pb.RunTotals) string {
	return units.Plural(t.GetFiles(), "file", "files") + ", " + units.Bytes(t.GetBytes())
}

// The keys of a plan as JSON, and of what it has of each rule.
const (
	amount    = " { files bytes } "
	rulesKeys = "rules { rule action matched" + amount + "kept" + amount + "}"
	planKeys  = "schema:" + schemaPlan + " id policy mode digest time? facts_time? stale? scope" + amount + "total" + amount + "removes" + amount + rulesKeys +
		" left? { why files=total.files bytes=total.bytes } owners? { owner files=total.files bytes=total.bytes } error? errors? notes?"
)

var viewPlan = cli.View[*pb.Plan](planKeys, nil)

func planCommand(a *cli.App) *cobra.Command {
	var f cli.Format
	var id string
	var items bool
	cmd := &cobra.Command{
		Use:               "plan [flags] POLICY|FILE",
		ValidArgsFunction: completePolicies(a),
		Short:             "Say what a policy would do now",
		Long: `Plan asks the catalog of the service what the policy would do, and changes nothing: what it
says can be looked at for a week, and done with datamove policy run --plan ID. The policy is one
of the service, or one in a FILE. With --items all files are listed, each with its reason; and
with --plan those of a plan that was made before, of which everybody sees what is their own.`,
		Example: `  datamove policy plan scratch-to-cold
  datamove policy plan --items ./new.yaml -o jsonl
  datamove policy plan --items --plan 01m8b9fwq1dpygtsk89g`,
		Args: cobra.MaximumNArgs(1),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		if (len(args) == 1) == (id != "") {
			return cli.Advise(mover.Misusef("want one policy, or --plan"), "datamove policy list, which has their names, or a FILE")
		}
		return a.AskService(ctx, listPolicies, func(c *api.Client) error {
			var plan *pb.Plan
			if id == "" {
				name, text, err := named(args[0])
				if err != nil {
					return err
				}
				if plan, err = c.PlanPolicy(ctx, &pb.PlanPolicyRequest{Policy: name, Text: text}); err != nil {
					return err
				}
				id = plan.GetId()
			}
			if items {
				return cli.List(a, f, itemsListing, planItems(ctx, c, id, nil))
			}
			if plan == nil {
				plan = &pb.Plan{}
				for _, err := range planItems(ctx, c, id, plan) {
					if err != nil {
						return err
					}
					break
				}
			}
			switch f {
			case cli.FormatTable:
				return printPlan(a.Out, plan)
			case cli.FormatName:
				_, err := fmt.Fprintln(a.Out, cli.Shown(plan.GetId()))
				return err
			}
			return cli.WriteOne(a.Out, f, viewPlan(plan))
		})
	})
	flags := cmd.Flags()
	cli.FormatVar(flags, &f, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL, cli.FormatYAML, cli.FormatName)
	flags.StringVar(&id, "plan", "", "show the plan `ID`")
	flags.BoolVar(&items, "items", false, "list the files")
	return cmd
}

// planItems yields what a plan lists. head becomes its head, if there is one.
func planItems(ctx context.Context, c *api.Client, id string, head *pb.Plan) iter.Seq2[*pb.PlanItem, error] {
	return func(yield func(*pb.PlanItem, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := c.GetPlan(ctx, &pb.GetPlanRequest{Id: id})
		for err == nil {
			var m *pb.GetPlanResponse
			if m, err = stream.Recv(); err != nil {
				break
			}
			if m.GetPlan() != nil && head != nil {
				*head = pb.Plan{Id: m.Plan.Id, Policy: m.Plan.Policy, Mode: m.Plan.Mode, Digest: m.Plan.Digest, Time: m.Plan.Time, FactsTime: m.Plan.FactsTime, Stale: m.Plan.Stale, Scope: m.Plan.Scope,
					Total: m.Plan.Total, Removes: m.Plan.Removes, Rules: m.Plan.Rules, Left: m.Plan.Left, Owners: m.Plan.Owners, Error: m.Plan.Error, Errors: m.Plan.Errors}
			}
			for _, item := range m.GetItems() {
				if !yield(item, nil) {
					return
				}
			}
		}
		if !errors.Is(err, io.EOF) {
			yield(nil, err)
		}
	}
}

// printPlan prints the head of a plan.
func printPlan(w io.Writer, p *pb.Plan) error {
	fmt.Fprintf(w, "plan %s of %s, mode %s\n", cli.Shown(p.GetId()), cli.Shown(p.GetPolicy()), cli.Shown(p.GetMode()))
	stale := ""
	if p.GetStale() {
		stale = "; too old for this policy: it can not be run"
	}
	fmt.Fprintf(w, "  asked about   %s, as they were %s ago%s\n", totalsText(p.GetScope()), cli.Ago(p.GetFactsTime()), stale)
	printRules(w, p.GetRules())
	fmt.Fprintf(w, "  would do      %s\n", totalsText(p.GetTotal()))
	if p.GetRemoves().GetFiles() > 0 {
		fmt.Fprintf(w, "  of it go      %s\n", totalsText(p.GetRemoves()))
	}
	for _, l := range p.GetLeft() {
		fmt.Fprintf(w, "  left out      %s: %s\n", totalsText(l.GetTotal()), cli.Shown(l.GetWhy()))
	}
	for _, note := range p.GetNotes() {
		fmt.Fprintf(w, "  note          %s\n", cli.Shown(note))
	}
	for _, o := range p.GetOwners() {
		fmt.Fprintf(w, "  of            %-12s %s\n", cli.Shown(o.GetOwner()), totalsText(o.GetTotal()))
	}
	if p.GetErrors() > 0 {
		fmt.Fprintf(w, "  failed        for %s, which are kept: %s\n", units.Plural(p.GetErrors(), "file", "files"), cli.Shown(p.GetError()))
	}
	var err error
	if p.GetTotal().GetFiles() > 0 && !p.GetStale() {
		_, err = fmt.Fprintf(w, "to see the files: datamove policy plan --items --plan %s\nto have it done:  datamove policy run --plan %[1]s\n", cli.Shown(p.GetId()))
	}
	return err
}

func printRules(w io.Writer, rules []*pb.RuleTotals) {
	for _, r := range rules {
		kept := ""
		switch {
		case r.GetAction() == string(policy.Keep), r.GetAction() == string(policy.Notify):
			fmt.Fprintf(w, "  rule %-16s %-9s %s\n", cli.Shown(r.GetRule()), cli.Shown(r.GetAction()), totalsText(r.GetKept()))
			continue
		case r.GetKept().GetFiles() > 0:
			kept = fmt.Sprintf("; %s kept by what holds whatever a rule says", totalsText(r.GetKept()))
		}
		fmt.Fprintf(w, "  rule %-16s %-9s %s%s\n", cli.Shown(r.GetRule()), cli.Shown(r.GetAction()), totalsText(r.GetMatched()), kept)
	}
}

// itemsListing is how the files of a plan are listed.
var itemsListing = cli.Listing[*pb.PlanItem]{
	What: "files",
	None: "it would do nothing to any file that you may see",
	Columns: []cli.Column[*pb.PlanItem]{
		{Head: "ACTION", Width: 9, Text: (*pb.PlanItem).GetAction},
		{Head: "SIZE", Width: -9, Text: func(i *pb.PlanItem) string { return units.Bytes(i.GetBytes()) }},
		{Head: "NAME", Width: 32, Text: func(i *pb.PlanItem) string { return mover.Printable(i.GetTier() + ":" + string(i.GetName())) }},
		{Head: "TO", Width: 8, Text: func(i *pb.PlanItem) string { return cli.OrDash(i.GetTarget()) }},
		{Head: "WHY", Width: 0, Text: (*pb.PlanItem).GetReason},
	},
	View: func(i *pb.PlanItem) any {
		return itemViewOf{schemaPlanItem, i.GetTier(), i.GetNode(), cli.ViewName(string(i.GetName())), i.GetAction(), i.GetRule(), i.GetReason(), i.GetTarget(), i.GetKind(), i.GetBytes(), i.GetUid()}
	},
	Name: func(i *pb.PlanItem) string { return mover.Printable(i.GetTier() + ":" + string(i.GetName())) },
}

// itemViewOf is a file of a plan as JSON.
type itemViewOf struct {
	Schema string `json:"schema"`
	Tier   string `json:"tier"`
	Node   string `json:"node,omitempty"`
	cli.NameView
	Action string `json:"action"`
	Rule   string `json:"rule"`
	Why    string `json:"why"`
	Target string `json:"target,omitempty"`
	Kind   string `json:"kind"`
	Bytes  int64  `json:"bytes"`
	UID    uint32 `json:"uid"`
}

func simulateCommand(a *cli.App) *cobra.Command {
	var f cli.Format
	var at time.Time
	var days int32
	cmd := &cobra.Command{
		Use:               "simulate [flags] POLICY|FILE",
		ValidArgsFunction: completePolicies(a),
		Short:             "Say what a policy would do in the days to come",
		Long: `Simulate asks the catalog what each run of the policy would do by its schedule, if nothing
else happens to the files, and what was done by a run is not done by a later one. It changes
nothing.`,
		Example: `  datamove policy simulate scratch-to-cold --days 30
  datamove policy simulate ./new.yaml --at 2027-01-31`,
		Args: cli.Exactly(1, "one policy"),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		name, text, err := named(args[0])
		if err != nil {
			return err
		}
		req := &pb.SimulatePolicyRequest{Policy: name, Text: text, Days: days}
		if !at.IsZero() {
			req.From = timestamppb.New(at)
		}
		return a.AskService(ctx, listPolicies, func(c *api.Client) error {
			answer, err := c.SimulatePolicy(ctx, req)
			if err != nil {
				return err
			}
			return cli.List(a, f, simulatedListing, cli.Every(answer.GetRuns()))
		})
	})
	flags := cmd.Flags()
	cli.FormatVar(flags, &f, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL, cli.FormatYAML)
	cli.ParsedVar(flags, &at, "at", cli.ParseUntil, "begin at this `DATE`, or so much later: 2027-01-31, 7d (default now)")
	flags.Int32Var(&days, "days", 0, "all runs by the schedule in so many `DAYS` (default one run at the beginning)")
	return cmd
}

// simulatedListing is how simulated runs are listed.
var simulatedListing = cli.Listing[*pb.SimulatedRun]{
	What: "runs",
	None: "it has no schedule by which it would run then",
	Columns: []cli.Column[*pb.SimulatedRun]{
		{Head: "TIME", Width: 16, Text: func(r *pb.SimulatedRun) string { return minute(r.GetTime()) }},
		{Head: "FILES", Width: -13, Text: func(r *pb.SimulatedRun) string { return units.Count(r.GetTotal().GetFiles()) }},
		{Head: "BYTES", Width: -9, Text: func(r *pb.SimulatedRun) string { return units.Bytes(r.GetTotal().GetBytes()) }},
		{Head: "GO", Width: -9, Text: func(r *pb.SimulatedRun) string { return units.Bytes(r.GetRemoves().GetBytes()) }},
		{Head: "RULES", Width: 0, Text: func(r *pb.SimulatedRun) string {
			var words []string
			for _, rule := range r.GetRules() {
				if n := rule.GetMatched().GetFiles(); n > 0 {
					words = append(words, fmt.Sprintf("%s %s", rule.GetRule(), units.Count(n)))
				}
			}
			return cmp.Or(strings.Join(words, ", "), "-")
		}},
	},
	View: cli.View[*pb.SimulatedRun]("schema:"+schemaSimulated+" time total"+amount+"removes"+amount+rulesKeys, nil),
}
