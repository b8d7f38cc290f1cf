// Command verdict loads the scale model of a cluster, and prints the verdict that it deserves: agents behind shaped links write, read and verify what is on servers behind theirs, and
// datamove-bench model judges the record. Speeds are a four-thousandth of those of the cluster: 25 Mb/s is 100 GbE, and 125 MB/s are 500 GB/s. It needs root, and the binaries
// of datamove-bench and versitygw.
//
//	verdict [-agents 32] [-servers 16] [-agent-mbit 25] [-server-mbit 25] [-target 125e6] [-require validated] [-page FILE]
//
// All nodes are one host, so that nothing that they do validates a cluster: it exits with 1 when -require asks for that. It exits with 1, too, when the CPUs were too busy to tell.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"datamove.dev/test/fabric"
)

func main() {
	fabric.Main("verdict", func(ctx context.Context, args []string) error { return run(ctx, args, os.Stdout) })
}

type options struct {
	storage       fabric.Storage
	target        float64
	require, page string
	limit         time.Duration
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("verdict", flag.ContinueOnError)
	load := flags.String("load", "--ranks=2 --size=8MiB --repeats=3", "flags of datamove-bench run, with spaces between")
	flags.IntVar(&o.storage.Agents, "agents", 32, "how many load")
	flags.IntVar(&o.storage.Servers, "servers", 16, "how many are loaded")
	flags.IntVar(&o.storage.AgentMbit, "agent-mbit", 25, "speed of an agent's link, in each direction")
	flags.IntVar(&o.storage.ServerMbit, "server-mbit", 25, "speed of a server's")
	flags.Float64Var(&o.target, "target", 125e6, "bytes per second that are asked for")
	flags.StringVar(&o.require, "require", "", "exit 1 unless the verdict is at least that")
	flags.StringVar(&o.page, "page", "", "a file for the report as a page")
	flags.StringVar(&o.storage.Bench, "bench", "bin/datamove-bench", "the binary")
	flags.StringVar(&o.storage.Store, "store", "versitygw", "the binary")
	flags.DurationVar(&o.limit, "limit", 10*time.Minute, "when to give up")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if n := o.storage.Nodes(); min(o.storage.Agents, o.storage.Servers, o.storage.AgentMbit, o.storage.ServerMbit) < 1 || n > fabric.MaxNodes || o.target <= 0 {
		return o, fmt.Errorf("%d agents and %d servers: want at least one of each, and %d at most, with links and a target above 0", o.storage.Agents, o.storage.Servers, fabric.MaxNodes)
	}
	o.storage.Flags = strings.Fields(*load)
	if o.storage.Bench, err = filepath.Abs(o.storage.Bench); err != nil {
		return o, err
	}
	o.storage.Store, err = exec.LookPath(o.storage.Store)
	return o, err
}

func run(ctx context.Context, args []string, stdout io.Writer) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeoutCause(ctx, o.limit, errors.New("the time of -limit is over"))
	defer stop()
	if err := fabric.Available(ctx); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "datamove-verdict-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	rig, err := fabric.New(ctx, o.storage.Nodes(), fabric.Link{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	record, cluster := filepath.Join(dir, "run.json"), filepath.Join(dir, "cluster.yaml")
	m, err := o.storage.Load(ctx, rig, record)
	if err != nil {
		return err
	}
	if err := os.WriteFile(cluster, []byte(o.storage.Cluster(o.target)), 0o600); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "CPUs %.0f %% idle; a scale model: the shape of a cluster, and not its speed\n\n", m.Idle)
	calls := [][]string{{"report", record}, {"model", cluster, "--run", record, "--require", o.require}}
	if o.page != "" {
		calls = append(calls, []string{"report", record, "--cluster", cluster, "-o", "html", "--out", o.page})
	}
	for _, call := range calls {
		cmd := exec.CommandContext(ctx, o.storage.Bench, call...)
		cmd.Stdout, cmd.Stderr = stdout, os.Stderr
		if failed := cmd.Run(); failed != nil {
			err = errors.Join(err, fmt.Errorf("datamove-bench %s: %w", call[0], failed))
		}
	}
	if why := m.Invalid(); why != "" {
		err = errors.Join(err, fmt.Errorf("invalid: %s", why))
	}
	return err
}
