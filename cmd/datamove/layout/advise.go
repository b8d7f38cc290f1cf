package layout

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/lustre"
	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

const schemaAdvice = "datamove.advice/v1"

func adviseCommand(a *cli.App) *cobra.Command {
	var (
		f cli.Format
		q requestWords
		k clusterWords
	)
	cmd := &cobra.Command{
		Use:   "advise [flags] [PATH]",
		Short: "Say which layout suits a file, and why",
		Long: `Advise says which layout suits the files that are described, on the file system of
PATH, or on one of --osts OSTs that need not be mounted here. It prints each number
with its reason and its source, and the commands that set the layout; it changes
nothing. What needs a look is marked with an exclamation mark.`,
		Example: `  datamove layout advise --use dataset /lustre/vision
  datamove layout advise --size 500GiB --use shared --writers 2048 --osts 64
  datamove layout advise /lustre/vision/train.tar`,
		Args: cobra.MaximumNArgs(1),
	}
	cmd.RunE = a.DoInSecondProcess(func(ctx context.Context, args []string) error {
		v, err := advice(ctx, a, args, &q, &k)
		if err != nil {
			return err
		}
		return v.print(a, f)
	})
	cli.FormatVar(cmd.Flags(), &f, cli.FormatTable, cli.FormatJSON, cli.FormatYAML)
	q.flagsOf(cmd.Flags())
	cmd.Flags().StringVar(&q.r.Pool, "pool", "", "on the OSTs of this `POOL`; default is the one that suits, which is none where all OSTs are alike")
	k.flagsOf(cmd.Flags())
	return cmd
}

// requestWords are the flags that describe files.
type requestWords struct{ r lustre.Request }

// requestFlags are their names.
var requestFlags = []string{"size", "use", "writers", "io-size", "files", "media"}

func (q *requestWords) flagsOf(flags *pflag.FlagSet) {
	cli.ParsedVar(flags, &q.r.Bytes, "size", units.ParseBytes, "`SIZE` of a file, of the largest of many; default is not known")
	uses := make([]cli.Choice[lustre.Use], len(lustre.Uses))
	for i, use := range lustre.Uses {
		uses[i] = cli.Choice[lustre.Use]{Word: string(use), Value: use}
	}
	flags.Var(&cli.Chosen[lustre.Use]{Dst: &q.r.Use, Choices: uses}, "use", "what files are for, a `USE`: general, checkpoint (each of --writers writes one), dataset (many read), small (many small files), shared (--writers write one)")
	cli.ParsedVar(flags, &q.r.Writers, "writers", parseCount[int], "how `MANY` ranks or clients write at the same time")
	cli.ParsedVar(flags, &q.r.IOBytes, "io-size", units.ParseBytes, "`SIZE` of one write into a shared file")
	cli.ParsedVar(flags, &q.r.Files, "files", parseCount[int64], "how `MANY` files one directory has")
	media := []cli.Choice[lustre.Media]{{Word: string(lustre.Flash), Value: lustre.Flash}, {Word: string(lustre.Disk), Value: lustre.Disk}}
	flags.Var(&cli.Chosen[lustre.Media]{Dst: &q.r.Media, Choices: media}, "media", "lie on this `MEDIA`, flash or disk, where there is a pool of it")
}

// clusterWords are the flags that describe a file system.
type clusterWords struct {
	osts, mdts int
	version    string
}

func (k *clusterWords) flagsOf(flags *pflag.FlagSet) {
	cli.ParsedVar(flags, &k.osts, "osts", parseCount[int], "for a file system that is not mounted here, with this `NUMBER` of OSTs")
	cli.ParsedVar(flags, &k.mdts, "mdts", parseCount[int], "and this `NUMBER` of MDTs (default 1)")
	flags.StringVar(&k.version, "lustre", "2.15", "and this `VERSION` of Lustre")
}

// parseCount reads a number of things.
func parseCount[N int | int64](s string) (N, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 || int64(N(n)) != n {
		return 0, fmt.Errorf("want a number of 1 or more")
	}
	return N(n), nil
}

// mostTargets bounds the file systems that can be described: no Lustre has more OSTs
// (Lustre Operations Manual, limits).
const mostTargets = 8150

// cluster is a file system as flags describe it.
func (k *clusterWords) cluster() (lustre.Cluster, error) {
	can, err := lustre.CapabilitiesOf(k.version)
	c := lustre.Cluster{Can: can}
	if err != nil {
		return c, mover.Misusef("--lustre: %w", err)
	}
	if k.osts > mostTargets || k.mdts > mostTargets {
		return c, mover.Misusef("no Lustre has more than %d targets", mostTargets)
	}
	for i := range k.osts {
		c.OSTs = append(c.OSTs, lustre.Target{Kind: lustre.OST, Index: i})
	}
	for i := range max(k.mdts, 1) {
		c.MDTs = append(c.MDTs, lustre.Target{Kind: lustre.MDT, Index: i})
	}
	return c, nil
}

// adviceView is an advice as JSON.
type adviceView struct {
	Schema  string         `json:"schema"`
	Path    string         `json:"path,omitempty"`
	Request lustre.Request `json:"request"`
	lustre.Advice
	Commands []string `json:"commands"` // that set the layout for new files of a directory
	Lfs      []string `json:"lfs"`      // the same with the tools of Lustre
}

// advice asks for what is known of the file system, and for the advice.
func advice(ctx context.Context, a *cli.App, args []string, q *requestWords, k *clusterWords) (*adviceView, error) {
	v := &adviceView{Schema: schemaAdvice, Request: q.r}
	target := "DIR"
	var c lustre.Cluster
	var err error
	switch {
	case len(args) == 1 && k.osts > 0:
		return nil, mover.Misusef("PATH and --osts are two file systems: say one")
	case len(args) == 1:
		c, err = cli.ProbePath(ctx, a, args[0], func(ctx context.Context, m *cli.Mounted) (lustre.Cluster, error) {
			if v.Path = m.Path; m.Dir {
				target = m.Path
			}
			return measured(ctx, a, m, &v.Request)
		})
		if err != nil {
			return nil, err
		}
	case k.osts > 0 || k.mdts > 0:
		if c, err = k.cluster(); err != nil {
			return nil, err
		}
	}
	v.Advice = lustre.Advise(v.Request, c)
	v.commands(target)
	return v, nil
}

// measured is what is known of the file system of m. A file that is there tells its size.
func measured(ctx context.Context, a *cli.App, m *cli.Mounted, r *lustre.Request) (lustre.Cluster, error) {
	if m.Layout == nil {
		return lustre.Cluster{}, cli.Advise(m.Lack(lustre.AskLayout), "--osts NUMBER instead of a path, for a Lustre that is not mounted here")
	}
	if other, known := unadvised[m.Kind]; known {
		err := fmt.Errorf("advice for %s (%s): %w: it is for Lustre; here %s", mover.Printable(m.Path), m.Kind, errors.ErrUnsupported, other.why)
		return lustre.Cluster{}, cli.Advise(err, other.instead)
	}
	if info, err := os.Stat(m.Path); err == nil && info.Mode().IsRegular() && r.Bytes == 0 {
		r.Bytes = info.Size()
	}
	c, err := m.Layout.Cluster(ctx, m.FD)
	if err != nil {
		return c, fmt.Errorf("targets of %s: %w", mover.Printable(m.Mount), cli.WithKernelKind(err))
	}
	return c, nil
}

// unadvised are file systems with layouts, of which there is little to choose: why, and
// what it is.
var unadvised = map[lustre.Kind]struct{ why, instead string }{
	lustre.IsCephFS: {"each object of a file is on OSDs of its own, so that a large file is on all of them with any layout",
		"datamove layout show, for what there is; datamove layout set --pool POOL DIR, for new files in another pool; --stripe-count and --stripe-size, for small pieces that are to go to several OSDs at once"},
	lustre.IsGPFS: {"each file is on all disks of its pool",
		"datamove layout show, for what there is; datamove layout set --pool POOL FILE, which makes a file in another pool; where others go is in the placement policy: mmlspolicy"},
}

// commands are what sets the layout for new files of a directory. A directory with entries
// on several servers has to be made.
func (v *adviceView) commands(dir string) {
	set := []string{"datamove", "layout", "set"}
	if mkdir, ok := v.Striping.Mkdir(); ok {
		if dir == v.Path {
			dir = filepath.Join(dir, "NEWDIR")
		}
		v.Lfs = append(v.Lfs, cli.ShellLine(append(mkdir, dir)...))
		set = append(set, "--mdt-count", strconv.Itoa(v.Striping.Count))
	}
	if l := v.Layout.Components; len(l) == 1 {
		set = append(set, "--stripe-count", countText(&l[0]), "--stripe-size", exactSize(l[0].StripeBytes))
		if l[0].Pool != "" {
			set = append(set, "--pool", l[0].Pool)
		}
	} else {
		for i := range l {
			set = append(set, "--component", componentText(&l[i]))
		}
	}
	v.Commands = append(v.Commands, cli.ShellLine(append(set, dir)...))
	if lfs, ok := v.Layout.Setstripe(); ok {
		v.Lfs = append(v.Lfs, cli.ShellLine(append(lfs, dir)...))
	}
}

// reasonsListing is how an advice explains itself.
func reasonsListing(reasons []lustre.Reason) cli.Listing[lustre.Reason] {
	values := 14
	for _, r := range reasons {
		values = max(values, utf8.RuneCountInString(r.Value))
	}
	return cli.Listing[lustre.Reason]{
		What: "reasons",
		Columns: []cli.Column[lustre.Reason]{
			{Head: "NUMBER", Width: 14, Text: func(r lustre.Reason) string { return map[bool]string{true: "! "}[r.Doubt] + r.What }},
			{Head: "VALUE", Width: values, Text: func(r lustre.Reason) string { return r.Value }},
			{Head: "WHY, AND ITS SOURCE", Width: 0, Text: func(r lustre.Reason) string { return r.Why + " (" + r.Source + ")" }},
		},
		Colour: func(r lustre.Reason) string { return map[bool]string{true: cli.Yellow}[r.Doubt] },
	}
}

func (v *adviceView) print(a *cli.App, f cli.Format) error {
	if f != cli.FormatTable {
		return cli.WriteObject(a.Out, f, v)
	}
	if err := cli.List(a, f, reasonsListing(v.Reasons), cli.Every(v.Reasons)); err != nil {
		return err
	}
	out := cli.NewLines(a.Out)
	out.Printf("\nfor the new files of a directory:")
	for _, line := range v.Commands {
		out.Printf("  %s", cli.Shown(line))
	}
	out.Printf("or, with the tools of Lustre:")
	for _, line := range v.Lfs {
		out.Printf("  %s", cli.Shown(line))
	}
	return out.Flush()
}

// tellDoubts tells a person what advice is in doubt about.
func tellDoubts(a *cli.App, reasons []lustre.Reason) {
	for _, r := range reasons {
		if r.Doubt {
			a.Note("%s: %s: %s", r.What, r.Value, r.Why)
		}
	}
}
