package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"datamove.dev/bench/roofline"
	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

// clusterMost is how many bytes of a cluster file are read.
const clusterMost = 1 << 20

// verdicts are those that --require takes, the weakest first.
var verdicts = []roofline.Verdict{roofline.Modelled, roofline.Extrapolated, roofline.Validated}

func modelCommand() *cobra.Command {
	var set, runs, ceilings []string
	var output, require string
	c := &cobra.Command{
		Use:   "model [flags] FILE",
		Short: "what a declared cluster can do at most, what binds it, and what is missing",
		Long: "Reads a cluster file (kind: Cluster; - is standard input), and says for each target what the lowest ceiling is, and the verdict:\n\n" +
			"  refuted       a ceiling is below the target; so many units are missing\n" +
			"  modelled      no ceiling is; the scale was not run\n" +
			"  extrapolated  runs of at least half of the nodes make it likely\n" +
			"  validated     it was measured at that scale\n\n" +
			"  datamove-bench model deploy/clusters/founding.yaml --set oss.nic=400G\n" +
			"  datamove-bench model cluster.yaml --ceilings oss=oss1.json --run run.json --require validated",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("want one cluster file: see %s --help", cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if output != "table" && output != "json" {
				return usageError{fmt.Errorf("-o %s: must be table or json", output)}
			}
			if require != "" && !slices.Contains(verdicts, roofline.Verdict(require)) {
				return usageError{fmt.Errorf("--require %s: must be modelled, extrapolated or validated", require)}
			}
			text, err := readCluster(args[0], cmd.InOrStdin())
			if err != nil {
				return err
			}
			cluster, err := roofline.Read(args[0], text, set)
			if err != nil {
				return usageError{err}
			}
			if err := alone(cluster, ceilings); err != nil {
				return err
			}
			measured, err := readRuns(runs, nil)
			if err != nil {
				return err
			}
			report := cluster.Report(measured...)
			if output == "json" {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(report)
			} else {
				_, err = io.WriteString(cmd.OutOrStdout(), modelTable(report))
			}
			return errors.Join(err, required(report, roofline.Verdict(require)))
		},
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	flags := c.Flags()
	flags.StringArrayVar(&set, "set", nil, "what if a field were another: oss.nic=400G; may be given again")
	flags.StringArrayVar(&runs, "run", nil, "a record of datamove-bench run --save: what was measured; may be given again")
	flags.StringArrayVar(&ceilings, "ceilings", nil, "what datamove-bench ceilings -o json has measured on one of a group: clients=FILE, oss=FILE or s3=FILE; may be given again")
	flags.StringVarP(&output, "output", "o", "table", "table or json")
	flags.StringVar(&require, "require", "", "exit 1 unless the verdict is at least that: modelled, extrapolated or validated")
	return c
}

// readCluster reads a file; - is standard input.
func readCluster(name string, in io.Reader) ([]byte, error) {
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, usageError{err}
		}
		defer f.Close()
		in = f
	}
	return io.ReadAll(io.LimitReader(in, clusterMost+1))
}

// alone has ceilings in a cluster that were measured on one of a group.
func alone(cluster *roofline.Cluster, files []string) error {
	for _, one := range files {
		group, name, ok := strings.Cut(one, "=")
		if !ok {
			return usageError{fmt.Errorf("--ceilings %s: want GROUP=FILE, like oss=oss1.json", mover.Printable(one))}
		}
		text, err := readCluster(name, nil)
		if err != nil {
			return err
		}
		var file ceilingsFile
		if err := json.Unmarshal(text, &file); err != nil || file.Schema != ceilingsSchema {
			return usageError{fmt.Errorf("--ceilings %s: this is nothing that datamove-bench ceilings -o json has written", mover.Printable(name))}
		}
		rates := map[string][]float64{}
		for _, c := range file.Ceilings {
			rates[c.Name] = append(rates[c.Name], c.Rate)
		}
		if err := cluster.Measure(group, rates); err != nil {
			return usageError{fmt.Errorf("--ceilings %s: %w", mover.Printable(one), err)}
		}
	}
	return nil
}

// required says that a verdict is not the required one.
func required(r roofline.Report, least roofline.Verdict) error {
	if least == "" || slices.Index(verdicts, r.Verdict) >= slices.Index(verdicts, least) {
		return nil
	}
	return fmt.Errorf("%s is %s, and %s is required", r.Cluster, r.Verdict, least)
}

// modelTable is a report for people.
func modelTable(r roofline.Report) string {
	var b strings.Builder
	for _, a := range r.Paths {
		fmt.Fprintf(&b, "%s, %s: at most %s, by %s", r.Cluster, a.Path, gb(a.Roof), a.Binding)
		if a.Target > 0 {
			fmt.Fprintf(&b, "; %s are asked for: %s", gb(a.Target), a.Verdict)
		}
		fmt.Fprintf(&b, "\n\n  %-18s %10s %-10s %14s %14s\n", "CEILING", "UNITS", "", "EACH", "ALL")
		for _, c := range a.Ceilings {
			note := "declared"
			if c.Measured {
				note = "measured"
			}
			if c.Missing > 0 {
				note += fmt.Sprintf("; %d more are missing", c.Missing)
			}
			fmt.Fprintf(&b, "  %-18s %10d %-10s %14s %14s  %s\n", c.Name, c.Units, c.Unit, gb(c.Per), gb(c.Total), note)
		}
		b.WriteString("\n")
		if a.OneDown > 0 {
			fmt.Fprintf(&b, "  with one OSS down: at most %s\n", gb(a.OneDown))
		}
		if a.Cost > 0 {
			fmt.Fprintf(&b, "  each GB/s costs %.0f\n", a.Cost)
		}
		if m := a.Measured; m != nil {
			fmt.Fprintf(&b, "  %s reached %s%s in %s\n", units.Plural(m.Nodes, "node", "nodes"), gb(m.Rate), between(m.Low, m.High), units.Plural(int64(m.Repeats), "repeat", "repeats"))
		}
		if e := a.Estimate; e != nil {
			fmt.Fprintf(&b, "  %s are likely to reach %s%s\n", units.Plural(e.Nodes, "node", "nodes"), gb(e.Likely), between(e.Low, e.High))
		}
		for _, n := range a.Notes {
			fmt.Fprintf(&b, "  %s\n", n)
		}
		if a.OneDown > 0 || a.Cost > 0 || a.Measured != nil || len(a.Notes) > 0 {
			b.WriteString("\n")
		}
	}
	return b.String()
}

// between is an interval; nothing where there is none.
func between(low, high float64) string {
	if high == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s to %s)", gb(low), gb(high))
}

// gb is a rate in GB/s; of a scale model in MB/s.
func gb(rate float64) string {
	if rate > 0 && rate < 1 {
		return fmt.Sprintf("%.4g MB/s", 1000*rate)
	}
	return fmt.Sprintf("%.4g GB/s", rate)
}
