package service

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/catalog"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/quota"
	"datamove.dev/mover/units"
)

const (
	schemaHeld  = "datamove.held/v1"
	schemaMoved = "datamove.moved/v1"
	schemaShare = "datamove.share/v1"
)

func usageCommand(a *cli.App) *cobra.Command {
	var f cli.Format
	u := moved{app: a}
	var q catalog.Filter
	var c catalog.Freshness
	var by []string
	var me bool
	cmd := &cobra.Command{
		Use:   "usage [flags] [LOCATION]",
		Short: "Print what accounts hold, or have moved",
		Long: `Usage of a location sums what the catalog knows of it, by one or several of owner,
group, project, kind, age, size, class and dir (what is directly below the location). Which
files count, flags say as for find. Of a file with several names each has its share.

Without a location it asks the service what tasks have moved, by project and person: your
own, and for an operator those of everybody. Days are those of UTC.

With --me it shows how much of the service you hold, and may hold: slots (the part of an agent
that your tasks have), tasks that have not ended, bytes of their records, leases, requests with
a key, and datasets. The operator sets these quotas in the configuration (quotas).`,
		Example: `  datamove usage project: --by owner
  datamove usage project:runs --by dir,age --kind file
  datamove usage --since 7d
  datamove usage --me
  datamove usage --project vision --daily -o jsonl`,
		Args: cobra.MaximumNArgs(1),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		if me {
			if len(args) > 0 || len(by) > 0 || u.set() {
				return mover.Misusef("--me shows your quotas, and takes no location and no other choice")
			}
			return u.quotas(ctx, f)
		}
		if len(args) == 0 {
			return u.run(ctx, f, by)
		}
		if u.set() {
			return mover.Misusef("--project, --since and --daily are about what was moved, without a location; --where 'project == \"NAME\"' is about files")
		}
		return held(ctx, a, f, q, c, args[0], by)
	})
	flags := cmd.Flags()
	cli.FormatVar(flags, &f, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL, cli.FormatYAML)
	flags.StringSliceVar(&by, "by", nil, "a line for each of these `KEYS`: owner, group, project, kind, age, size, class, dir; with commas")
	q.Flags(flags)
	c.Flags(flags)
	flags.BoolVar(&me, "me", false, "how much of the service you hold, and may hold")
	flags.StringVar(&u.request.Project, "project", "", "only what was moved of this `PROJECT`")
	cli.ParsedVar(flags, &u.since, "since", cli.ParseSince, "what was moved from this `DATE` on, or for that long: 2027-01-31, 7d (default 30d)")
	flags.BoolVar(&u.daily, "daily", false, "a line for each day")
	return cmd
}

// moved asks what tasks have moved.
type moved struct {
	app     *cli.App
	request pb.GetUsageRequest
	since   time.Time
	daily   bool
}

func (u *moved) set() bool { return u.request.Project != "" || !u.since.IsZero() || u.daily }

func (u *moved) run(ctx context.Context, f cli.Format, by []string) error {
	if len(by) > 0 {
		return mover.Misusef("--by is about files, below a location that is not given")
	}
	if !u.since.IsZero() {
		u.request.Since = timestamppb.New(u.since)
	}
	return u.app.AskService(ctx, cli.TaskList, func(c *api.Client) error {
		answer, err := c.GetUsage(ctx, &u.request)
		if err != nil {
			return err
		}
		rows := answer.GetUsage()
		if !u.daily {
			rows = sums(rows)
		}
		return cli.List(u.app, f, usageListing(u.daily), cli.Every(rows))
	})
}

// quotas tells what the caller holds, and may hold.
func (u *moved) quotas(ctx context.Context, f cli.Format) error {
	return u.app.AskService(ctx, cli.TaskList, func(c *api.Client) error {
		answer, err := c.GetUsage(ctx, &pb.GetUsageRequest{Since: timestamppb.Now()})
		if err != nil {
			return err
		}
		return cli.List(u.app, f, quotaListing, cli.Every(answer.GetQuotas()))
	})
}

var quotaListing = cli.Listing[*pb.Quota]{What: "quotas", View: viewShare, Columns: []cli.Column[*pb.Quota]{
	{Head: "RESOURCE", Width: 10, Text: func(q *pb.Quota) string { return mover.Printable(q.GetResource()) }},
	{Head: "USED", Width: -10, Text: func(q *pb.Quota) string { return amount(q, q.GetUsed()) }},
	{Head: "LIMIT", Width: -10, Text: func(q *pb.Quota) string {
		if q.GetLimit() == 0 {
			return "-"
		}
		return amount(q, q.GetLimit())
	}},
}}

// amount prints a number of what a quota counts.
func amount(q *pb.Quota, n int64) string { return quota.Resource(q.GetResource()).Text(n) }

// viewShare is a quota of an account as JSON. Without a limit there is none.
var viewShare = cli.View[*pb.Quota]("schema:"+schemaShare+" resource used limit?", nil)

// held tells what files there are.
func held(ctx context.Context, a *cli.App, f cli.Format, q catalog.Filter, c catalog.Freshness, location string, by []string) error {
	asked, err := q.Question(location)
	if err != nil {
		return err
	}
	return catalog.Ask(ctx, a, "usage", asked, c, func(ctx context.Context, from catalog.Reader) error {
		answer, err := from.Sum(ctx, &pb.SumFilesRequest{Question: asked, By: by})
		if err != nil {
			return err
		}
		return cli.List(a, f, heldListing(by), cli.Every(answer.GetSums()))
	})
}

// heldListing is how sums of files are listed.
func heldListing(by []string) cli.Listing[*pb.FileSum] {
	var columns []cli.Column[*pb.FileSum]
	for i, key := range by {
		columns = append(columns, cli.Column[*pb.FileSum]{Head: strings.ToUpper(key), Width: 12, Text: func(s *pb.FileSum) string {
			word := ""
			if i < len(s.GetGroup()) {
				word = s.GetGroup()[i]
			}
			return mover.Printable(cli.OrDash(word))
		}})
	}
	columns = append(columns,
		cli.Column[*pb.FileSum]{Head: "FILES", Width: -13, Text: func(s *pb.FileSum) string { return units.Count(s.GetFiles()) }},
		cli.Column[*pb.FileSum]{Head: "FOLDERS", Width: -11, Text: func(s *pb.FileSum) string { return units.Count(s.GetDirs()) }},
		cli.Column[*pb.FileSum]{Head: "OTHERS", Width: -8, Text: func(s *pb.FileSum) string { return units.Count(s.GetOthers()) }},
		cli.Column[*pb.FileSum]{Head: "BYTES", Width: -9, Text: func(s *pb.FileSum) string { return units.Bytes(s.GetBytes()) }},
		cli.Column[*pb.FileSum]{Head: "ALLOCATED", Width: -9, Text: func(s *pb.FileSum) string { return units.Bytes(s.GetStoredBytes()) }})
	return cli.Listing[*pb.FileSum]{What: "files", Columns: columns, View: viewHeld(by)}
}

// viewHeld is a sum of files as JSON. What is not known of its group is empty.
func viewHeld(by []string) func(*pb.FileSum) any {
	return cli.View("schema:"+schemaHeld+" by? files dirs others bytes stored_bytes", map[string]func(*pb.FileSum) any{
		"by": func(s *pb.FileSum) any {
			group := map[string]string{}
			for i, key := range by[:min(len(by), len(s.GetGroup()))] {
				group[key] = s.GetGroup()[i]
			}
			if len(group) == 0 {
				return nil
			}
			return group
		},
	})
}

// sums adds up the days of each project and person, in the order of both.
func sums(rows []*pb.Usage) []*pb.Usage {
	type who struct {
		project, name string
		uid           uint32
	}
	total := map[who]*pb.Usage{}
	var all []*pb.Usage
	for _, row := range rows {
		key := who{row.GetProject(), row.GetOwner().GetName(), row.GetOwner().GetUid()}
		sum := total[key]
		if sum == nil {
			sum = &pb.Usage{Project: row.GetProject(), Owner: row.GetOwner()}
			total[key] = sum
			all = append(all, sum)
		}
		sum.Tasks, sum.Files, sum.Bytes, sum.Failed = sum.Tasks+row.GetTasks(), sum.Files+row.GetFiles(), sum.Bytes+row.GetBytes(), sum.Failed+row.GetFailed()
	}
	slices.SortFunc(all, func(a, b *pb.Usage) int {
		return cmp.Or(cmp.Compare(a.GetProject(), b.GetProject()), cmp.Compare(a.GetOwner().GetName(), b.GetOwner().GetName()))
	})
	return all
}

// usageListing is how usage is listed.
func usageListing(daily bool) cli.Listing[*pb.Usage] {
	columns := []cli.Column[*pb.Usage]{
		{Head: "PROJECT", Width: 16, Text: func(u *pb.Usage) string { return cli.OrDash(u.GetProject()) }},
		{Head: "OWNER", Width: 12, Text: func(u *pb.Usage) string { return cli.OrDash(u.GetOwner().GetName()) }},
		{Head: "TASKS", Width: -9, Text: func(u *pb.Usage) string { return units.Count(u.GetTasks()) }},
		{Head: "FILES", Width: -13, Text: func(u *pb.Usage) string { return units.Count(u.GetFiles()) }},
		{Head: "BYTES", Width: -9, Text: func(u *pb.Usage) string { return units.Bytes(u.GetBytes()) }},
		{Head: "FAILED", Width: -9, Text: func(u *pb.Usage) string { return units.Count(u.GetFailed()) }},
	}
	if daily {
		columns = append([]cli.Column[*pb.Usage]{{Head: "DAY", Width: 10, Text: func(u *pb.Usage) string { return u.GetDay().AsTime().Format(time.DateOnly) }}}, columns...)
	}
	return cli.Listing[*pb.Usage]{What: "usage", Columns: columns, View: viewUsage}
}

// viewUsage is what tasks of one project and person did, as JSON. The day is in UTC; without one it is all that were asked for.
var viewUsage = cli.View("schema:"+schemaMoved+" project? owner=owner.name uid=owner.uid day? tasks files bytes failed", map[string]func(*pb.Usage) any{
	"day": func(u *pb.Usage) any {
		if u.GetDay() == nil {
			return nil
		}
		return u.GetDay().AsTime().Format(time.DateOnly)
	},
})
