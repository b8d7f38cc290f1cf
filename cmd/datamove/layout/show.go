package layout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/lustre"
	"datamove.dev/lustre/cephfs"
	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

const schemaLayout = "datamove.layout/v1"

func showCommand(a *cli.App) *cobra.Command {
	var f cli.Format
	cmd := &cobra.Command{
		Use:   "show [flags] [PATH...]",
		Short: "Print how files are striped",
		Long: `Show prints the layout of files, and of directories the one that new files in them
get, and where that comes from. It restores nothing from an archive.`,
		Example: `  datamove layout show /lustre/vision/train.tar
  datamove layout show -o json /lustre/vision`,
	}
	cmd.RunE = a.DoInSecondProcess(func(ctx context.Context, args []string) error {
		if len(args) == 0 {
			args = []string{"."}
		}
		return showLayouts(ctx, a, f, args)
	})
	cli.FormatVar(cmd.Flags(), &f, cli.ListFormats...)
	return cmd
}

// showLayouts prints the layouts of paths; those that have none are told in the end.
func showLayouts(ctx context.Context, a *cli.App, f cli.Format, paths []string) error {
	views, failed := cli.ProbePaths(ctx, a, paths, layoutOf)
	var err error
	switch {
	case f != cli.FormatTable:
		err = cli.List(a, f, listing, cli.Every(views))
	case len(views) > 0:
		err = cli.List(a, f, stripesListing, cli.Every(rowsOf(views)))
	}
	return errors.Join(failed, err)
}

// view is the layout of one path, as JSON.
type view struct {
	Schema     string        `json:"schema"`
	Path       string        `json:"path"`
	FileSystem string        `json:"file_system"`
	Kind       lustre.Kind   `json:"kind"`
	Directory  bool          `json:"directory"`       // then it is that of new files
	From       string        `json:"from"`            // "itself", "the file system", or the directory that has it
	Layout     lustre.Layout `json:"layout"`          // empty: the file system does not tell
	Width      int64         `json:"width,omitempty"` // of the first component: stripe size × stripe count
	Lfs        string        `json:"lfs,omitempty"`   // the command that gives a new file the same
	// Striping is how the entries of a directory are spread; absent when they are not.
	Striping lustre.Striping `json:"striping,omitzero"`
}

// layoutOf asks for the layout of a path.
func layoutOf(ctx context.Context, m *cli.Mounted) (*view, error) {
	if m.Layout == nil {
		return nil, m.Lack(lustre.AskLayout)
	}
	l, from, err := layoutFrom(ctx, m)
	if err != nil {
		return nil, naming(m.Path, cli.WithKernelKind(err))
	}
	v := &view{Schema: schemaLayout, Path: m.Path, FileSystem: m.Mount, Kind: m.Kind, Directory: m.Dir, From: from, Layout: l, Width: l.Width(0)}
	if striper, ok := m.Layout.(lustre.DirStriper); ok && m.Dir {
		if s, err := striper.Striping(ctx, m.FD); err == nil && s.Count > 1 {
			v.Striping = s
		}
	}
	wanted := l.Wanted()
	if args, ok := wanted.Setstripe(); ok && m.Kind == lustre.IsLustre {
		v.Lfs = cli.ShellLine(args...)
	}
	return v, nil
}

// Where a layout can come from, beside a directory above.
const (
	fromItself = "itself"
	fromSystem = "the file system"
)

// layoutFrom is the layout of a path, and which directory it comes from. Lustre gives
// new files that of the file system when their directory has none; CephFS that of the
// nearest directory above.
func layoutFrom(ctx context.Context, m *cli.Mounted) (lustre.Layout, string, error) {
	l, err := m.Layout.Layout(ctx, m.FD)
	if !errors.Is(err, lustre.ErrInherited) {
		return l, fromItself, err
	}
	if m.Kind == lustre.IsCephFS {
		l, from, err := cephfs.Default(ctx, m.FD)
		if errors.Is(err, lustre.ErrInherited) { // from above the mount, and not told
			err = nil
		}
		return l, cmp.Or(from, fromSystem), err
	}
	c, err := m.Layout.Cluster(ctx, m.FD)
	if errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return c.Default, fromSystem, err
}

// stripesRow is one component of one path in a table.
type stripesRow struct {
	*view
	c     *lustre.Component // nil when there is none
	first bool
}

// rowsOf is a row for each component.
func rowsOf(views []*view) (rows []stripesRow) {
	for _, v := range views {
		if len(v.Layout.Components) == 0 {
			rows = append(rows, stripesRow{v, nil, true})
		}
		for i := range v.Layout.Components {
			rows = append(rows, stripesRow{v, &v.Layout.Components[i], i == 0})
		}
	}
	return rows
}

// listing is how layouts are listed for machines, stripesListing for people.
var listing = cli.Listing[*view]{
	What: "layouts",
	View: func(v *view) any { return v },
	Name: func(v *view) string { return v.Path },
}

var stripesListing = cli.Listing[stripesRow]{
	What: "layouts",
	Columns: []cli.Column[stripesRow]{
		{Head: "BYTES", Width: 20, Text: ofComponent(rangeText)},
		{Head: "COUNT", Width: -7, Text: ofComponent(countText)},
		{Head: "STRIPE", Width: -8, Text: ofComponent(func(c *lustre.Component) string { return cli.BytesOrDash(c.StripeBytes) })},
		{Head: "POOL", Width: 10, Text: ofComponent(func(c *lustre.Component) string { return cli.OrDash(c.Pool) })},
		{Head: "OSTS", Width: 12, Text: ofComponent(targetsText)},
		{Head: "PATH", Width: 0, Text: layoutNote},
	},
}

// ofComponent is a cell that says something of a component.
func ofComponent(text func(*lustre.Component) string) func(stripesRow) string {
	return func(r stripesRow) string {
		if r.c == nil {
			return "-"
		}
		return text(r.c)
	}
}

// rangeText is which bytes of a file a component has.
func rangeText(c *lustre.Component) string {
	switch {
	case c.Start == 0 && c.End == lustre.EOF:
		return "all"
	case c.End == lustre.EOF:
		return "from " + units.Bytes(c.Start)
	case c.Start == 0:
		return "up to " + units.Bytes(c.End)
	}
	return units.Bytes(c.Start) + " - " + units.Bytes(c.End)
}

// countText is a stripe count as layout set reads it.
func countText(c *lustre.Component) string {
	switch {
	case c.Pattern == lustre.OnMDT:
		return "mdt"
	case c.StripeCount == lustre.AllTargets:
		return "all"
	case c.Pattern == lustre.Overstriped:
		return overWord + strconv.Itoa(c.StripeCount)
	case c.StripeCount == 0:
		return "-"
	}
	return strconv.Itoa(c.StripeCount)
}

// mostShown is how many OSTs of a component a table has.
const mostShown = 8

// targetsText is where a component lies.
func targetsText(c *lustre.Component) string {
	var b strings.Builder
	for i, o := range c.Objects[:min(len(c.Objects), mostShown)] {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(o.Target))
	}
	if rest := len(c.Objects) - mostShown; rest > 0 {
		fmt.Fprintf(&b, " and %d more", rest)
	}
	return cli.OrDash(b.String())
}

// layoutNote is the path, on its first line, and what else there is to say.
func layoutNote(r stripesRow) string {
	var text string
	notes := r.notes()
	if r.first {
		text = mover.Printable(r.Path) + " "
		if n := r.Striping.Count; n > 1 {
			notes = append([]string{fmt.Sprintf("entries on %d MDTs by %v", n, r.Striping.Hash)}, notes...)
		}
		if r.Striping.Foreign != nil {
			notes = append([]string{"entries are kept by something else than Lustre"}, notes...)
		}
		if r.From != fromItself {
			notes = append([]string{"from " + mover.Printable(r.From)}, notes...)
		}
	}
	if len(notes) > 0 {
		text += "(" + strings.Join(notes, ", ") + ")"
	}
	return strings.TrimSpace(text)
}

// notes are what a component has beside its numbers, or a layout without any.
func (r stripesRow) notes() (notes []string) {
	switch {
	case r.Layout.Foreign != nil:
		return []string{fmt.Sprintf("foreign, of type %d", r.Layout.Foreign.Type)}
	case len(r.Layout.Opaque) > 0:
		return []string{"a format that is not known here"}
	case r.c == nil:
		return []string{"which does not tell it"}
	}
	if mirror := r.c.Mirror(); mirror > 0 {
		notes = append(notes, fmt.Sprintf("mirror %d", mirror))
	}
	if r.c.PoolNamespace != "" {
		notes = append(notes, "namespace "+r.c.PoolNamespace)
	}
	if r.c.ObjectBytes > 0 {
		notes = append(notes, "objects of "+units.Bytes(r.c.ObjectBytes))
	}
	return append(notes, slices.DeleteFunc(r.c.Flags.Names(), func(name string) bool { return name == "init" })...)
}
