package harness

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"datamove.dev/bench/compare"
)

type usageError struct{ error }

func compareCommand() *cobra.Command {
	var o compare.Options
	var output, save string
	var quick, quiet bool
	c := &cobra.Command{
		Use:   "compare",
		Short: "run datamove and every installed peer over the same data, in turns",
		Long: "Runs datamove and every installed peer over the same data, in turns, and prints medians with\n" +
			"their spread, and ratios with their 95 % interval. In full size it wants 30 GiB of memory file system or less, 40 GiB of disk and an hour.\n" +
			"--quick wants a minute, and shows what works; its figures are more of starting than of moving.\n\nScenarios:\n" + scenarios(),
		Args: nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			write, ok := formats[output]
			if !ok {
				return usageError{fmt.Errorf("-o %s: must be table, json or md", output)}
			}
			if !quiet {
				o.Say = func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) }
			}
			if quick {
				preset(cmd.Flags(), &o)
			}
			file, err := newDraft(save)
			if err != nil {
				return usageError{fmt.Errorf("--save %s: %w", save, err)}
			}
			defer file.drop()
			results, err := compare.Compare(cmd.Context(), o)
			if err != nil {
				return err
			}
			report := compare.Report{Schema: compare.ReportSchema, Command: words(cmd, o), Date: time.Now(), Runs: o.Runs, Scale: o.Scale,
				Machine: compare.ThisMachine(o.Disk), Results: results}
			return errors.Join(write(report, cmd.OutOrStdout()), file.publish(report.JSON), complete(results))
		},
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	flags := c.Flags()
	flags.StringSliceVar(&o.Scenarios, "scenario", nil, "only these; a beginning such as s3 takes all of its kind")
	flags.StringSliceVar(&o.Peers, "peers", nil, "only these beside datamove: "+strings.Join(compare.Peers(), ", "))
	flags.IntVar(&o.Runs, "runs", 5, "runs of each tool in each scenario")
	flags.Float64Var(&o.Scale, "scale", 1, "of counts and sizes, at most 1")
	flags.BoolVar(&quick, "quick", false, "the same as --runs 3 --scale 0.01, where those are not given")
	flags.StringVar(&o.Disk, "dir", ".", "a folder on the disk to measure")
	flags.StringVar(&o.Tmpfs, "tmpfs", "/dev/shm", "a folder in memory")
	flags.StringVar(&o.Datamove, "datamove", "", "the program (default: beside this one, or in PATH)")
	flags.DurationVar(&o.Timeout, "timeout", 15*time.Minute, "of one run")
	flags.StringVarP(&output, "output", "o", "table", "table, json or md")
	flags.StringVar(&save, "save", "", "a file that gets the JSON form, too")
	flags.BoolVarP(&quiet, "quiet", "q", false, "do not say what is being done")
	return c
}

var formats = map[string]func(compare.Report, io.Writer) error{
	"table": compare.Report.Table,
	"json":  compare.Report.JSON,
	"md":    compare.Report.Markdown,
}

func scenarios() string {
	var b strings.Builder
	for _, s := range compare.Scenarios() {
		fmt.Fprintf(&b, "  %-16s %s\n", s.Name, s.What)
	}
	return b.String()
}

// preset is --quick: it fills in what is not given.
func preset(flags *pflag.FlagSet, o *compare.Options) {
	if !flags.Changed("runs") {
		o.Runs = 3
	}
	if !flags.Changed("scale") {
		o.Scale = 0.01
	}
}

// words is the command as it can be repeated elsewhere: without local paths.
func words(cmd *cobra.Command, o compare.Options) string {
	w := []string{"datamove-bench compare"}
	if len(o.Scenarios) > 0 {
		w = append(w, "--scenario", strings.Join(o.Scenarios, ","))
	}
	if len(o.Peers) > 0 {
		w = append(w, "--peers", strings.Join(o.Peers, ","))
	}
	if quick, _ := cmd.Flags().GetBool("quick"); quick {
		w = append(w, "--quick")
	}
	for _, name := range []string{"runs", "scale", "timeout"} {
		if f := cmd.Flags().Lookup(name); f.Changed {
			w = append(w, "--"+name, f.Value.String())
		}
	}
	return strings.Join(w, " ")
}

// complete says when datamove itself did not come through: a report without it
// must not pass for one.
func complete(results []compare.Result) error {
	var errs []error
	for _, r := range results {
		for _, s := range r.Scores {
			if s.Tool == compare.Ours && s.Failed != "" {
				errs = append(errs, fmt.Errorf("%s: %s", r.Scenario, s.Failed))
			}
		}
	}
	return errors.Join(errs...)
}
