package harness

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"datamove.dev/bench/report"
	"datamove.dev/bench/result"
	"datamove.dev/bench/roofline"
)

// reportForms are what -o takes.
var reportForms = map[string]func(*report.Report, io.Writer) error{
	"table": (*report.Report).Table,
	"json":  (*report.Report).JSON,
	"csv":   (*report.Report).CSV,
	"html":  (*report.Report).HTML,
}

func reportCommand() *cobra.Command {
	var baseline []string
	var output, out, tolerance, cluster string
	c := &cobra.Command{
		Use:   "report [flags] FILE...",
		Short: "what runs of the load generator say together: as a table, CSV, JSON, or one page",
		Long: "Reads files of \"datamove-bench run --save FILE\" (- is standard input). Phases that are the same work are repeats of each other, also those of several files: they have\n" +
			"a median, and where it is likely to be. Phases on more and more nodes are a scaling curve, and the suite io500 has a score in the style of IO500.\n\n" +
			"With --baseline, a phase is a regression (exit 1) when it is slower beyond the noise and the tolerance, when it fails or reads what was not written and did not then, or when\n" +
			"it was done then and not now. Noise is told from repeats: run 5. With fewer than 3, only what is more than 20 % slower is one.\n\n" +
			"  datamove-bench report run.json -o html --out run.html --cluster deploy/clusters/founding.yaml\n" +
			"  datamove-bench report new.json --baseline old.json",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{fmt.Errorf("want files of runs: see %s --help", cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			write := reportForms[output]
			if write == nil {
				return usageError{fmt.Errorf("-o %s: must be table, json, csv or html", output)}
			}
			o := report.Options{}
			var err error
			if o.Tolerance, err = share(tolerance); err != nil {
				return err
			}
			if n := stdins(args, baseline, []string{cluster}); n > 1 {
				return usageError{fmt.Errorf("- is standard input, which is read once, and not %d times", n)}
			}
			if o.Baseline, err = readRuns(baseline, cmd.InOrStdin()); err != nil {
				return err
			}
			runs, err := readRuns(args, cmd.InOrStdin())
			if err != nil {
				return err
			}
			if o.Model, err = clusterReport(cluster, cmd.InOrStdin(), runs); err != nil {
				return err
			}
			r := report.Sum(runs, o)
			if out == "" {
				err = write(r, cmd.OutOrStdout())
			} else {
				err = intoFile(out, func(w io.Writer) error { return write(r, w) })
			}
			return errors.Join(err, regressions(r.Baseline))
		},
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	flags := c.Flags()
	flags.StringVarP(&output, "output", "o", "table", "table, json, csv or html")
	flags.StringVar(&out, "out", "", "the file that is written, or replaced when all is well; standard output without it")
	flags.StringArrayVar(&baseline, "baseline", nil, "a run before a change; exit 1 when a phase is worse now; may be given again")
	flags.StringVar(&tolerance, "tolerance", "5%", "by how much a phase may be slower than the baseline")
	flags.StringVar(&cluster, "cluster", "", "a cluster file: its ceilings are drawn on the page, with the verdict of the runs")
	return c
}

// share reads a part of a whole: "5%" or "0.05".
func share(text string) (float64, error) {
	number, isPercent := strings.CutSuffix(strings.TrimSpace(text), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if isPercent {
		v /= 100
	}
	if err != nil || !(v > 0 && v < 1) {
		return 0, usageError{fmt.Errorf("--tolerance %s: want a share above 0 and below 100%%, like 5%%", text)}
	}
	return v, nil
}

// stdins is how many of some files are standard input.
func stdins(files ...[]string) (n int) {
	for _, name := range slices.Concat(files...) {
		if name == "-" {
			n++
		}
	}
	return n
}

// clusterReport is what the model says of a cluster file, and of what runs have measured; nil without one.
func clusterReport(file string, in io.Reader, runs []*result.Run) (*roofline.Report, error) {
	if file == "" {
		return nil, nil
	}
	text, err := readCluster(file, in)
	if err != nil {
		return nil, err
	}
	c, err := roofline.Read(file, text, nil)
	if err != nil {
		return nil, usageError{err}
	}
	r := c.Report(runs...)
	return &r, nil
}

// readRuns reads records; - is standard input.
func readRuns(files []string, in io.Reader) (all []*result.Run, err error) {
	for _, file := range files {
		run, err := readRun(file, in)
		if err != nil {
			return nil, usageError{fmt.Errorf("%s: %w", file, err)}
		}
		all = append(all, run)
	}
	return all, nil
}

// readRun reads a run; - is standard input.
func readRun(file string, in io.Reader) (*result.Run, error) {
	if file == "-" {
		return result.Read(in)
	}
	f, err := os.Open(file)
	if err != nil {
		var at *os.PathError
		if errors.As(err, &at) {
			err = at.Err // the caller says where
		}
		return nil, err
	}
	defer f.Close()
	return result.Read(f)
}

// mostNamed are how many regressions an error names.
const mostNamed = 5

// regressions is an error that names them.
func regressions(b *report.Baseline) error {
	if b == nil || b.Regressions == 0 {
		return nil
	}
	var named []string
	for i := range b.Changes[:min(b.Regressions, mostNamed)] {
		named = append(named, b.Changes[i].String())
	}
	if more := b.Regressions - len(named); more > 0 {
		named = append(named, fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("%s beside the baseline: %s", b.Summary(), strings.Join(named, "; "))
}
