package cli

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

	"datamove.dev/cmd/datamove/doctor"
	"datamove.dev/lustre"
	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

func (a *app) quotaCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "quota",
		Short: "See and set what projects may hold",
		Long: `A project is what files are accounted under: a project ID of Lustre, ext4 and xfs, a
subvolume of btrfs, a fileset of GPFS, a directory of CephFS. Its quota says how many
bytes and files it may hold.`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = a.do(func(context.Context, []string) error { return cmd.Help() })
	cmd.AddCommand(a.quotaShow(), a.quotaSet())
	return cmd
}

func (a *app) quotaShow() *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use:   "show [flags] [PATH...]",
		Short: "Print the quotas of projects, and what is left",
		Long: `Show prints the quota of the project that each PATH is in. With -o wide each target
of the file system has a line of its own; otherwise only those that are over their
share: there a project can be full while the whole is not.

The first HARD and LEFT are of bytes, the second of files; soft limits have columns
where there are any. HELD says whom the file system refuses what is over the hard
limit: all, users (not root), or nobody.`,
		Example: `  datamove quota show /lustre/vision
  datamove quota show -o wide /lustre/vision`,
	}
	cmd.RunE = a.doApart(func(ctx context.Context, args []string) error {
		if len(args) == 0 {
			args = []string{"."}
		}
		return a.showQuotas(ctx, f, args)
	})
	formatVar(cmd.Flags(), &f, quotaFormats...)
	return cmd
}

var quotaFormats = append([]format{formatTable, formatWide}, listFormats[1:]...)

// showQuotas prints the quotas of paths; those that have none are told in the end.
func (a *app) showQuotas(ctx context.Context, f format, paths []string) error {
	views, failed := eachPath(ctx, a, paths, func(ctx context.Context, m *mounted) (*quotaView, error) { return a.quotaOf(ctx, m) })
	var err error
	switch {
	case f != formatTable && f != formatWide:
		err = list(a, f, quotasListing, every(views))
	case len(views) > 0:
		rows := limitRows(views, f == formatWide)
		err = list(a, f, limitsListing(rows), every(rows))
		for _, v := range views {
			a.tellQuota(v)
		}
	}
	return errors.Join(failed, err)
}

// quotaOf asks for the quota of the project of a path.
func (a *app) quotaOf(ctx context.Context, m *mounted) (*quotaView, error) {
	q, err := readQuota(ctx, m)
	if err != nil {
		return nil, err
	}
	return viewQuota(m, &q), nil
}

// readQuota is the quota of the project of an open directory.
func readQuota(ctx context.Context, m *mounted) (q lustre.Quota, err error) {
	if m.Quota == nil {
		return q, m.Lack(lustre.AskQuota)
	}
	p, err := m.Quota.Project(ctx, m.fd)
	if err != nil {
		return q, fmt.Errorf("project of %s: %w", mover.Printable(m.path), kindly(err))
	}
	q, err = m.Quota.Quota(ctx, m.fd, p)
	return q, kindly(err)
}

// tellQuota says what a person should know beside the numbers.
func (a *app) tellQuota(v *quotaView) {
	path := mover.Printable(v.Path)
	switch {
	case !v.inProject():
		a.note("%s is in no project: no limit holds there; datamove quota set --project ID puts it into one", path)
	case v.HardBytes+v.HardFiles > 0 && !v.Enforced:
		a.note("%s: the limits are not enforced: %s", path, doctor.EnforceMend(v.Kind))
	case v.HardBytes+v.HardFiles > 0 && !v.RootToo && os.Geteuid() == 0:
		a.note("%s: root is not refused what is over the limit: who copies as root has to look by himself", path)
	}
	if v.Doubt != "" {
		a.note("%s: %s", path, v.Doubt)
	}
}

// quotaView is the quota of the project of a path, as JSON. A limit of 0 is none.
type quotaView struct {
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
	Around     []*quotaView  `json:"around,omitempty"` // quotas that hold for it as well, the narrowest first
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

func viewQuota(m *mounted, q *lustre.Quota) *quotaView {
	v := &quotaView{Schema: schemaQuota, Path: m.path, FileSystem: m.Mount, Kind: m.Kind, Project: projectView(q.Project),
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
		v.Around = append(v.Around, viewQuota(m, &q.Around[i]))
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
func (v *quotaView) inProject() bool { return v.Project.ID != 0 || v.Project.Name != "" }

// limitRow is a line of a table: a project as a whole, or its share on a target.
type limitRow struct {
	*quotaView
	target *targetQuota
}

func limitRows(views []*quotaView, wide bool) (rows []limitRow) {
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

var quotasListing = listing[*quotaView]{
	what: "quotas",
	view: func(v *quotaView) any { return v },
	name: func(v *quotaView) string { return v.Path },
}

// limitsListing is how limits are listed for people: without columns of soft ones where there
// are none, which leaves room for a path within 100 characters.
func limitsListing(rows []limitRow) listing[limitRow] {
	l := softAndHard
	if !slices.ContainsFunc(rows, func(r limitRow) bool { return r.SoftBytes > 0 || r.SoftFiles > 0 }) {
		l.columns = slices.DeleteFunc(slices.Clone(l.columns), func(c column[limitRow]) bool { return c.head == softHead })
	}
	return l
}

const softHead = "SOFT"

var softAndHard = listing[limitRow]{
	what: "quotas",
	columns: []column[limitRow]{
		{"PROJECT", 12, limitRow.project},
		{"USED", -8, func(r limitRow) string { return units.Bytes(r.used()) }},
		{softHead, -8, whole(func(v *quotaView) string { return bytesKnown(v.SoftBytes) })},
		{"HARD", -8, func(r limitRow) string { return bytesKnown(r.hard()) }},
		{"LEFT", -8, whole(func(v *quotaView) string { return leftText(v.LeftBytes, units.Bytes) })},
		{"FILES", -9, whole(func(v *quotaView) string { return leftText(v.UsedFiles, units.Count) })},
		{softHead, -9, whole(func(v *quotaView) string { return countKnown(v.SoftFiles) })},
		{"HARD", -9, whole(func(v *quotaView) string { return countKnown(v.HardFiles) })},
		{"LEFT", -9, whole(func(v *quotaView) string { return leftText(v.LeftFiles, units.Count) })},
		{"HELD", 6, whole(heldText)},
		{"PATH", 0, limitRow.where},
	},
	colour: func(r limitRow) string {
		used, hard := r.used(), r.hard()
		switch {
		case r.target != nil && r.target.Over, hard > 0 && used >= hard, r.LeftFiles != nil && *r.LeftFiles == 0:
			return red
		case hard > 0 && float64(used) > 0.85*float64(hard), r.BytesUntil != nil, r.FilesUntil != nil:
			return yellow
		}
		return ""
	},
}

// whole is a cell that only a project as a whole has.
func whole(text func(*quotaView) string) func(limitRow) string {
	return func(r limitRow) string {
		if r.target != nil {
			return ""
		}
		return text(r.quotaView)
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

func heldText(v *quotaView) string {
	switch {
	case !v.Enforced || !v.inProject():
		return "nobody"
	case v.RootToo:
		return "all"
	}
	return "users"
}

func leftText(n *int64, text func(int64) string) string {
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

const schemaQuota = "datamove.quota/v1"
