// Command model runs the scale model and prints its table: what the mover gets
// through shaped links at 1, 2, 4, 8, 16 and 32 agents, beside what iperf3 gets through
// the same ones. It needs root, and binaries of datamove, datamoved and pages.
//
//	model [-load cli] [-agents 1,2,4,8,16,32] [-rounds 3] [-span 8s] [-mbit 125] [-object 8388608]
//
// It exits with 1 when a row is invalid, because the CPUs were too busy to tell, and
// when -least is given and a row reaches less. It ends after -limit in any case.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"datamove.dev/test/fabric"
)

func main() {
	fabric.Main("model", func(ctx context.Context, args []string) error { return run(ctx, args, os.Stdout, os.Stderr) })
}

// loads are the ways to move that can be measured, by name.
var loads = map[string]fabric.Load{"cli": fabric.CLI, "service": fabric.Service}

// fanOut is the load that is compared with one link, and not with all.
const fanOut = "fan-out"

type options struct {
	plan  fabric.Plan
	load  string
	least float64
	limit time.Duration
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("model", flag.ContinueOnError)
	agents := flags.String("agents", "1,2,4,8,16,32", "how many agents, one row for each")
	flags.StringVar(&o.load, "load", "cli", "what moves: cli is datamove copy in every node, service one task of datamoved for all nodes, fan-out one dataset staged to each of them")
	flags.IntVar(&o.plan.Rounds, "rounds", 3, "comparisons for each row; the median counts")
	flags.DurationVar(&o.plan.Span, "span", 8*time.Second, "how long iperf3 measures, and the mover works, about")
	flags.Int64Var(&o.plan.Object, "object", fabric.ObjectBytes, "bytes of an object")
	flags.IntVar(&o.plan.Link.Mbit, "mbit", 125, "speed of a link, in each direction")
	flags.StringVar(&o.plan.Datamove, "datamove", "bin/datamove", "the binary")
	flags.StringVar(&o.plan.Datamoved, "datamoved", "bin/datamoved", "the binary")
	flags.StringVar(&o.plan.Pages, "pages", "bin/fabric-pages", "the binary of test/fabric/pages")
	flags.Float64Var(&o.least, "least", 0, "percent of iperf3 that every row has to reach")
	flags.DurationVar(&o.limit, "limit", 20*time.Minute, "when to give up")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.plan.Load = loads[o.load]; o.plan.Load == nil && o.load != fanOut {
		return o, fmt.Errorf("there is no load %q", o.load)
	}
	for text := range strings.SplitSeq(*agents, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > fabric.MaxNodes {
			return o, fmt.Errorf("-agents %s: a list of numbers from 1 to %d", *agents, fabric.MaxNodes)
		}
		o.plan.Agents = append(o.plan.Agents, n)
	}
	if o.plan.Object < 1 {
		return o, fmt.Errorf("-object %d: at least 1", o.plan.Object)
	}
	for _, path := range []*string{&o.plan.Datamove, &o.plan.Datamoved, &o.plan.Pages} {
		if *path, err = filepath.Abs(*path); err != nil {
			return o, err
		}
		if _, err := os.Stat(*path); err != nil {
			return o, err
		}
	}
	return o, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeoutCause(ctx, o.limit, errors.New("the time of -limit is over"))
	defer stop()
	if err := fabric.Available(ctx); err != nil {
		return err
	}
	if o.load == fanOut {
		return o.plan.Fan(ctx, stdout)
	}
	var rows []fabric.Row
	failed := o.plan.Run(ctx, func(row fabric.Row) {
		rows = append(rows, row)
		fmt.Fprintf(stderr, "%d agents: %.1f %% of iperf3\n", row.Agents, 100*row.Median().Share())
	})
	if len(rows) > 0 {
		failed = errors.Join(failed, fabric.Print(stdout, o.load, rows))
	}
	return errors.Join(failed, judge(rows, o.least))
}

// judge says which rows do not count, or are not good enough.
func judge(rows []fabric.Row, least float64) (failed error) {
	for _, row := range rows {
		m := row.Median()
		if why := m.Invalid(); why != "" {
			failed = errors.Join(failed, fmt.Errorf("%d agents: invalid: %s", row.Agents, why))
		} else if 100*m.Share() < least {
			failed = errors.Join(failed, fmt.Errorf("%d agents reach %.1f %% of iperf3, and %.1f %% are wanted", row.Agents, 100*m.Share(), least))
		}
	}
	return failed
}
