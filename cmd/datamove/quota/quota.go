// Package quota has the commands that show and set quotas of projects, and says of a directory whether its project has room ([Room]).
//
// The file system is opened by cli.App.Mounted, and asked through package lustre. cmd/datamove/root TestQuotaCommands is a session on a Lustre in memory.
package quota

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/lustre"
	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

const schemaQuota = "datamove.quota/v1"

// Command is datamove quota.
func Command(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "quota",
		Short: "See and set what projects may hold",
		Long: `A project is what files are accounted under: a project ID of Lustre, ext4 and xfs, a
subvolume of btrfs, a fileset of GPFS, a directory of CephFS. Its quota says how many
bytes and files it may hold.`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = a.Do(func(context.Context, []string) error { return cmd.Help() })
	cmd.AddCommand(showCommand(a), setCommand(a))
	return cmd
}

func showCommand(a *cli.App) *cobra.Command {
	var f cli.Format
	cmd := &cobra.Command{
		Use:   "show [flags] [PATH...]",
		Short: "Print the quotas of projects, and what is left",
		Long: `Show prints the quota of the project that each PATH is in. With -o wide each target
of the file system has a line of its own; otherwise only those that are over their
share: there a project can be full while the whole is not.

The first HARD and LEFT are of bytes, the second of files; soft limits have columns
where there are any. HELD lists the accounts that the hard limit stops: all, users
(not root), or none.`,
		Example: `  datamove quota show /lustre/vision
  datamove quota show -o wide /lustre/vision`,
	}
	cmd.RunE = a.DoInSecondProcess(func(ctx context.Context, args []string) error {
		if len(args) == 0 {
			args = []string{"."}
		}
		return showQuotas(ctx, a, f, args)
	})
	cli.FormatVar(cmd.Flags(), &f, formats...)
	return cmd
}

var formats = append([]cli.Format{cli.FormatTable, cli.FormatWide}, cli.ListFormats[1:]...)

// showQuotas prints the quotas of paths; those that have none are told in the end.
func showQuotas(ctx context.Context, a *cli.App, f cli.Format, paths []string) error {
	views, failed := cli.ProbePaths(ctx, a, paths, func(ctx context.Context, m *cli.Mounted) (*View, error) { return quotaOf(ctx, a, m) })
	var err error
	switch {
	case f != cli.FormatTable && f != cli.FormatWide:
		err = cli.List(a, f, listing, cli.Every(views))
	case len(views) > 0:
		rows := limitRows(views, f == cli.FormatWide)
		err = cli.List(a, f, limitsListing(rows), cli.Every(rows))
		for _, v := range views {
			tellQuota(a, v)
		}
	}
	return errors.Join(failed, err)
}

// quotaOf asks for the quota of the project of a path.
func quotaOf(ctx context.Context, a *cli.App, m *cli.Mounted) (*View, error) {
	q, err := readQuota(ctx, m)
	if err != nil {
		return nil, err
	}
	return ViewOf(m, &q), nil
}

// readQuota is the quota of the project of an open directory.
func readQuota(ctx context.Context, m *cli.Mounted) (q lustre.Quota, err error) {
	if m.Quota == nil {
		return q, m.Lack(lustre.AskQuota)
	}
	p, err := m.Quota.Project(ctx, m.FD)
	if err != nil {
		return q, fmt.Errorf("project of %s: %w", mover.Printable(m.Path), cli.WithKernelKind(err))
	}
	q, err = m.Quota.Quota(ctx, m.FD, p)
	return q, cli.WithKernelKind(err)
}

// tellQuota says what a person should know beside the numbers.
func tellQuota(a *cli.App, v *View) {
	path := mover.Printable(v.Path)
	switch {
	case !v.inProject():
		a.Note("%s is in no project: no limit holds there; datamove quota set --project ID puts it into one", path)
	case v.HardBytes+v.HardFiles > 0 && !v.Enforced:
		a.Note("%s: the limits are not enforced: %s", path, EnforceMend(v.Kind))
	case v.HardBytes+v.HardFiles > 0 && !v.RootToo && os.Geteuid() == 0:
		a.Note("%s: the limit does not stop root: check the room before a copy as root", path)
	}
	if v.Doubt != "" {
		a.Note("%s: %s", path, v.Doubt)
	}
}

// View is the quota of the project of a path, as JSON. A limit of 0 is none.
type View struct {
	Schema     string        `json:"schema"`
	Path       string        `json:"path"`
	FileSystem string        `json:"file_system"`
	Kind       lustre.Kind   `json:"kind"`
	Project    projectView   `json:"project"`
	UsedBytes  int64         `json:"used_bytes"`
	SoftBytes  int64         `json:"soft_bytes"`
	HardBytes  int64         `json:"hard_bytes"`
	LeftBytes  *int64        `json:"left_bytes,omitempty"`  // absent: there is no limit
	BytesUntil *time.Time    `json:"bytes_until,omitempty"` // when the soft limit, which is passed, becomes a hard one
	UsedFiles  *int64        `json:"used_files,omitempty"`  // absent: they are not counted
	SoftFiles  int64         `json:"soft_files"`
	HardFiles  int64         `json:"hard_files"`
	LeftFiles  *int64        `json:"left_files,omitempty"`
	FilesUntil *time.Time    `json:"files_until,omitempty"`
	Enforced   bool          `json:"enforced"`
	RootToo    bool          `json:"root_too"` // it refuses root as well
	Doubt      string        `json:"doubt,omitempty"`
	Targets    []targetQuota `json:"targets,omitempty"`
	Around     []*View       `json:"around,omitempty"` // quotas that hold for it as well, the narrowest first
}

type projectView struct {
	ID      uint32 `json:"id"`
	Name    string `json:"name,omitempty"`
	Inherit bool   `json:"inherit"` // new entries get the same
}

type targetQuota struct {
	Target       string `json:"target"`
	Pool         bool   `json:"pool,omitempty"` // of OSTs
	UsedBytes    int64  `json:"used_bytes"`
	GrantedBytes int64  `json:"granted_bytes"`
	Over         bool   `json:"over"`
}

// ViewOf is a quota as JSON has it.
func ViewOf(m *cli.Mounted, q *lustre.Quota) *View {
	v := &View{Schema: schemaQuota, Path: m.Path, FileSystem: m.Mount, Kind: m.Kind, Project: projectView(q.Project),
		UsedBytes: q.UsedBytes, SoftBytes: q.SoftBytes, HardBytes: q.HardBytes, SoftFiles: q.SoftFiles, HardFiles: q.HardFiles,
		Enforced: q.Enforced, RootToo: q.RootToo, Doubt: q.Doubt, BytesUntil: since(q.BytesUntil), FilesUntil: since(q.FilesUntil)}
	if left, ok := q.LeftBytes(); ok {
		v.LeftBytes = &left
	}
	if q.CountsFiles {
		v.UsedFiles = &q.UsedFiles
	}
	if left, ok := q.LeftFiles(); ok {
		v.LeftFiles = &left
	}
	for _, t := range q.Targets {
		v.Targets = append(v.Targets, targetQuota{t.Target, t.Pool, t.UsedBytes, t.GrantedBytes,
			t.GrantedBytes > 0 && (t.UsedBytes > t.GrantedBytes || t.Pool && t.UsedBytes == t.GrantedBytes)})
	}
	for i := range q.Around {
		v.Around = append(v.Around, ViewOf(m, &q.Around[i]))
	}
	return v
}

// since is a time for machines; nil for none.
func since(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// inProject reports whether there is a project at all: number 0 is of all files that are in none.
func (v *View) inProject() bool { return v.Project.ID != 0 || v.Project.Name != "" }

// limitRow is a line of a table: a project as a whole, or its share on a target.
type limitRow struct {
	*View
	target *targetQuota
}

func limitRows(views []*View, wide bool) (rows []limitRow) {
	for _, v := range views {
		rows = append(rows, limitRow{v, nil})
		for i := range v.Targets {
			if t := &v.Targets[i]; wide || t.Over || t.Pool {
				rows = append(rows, limitRow{v, t})
			}
		}
		rows = append(rows, limitRows(v.Around, wide)...)
	}
	return rows
}

var listing = cli.Listing[*View]{
	What: "quotas",
	View: func(v *View) any { return v },
	Name: func(v *View) string { return v.Path },
}

// limitsListing is how limits are listed for people: without columns of soft ones where there
// are none, which leaves room for a path within 100 characters.
func limitsListing(rows []limitRow) cli.Listing[limitRow] {
	l := softAndHard
	if !slices.ContainsFunc(rows, func(r limitRow) bool { return r.SoftBytes > 0 || r.SoftFiles > 0 }) {
		l.Columns = slices.DeleteFunc(slices.Clone(l.Columns), func(c cli.Column[limitRow]) bool { return c.Head == softHead })
	}
	return l
}

const softHead = "SOFT"

var softAndHard = cli.Listing[limitRow]{
	What: "quotas",
	Columns: []cli.Column[limitRow]{
		{Head: "PROJECT", Width: 12, Text: limitRow.project},
		{Head: "USED", Width: -8, Text: func(r limitRow) string { return units.Bytes(r.used()) }},
		{Head: softHead, Width: -8, Text: whole(func(v *View) string { return cli.BytesOrDash(v.SoftBytes) })},
		{Head: "HARD", Width: -8, Text: func(r limitRow) string { return cli.BytesOrDash(r.hard()) }},
		{Head: "LEFT", Width: -8, Text: whole(func(v *View) string { return LeftText(v.LeftBytes, units.Bytes) })},
		{Head: "FILES", Width: -9, Text: whole(func(v *View) string { return LeftText(v.UsedFiles, units.Count) })},
		{Head: softHead, Width: -9, Text: whole(func(v *View) string { return countKnown(v.SoftFiles) })},
		{Head: "HARD", Width: -9, Text: whole(func(v *View) string { return countKnown(v.HardFiles) })},
		{Head: "LEFT", Width: -9, Text: whole(func(v *View) string { return LeftText(v.LeftFiles, units.Count) })},
		{Head: "HELD", Width: 6, Text: whole(heldText)},
		{Head: "PATH", Width: 0, Text: limitRow.where},
	},
	Colour: func(r limitRow) string {
		used, hard := r.used(), r.hard()
		switch {
		case r.target != nil && r.target.Over, hard > 0 && used >= hard, r.LeftFiles != nil && *r.LeftFiles == 0:
			return cli.Red
		case hard > 0 && float64(used) > 0.85*float64(hard), r.BytesUntil != nil, r.FilesUntil != nil:
			return cli.Yellow
		}
		return ""
	},
}

// whole is a cell that only a project as a whole has.
func whole(text func(*View) string) func(limitRow) string {
	return func(r limitRow) string {
		if r.target != nil {
			return ""
		}
		return text(r.View)
	}
}

func (r limitRow) project() string {
	switch {
	case r.target != nil && r.target.Pool:
		return "  pool " + r.target.Target
	case r.target != nil:
		return "  " + r.target.Target
	case !r.inProject():
		return "-"
	case filepath.IsAbs(r.Project.Name):
		return "directory" // which is its name
	}
	return cmp.Or(r.Project.Name, fmt.Sprint(r.Project.ID))
}

func (r limitRow) used() int64 {
	if r.target != nil {
		return r.target.UsedBytes
	}
	return r.UsedBytes
}

func (r limitRow) hard() int64 {
	if r.target != nil {
		return r.target.GrantedBytes
	}
	return r.HardBytes
}

func (r limitRow) where() string {
	var notes []string
	switch {
	case r.target != nil && r.target.Over && r.target.Pool:
		return "full: nothing more goes to its OSTs"
	case r.target != nil && r.target.Over:
		return "over its share"
	case r.target != nil:
		return ""
	case r.BytesUntil != nil:
		notes = append(notes, "bytes")
	}
	if r.FilesUntil != nil {
		notes = append(notes, "files")
	}
	path := mover.Printable(r.Path)
	if filepath.IsAbs(r.Project.Name) {
		path = mover.Printable(r.Project.Name)
	}
	if len(notes) == 0 {
		return path
	}
	until := cmp.Or(r.BytesUntil, r.FilesUntil)
	return fmt.Sprintf("%s (over the soft limit of %s, until %s)", path, strings.Join(notes, " and "), until.Local().Format("2006-01-02 15:04"))
}

func heldText(v *View) string {
	switch {
	case !v.Enforced || !v.inProject():
		return "none"
	case v.RootToo:
		return "all"
	}
	return "users"
}

// LeftText is what is left of a limit, for people; nil is no limit.
func LeftText(n *int64, text func(int64) string) string {
	if n == nil {
		return "-"
	}
	return text(*n)
}

func countKnown(n int64) string {
	if n == 0 {
		return "-"
	}
	return units.Count(n)
}
