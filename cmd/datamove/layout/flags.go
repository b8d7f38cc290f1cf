package layout

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/lustre"
	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

// overWord stands before the count of stripes of a file that may have several on one OST.
const overWord = "over"

// stripes is a stripe count as it is written: 8, all, mdt, over64.
type stripes struct {
	pattern lustre.Pattern
	count   int
}

func parseStripes(s string) (stripes, error) {
	digits, over := strings.CutPrefix(s, overWord)
	n, err := strconv.Atoi(digits)
	switch {
	case s == "all" || s == "-1":
		return stripes{lustre.RAID0, lustre.AllTargets}, nil
	case s == "mdt":
		return stripes{lustre.OnMDT, 0}, nil
	case err != nil || n < 1 || n > lustre.MaxStripes:
		return stripes{}, fmt.Errorf("%q: want a number from 1 to %d, all, mdt (on the metadata server), or over64 (several on one OST)", s, lustre.MaxStripes)
	case over:
		return stripes{lustre.Overstriped, n}, nil
	}
	return stripes{lustre.RAID0, n}, nil
}

// parseStripeSize reads a size that Lustre can have.
func parseStripeSize(s string) (int64, error) {
	n, err := units.ParseBytes(s)
	switch {
	case err != nil:
		return 0, err
	case n <= 0 || n%lustre.StripeUnit != 0:
		return 0, fmt.Errorf("%q: want a multiple of %s", s, units.Bytes(lustre.StripeUnit))
	case n > lustre.MaxStripeBytes:
		return 0, fmt.Errorf("%q: want at most %d bytes", s, int64(lustre.MaxStripeBytes))
	}
	return n, nil
}

// parseMDTs reads how many metadata servers a directory is spread over.
func parseMDTs(s string) (int, error) {
	if s == "all" {
		return lustre.AllTargets, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > lustre.MaxStripes {
		return 0, fmt.Errorf("%q: want a number from 1 on, or all", s)
	}
	return n, nil
}

// parseComponent reads END,COUNT[,SIZE[,POOL]]. Where it begins is the end of the one
// before it.
func parseComponent(s string) (lustre.Component, error) {
	c := lustre.Component{End: lustre.EOF, FirstTarget: lustre.AnyTarget}
	fields := strings.Split(s, ",")
	if len(fields) < 2 || len(fields) > 4 {
		return c, fmt.Errorf("%q: want END,COUNT[,SIZE[,POOL]], as in 64MiB,1 or end,8,4MiB,flash", s)
	}
	var err error
	if end := fields[0]; end != "end" && end != "-1" {
		if c.End, err = units.ParseBytes(end); err != nil {
			return c, fmt.Errorf("the end, %w; or the word end", err)
		}
		if c.End <= 0 || c.End%lustre.StripeUnit != 0 {
			return c, fmt.Errorf("the end, %q: want a multiple of %s, or the word end", end, units.Bytes(lustre.StripeUnit))
		}
	}
	count, err := parseStripes(fields[1])
	if err != nil {
		return c, err
	}
	c.Pattern, c.StripeCount = count.pattern, count.count
	if len(fields) > 2 && fields[2] != "" {
		if c.StripeBytes, err = parseStripeSize(fields[2]); err != nil {
			return c, err
		}
	}
	if len(fields) > 3 {
		c.Pool = fields[3]
	}
	return c, nil
}

// componentText is the inverse of parseComponent.
func componentText(c *lustre.Component) string {
	end := "end"
	if c.End != lustre.EOF {
		end = exactSize(c.End)
	}
	text := end + "," + countText(c)
	if c.Pattern == lustre.OnMDT {
		return text
	}
	if c.StripeBytes > 0 || c.Pool != "" {
		text += "," + exactSize(c.StripeBytes)
	}
	if c.Pool != "" {
		text += "," + c.Pool
	}
	return text
}

// exactSize is a number of bytes as flags read them, with nothing lost: 4MiB; "" for 0.
func exactSize(n int64) string {
	if n == 0 {
		return ""
	}
	text := lustre.LfsSize(n)
	if unit := text[len(text)-1]; unit >= 'A' && unit <= 'Z' {
		return text + "iB"
	}
	return text
}

// layoutWords are the flags that say a layout.
type layoutWords struct {
	size       int64
	count      stripes
	pool       string
	components []lustre.Component
	like       string
	advise     bool
	remove     bool
	mdts       int  // that a new directory is spread over; 0 makes none
	block      bool // processes that have a file open wait
}

// flagsOf adds them to a command.
func (w *layoutWords) flagsOf(flags *pflag.FlagSet) {
	cli.ParsedVar(flags, &w.size, "stripe-size", parseStripeSize, "bytes on one OST before the next has its turn: a `SIZE` like 4MiB; default is the file system's")
	cli.ParsedVar(flags, &w.count, "stripe-count", parseStripes, "stripes: a `COUNT`, all, mdt, or over64 for several on one OST; default is the file system's")
	flags.StringVar(&w.pool, "pool", "", "on the OSTs of this `POOL`")
	flags.Var(&componentsValue{w}, "component", "one component of a progressive layout, `END,COUNT[,SIZE[,POOL]]`, where the one before it ends; the last is end,…; again for each")
	flags.StringVar(&w.like, "like", "", "the layout of this `FILE`, or of new files in this directory")
	flags.BoolVar(&w.advise, "advise", false, "the layout that datamove layout advise would give for --size, --use and so on")
	cli.ParsedVar(flags, &w.mdts, "mdt-count", parseMDTs, "make DIR, with its entries spread over this `NUMBER` of MDTs, or all")
	flags.BoolVar(&w.block, "block", false, "let readers and writers of a file that is there wait until its content has been moved")
	flags.BoolVar(&w.remove, "remove", false, "take the directory's own layout away, so that the file system's holds")
}

// componentsValue is a flag that can be given again and again.
type componentsValue struct{ w *layoutWords }

func (v *componentsValue) Type() string { return "component" }
func (v *componentsValue) String() string {
	if v.w == nil {
		return ""
	}
	var texts []string
	for i := range v.w.components {
		texts = append(texts, componentText(&v.w.components[i]))
	}
	return strings.Join(texts, " ")
}

func (v *componentsValue) Set(s string) error {
	c, err := parseComponent(s)
	if err != nil {
		return err
	}
	if n := len(v.w.components); n > 0 {
		c.Start = v.w.components[n-1].End
		if c.Start >= c.End {
			return fmt.Errorf("%q ends where the one before it does, or earlier", s)
		}
	}
	v.w.components = append(v.w.components, c)
	return nil
}

// ways is how many layouts were said.
func (w *layoutWords) ways() (n int) {
	plain := w.size > 0 || w.count.pattern != 0 || w.pool != "" && !w.advise
	for _, way := range []bool{plain, len(w.components) > 0, w.like != "", w.advise, w.remove} {
		if way {
			n++
		}
	}
	return n
}

// only reports whether nothing was said of files.
func (w *layoutWords) only() bool { return w.ways() == 0 }

// check refuses words that can not be said together.
func (w *layoutWords) check(flags *pflag.FlagSet) error {
	ways := w.ways()
	switch {
	case w.remove && w.mdts != 0:
		return mover.Misusef("--mdt-count makes a directory, which has nothing to --remove")
	case ways == 0 && w.mdts != 0:
	case ways == 0:
		return cli.Advise(mover.Misusef("want a layout: --stripe-count, --stripe-size or --pool, or --component, --like, --advise, --remove"), "datamove layout advise, which says what suits")
	case ways > 1:
		return mover.Misusef("--stripe-size, --stripe-count and --pool are one layout; --component, --like, --advise and --remove are others: say one")
	}
	if !w.advise {
		for _, name := range requestFlags {
			if f := flags.Lookup(name); f != nil && f.Changed {
				return mover.Misusef("--%s says what --advise is asked for: say --advise, too", name)
			}
		}
	}
	return nil
}

// layout is what plain flags and components say.
func (w *layoutWords) layout() (lustre.Layout, error) {
	l := lustre.Layout{Components: w.components}
	if len(l.Components) == 0 {
		c := lustre.Component{End: lustre.EOF, Pattern: w.count.pattern, StripeBytes: w.size, StripeCount: w.count.count, FirstTarget: lustre.AnyTarget, Pool: w.pool}
		if c.Pattern == 0 {
			c.Pattern = lustre.RAID0
		}
		l.Components = []lustre.Component{c}
	}
	if last := l.Components[len(l.Components)-1]; last.End != lustre.EOF {
		return l, mover.Misusef("the last component ends at %s, and a file could not become longer: add one that ends at end", units.Bytes(last.End))
	}
	for i := range l.Components {
		if c := &l.Components[i]; c.Pattern == lustre.OnMDT {
			if c.StripeBytes != 0 && c.StripeBytes != c.End {
				return l, mover.Misusef("component %d lies on the MDT: it has no stripe size", i+1)
			}
			c.StripeBytes = c.End
			if c.End == lustre.EOF {
				c.StripeBytes = 0
			}
		}
	}
	return l, nil
}

// CompletePools completes names of pools of the file system that is named, or that we are on.
func CompletePools(a *cli.App) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) (words []cobra.Completion, _ cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), cli.CompletionTime)
		defer cancel()
		path := "."
		if len(args) > 0 {
			path = args[0]
		}
		c, err := cli.ProbePath(ctx, a, path, func(ctx context.Context, m *cli.Mounted) (lustre.Cluster, error) {
			if m.Layout == nil {
				return lustre.Cluster{}, nil
			}
			return m.Layout.Cluster(ctx, m.FD)
		})
		for _, pool := range slices.Sorted(maps.Keys(c.Pools)) {
			if err == nil && strings.HasPrefix(pool, begun) && len(words) < cli.MostCompletions {
				words = append(words, cli.Shown(pool))
			}
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}
