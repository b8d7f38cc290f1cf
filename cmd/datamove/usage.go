package main

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/units"
)

func (a *app) usageCommand() *cobra.Command {
	var f format
	var since time.Time
	daily := false
	req := &pb.GetUsageRequest{}
	cmd := &cobra.Command{
		Use:     "usage [flags]",
		Short:   "See who has moved how much",
		GroupID: groupService,
		Long: `Usage sums what tasks have moved by project and person: your own, and for an
operator those of everybody. Days are those of UTC.`,
		Example: `  datamove usage --since 7d
  datamove usage --project vision --daily -o jsonl`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		if !since.IsZero() {
			req.Since = timestamppb.New(since)
		}
		return a.ask(ctx, listTasks, func(c *api.Client) error {
			answer, err := c.GetUsage(ctx, req)
			if err != nil {
				return err
			}
			rows := answer.GetUsage()
			if !daily {
				rows = sums(rows)
			}
			return list(a, f, usageListing(daily), every(rows))
		})
	})
	flags := cmd.Flags()
	formatVar(flags, &f, formatTable, formatJSON, formatJSONL, formatYAML)
	flags.StringVar(&req.Project, "project", "", "only of this `PROJECT`")
	parsedVar(flags, &since, "since", parseSince, "from this `DATE` on, or for that long: 2027-01-31, 7d (default 30d)")
	flags.BoolVar(&daily, "daily", false, "a line for each day")
	return cmd
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
func usageListing(daily bool) listing[*pb.Usage] {
	columns := []column[*pb.Usage]{
		{"PROJECT", 16, func(u *pb.Usage) string { return known(u.GetProject()) }},
		{"OWNER", 12, func(u *pb.Usage) string { return known(u.GetOwner().GetName()) }},
		{"TASKS", -9, func(u *pb.Usage) string { return units.Count(u.GetTasks()) }},
		{"FILES", -13, func(u *pb.Usage) string { return units.Count(u.GetFiles()) }},
		{"BYTES", -9, func(u *pb.Usage) string { return units.Bytes(u.GetBytes()) }},
		{"FAILED", -9, func(u *pb.Usage) string { return units.Count(u.GetFailed()) }},
	}
	if daily {
		columns = append([]column[*pb.Usage]{{"DAY", 10, func(u *pb.Usage) string { return u.GetDay().AsTime().Format(time.DateOnly) }}}, columns...)
	}
	return listing[*pb.Usage]{what: "usage", columns: columns, view: func(u *pb.Usage) any { return viewUsage(u) }}
}

// movedView is what tasks of one project and person did, as JSON.
type movedView struct {
	Schema  string `json:"schema"`
	Project string `json:"project,omitempty"`
	Owner   string `json:"owner"`
	UID     uint32 `json:"uid"`
	Day     string `json:"day,omitempty"` // in UTC; absent: all that were asked for
	Tasks   int64  `json:"tasks"`
	Files   int64  `json:"files"`
	Bytes   int64  `json:"bytes"`
	Failed  int64  `json:"failed"`
}

func viewUsage(u *pb.Usage) movedView {
	v := movedView{Schema: schemaMoved, Project: u.GetProject(), Owner: u.GetOwner().GetName(), UID: u.GetOwner().GetUid(),
		Tasks: u.GetTasks(), Files: u.GetFiles(), Bytes: u.GetBytes(), Failed: u.GetFailed()}
	if u.GetDay() != nil {
		v.Day = u.GetDay().AsTime().Format(time.DateOnly)
	}
	return v
}
