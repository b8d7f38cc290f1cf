package slurm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"datamove.dev/api"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/cmd/datamove/quota"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/tiering/slurm"
	"datamove.dev/tiering/slurm/burstbuffer"
	"datamove.dev/tiering/slurm/directive"
	"datamove.dev/tiering/slurm/hostlist"
	"datamove.dev/tiering/slurm/slurmconf"
)

// phase is one that burst_buffer.lua runs.
type phase struct {
	args    string // that it has, for people
	least   int
	what    string
	patient time.Duration // how long it may take; 0 is as long as Slurm lets it
	do      func(ctx context.Context, a *cli.App, c *burstbuffer.Controller, args []string) (said string, err error)
	killed  bool // Slurm may kill it together with the teardown behind it
}

const (
	quick = 3 * time.Second  // of what Slurm's controller waits for
	after = 20 * time.Second // of what ends a job
)

// phases are all, by name.
var phases = map[string]phase{
	"submit":      {"UID SCRIPT [NAME [TASKS]]", 2, "check what a job asks for, for job_submit.lua", quick, bbSubmit, false},
	"job_process": {"SCRIPT", 1, "check what a job asks for", quick, bbProcess, false},
	"setup":       {"JOB UID GID SCRIPT", 4, "remember what a job asks for", quick, bbSetup, false},
	"data_in":     {"JOB SCRIPT", 1, "bring its data to where all nodes see it", 0, bbIn, true},
	"paths":       {"JOB SCRIPT FILE", 3, "write what its script finds in its environment", quick, bbPaths, false},
	"pre_run":     {"JOB SCRIPT", 1, "bring its data onto its nodes", 0, bbBefore, true},
	"post_run":    {"JOB SCRIPT", 1, "nothing", quick, bbAfter, false},
	"data_out":    {"JOB SCRIPT [STATE]", 1, "bring its results away", 0, bbOut, false},
	"teardown":    {"JOB SCRIPT HURRY", 1, "end what was asked for it", after, bbTeardown, false},
	"pools":       {"", 0, "renew what pending jobs hold", after, bbPools, false},
	"get_status":  {"", 0, "show what jobs have asked for", quick, bbStatus, false},
}

func bbCommand(a *cli.App) *cobra.Command {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(phases)) {
		list = append(list, fmt.Sprintf("  %-32s %s", strings.TrimSpace(name+" "+phases[name].args), phases[name].what))
	}
	cmd := &cobra.Command{
		Use:   "bb PHASE [ARG...]",
		Short: "Do a phase of a job, for burst_buffer.lua on the host of slurmctld",
		Long: `The first word that is printed says how it went, since that is all that Slurm's Lua hears: OK, or ERROR
and why. The phases, with their arguments as Slurm has them:

` + strings.Join(list, "\n"),
		DisableFlagParsing: true,
		Example:            `  datamove hook bb --help`,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.Begin()
		if len(args) == 0 || args[0] == "--help" || args[0] == "-h" {
			return cmd.Help()
		}
		if a.HasSecondProcess() && phases[args[0]].killed && !burstbuffer.Detached(a.Env) {
			if err := burstbuffer.Detach(cmd.Context(), runOf(a, args[1:])); !errors.Is(err, burstbuffer.ErrNotDetached) {
				return exitOf(err)
			}
		}
		said, err := bb(cmd.Context(), a, args[0], args[1:])
		if err != nil {
			fmt.Fprintf(a.Out, "ERROR %s\n", strings.TrimPrefix(err.Error(), "datamove: "))
			return cli.ExitOf(cli.ExitCode(err))
		}
		fmt.Fprintln(a.Out, strings.TrimSpace("OK\n"+said))
		return nil
	}
	return cmd
}

// exitOf is the error of a second process that has said what is wrong, where it has ended by itself.
func exitOf(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return cli.ExitOf(exit.ExitCode())
	}
	return err
}

// bb does a phase. That it breaks is an answer like any other.
func bb(ctx context.Context, a *cli.App, name string, args []string) (said string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("it broke: %v", r)
		}
	}()
	p, known := phases[name]
	if !known || len(args) < p.least {
		return "", fmt.Errorf("%w: datamove hook bb %s: want one of its phases with its arguments (datamove hook bb --help)", mover.ErrUsage, mover.Printable(name))
	}
	c, err := controller(a)
	if err != nil {
		return "", err
	}
	if p.patient > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.patient)
		defer cancel()
	}
	return p.do(ctx, a, c, args)
}

// controller is this host, as the configuration has it.
func controller(a *cli.App) (*burstbuffer.Controller, error) {
	c, err := a.Config()
	if err != nil {
		return nil, err
	}
	return &burstbuffer.Controller{
		Config: c, Records: cmp.Or(c.Slurm.Records, config.DefaultSlurmRecords),
		Dial: func(ctx context.Context) (*api.Client, error) {
			return a.Dial(ctx, cmp.Or(a.Env("DATAMOVE_SERVICE"), c.Service, config.DefaultListen), "the datamoved of this host")
		},
		Told: func(what string) { fmt.Fprintf(a.Err, "datamove: hook: %s\n", cli.Shown(what)) },
		Room: func(ctx context.Context, dir string) error { return quota.Room(ctx, a, dir) }, Comment: comment, Name: clusterName(a),
	}, nil
}

// clusterMost is more than the name of a cluster has in Slurm, which takes 40 (slurm.conf, "ClusterName").
const clusterMost = 100

// clusterName is what Slurm calls this cluster.
func clusterName(a *cli.App) string {
	name, root := strings.ToLower(a.Env("SLURM_CLUSTER_NAME")), os.DirFS("/")
	if file := slurmconf.Find(root, a.Env); name == "" && filepath.IsAbs(file) {
		name = slurmconf.ClusterName(root, file)
	}
	if len(name) > clusterMost {
		return ""
	}
	return name
}

// bbSubmit checks with the name of the job, and the tasks of an array; job_submit.lua of an earlier version says neither.
func bbSubmit(ctx context.Context, _ *cli.App, c *burstbuffer.Controller, args []string) (string, error) {
	text, err := scriptOf(args[1])
	if err != nil {
		return "", err
	}
	if len(args) > 2 {
		text.Name = args[2]
	}
	text.Single = len(args) > 3 && args[3] == ""
	asks, err := c.Process(ctx, text)
	return strings.Join(asks, "\n"), err
}

func bbProcess(ctx context.Context, _ *cli.App, c *burstbuffer.Controller, args []string) (string, error) {
	text, err := scriptOf(args[0])
	if err != nil {
		return "", err
	}
	if err := c.Saw(args[0]); err != nil {
		c.Told(err.Error())
	}
	asks, err := c.Process(ctx, text)
	return strings.Join(asks, "\n"), err
}

func bbSetup(_ context.Context, _ *cli.App, c *burstbuffer.Controller, args []string) (string, error) {
	own, err := slurm.JobOf(func(name string) string {
		return map[string]string{"SLURM_JOB_ID": args[0], "SLURM_JOB_UID": args[1], "SLURM_JOB_GID": args[2]}[name]
	})
	if err != nil {
		return "", err
	}
	if u, err := user.LookupId(args[1]); err == nil {
		own.User = u.Username
	}
	text, err := scriptOf(args[3])
	if err != nil {
		return "", err
	}
	return "", c.Setup(own, text)
}

func bbIn(ctx context.Context, a *cli.App, c *burstbuffer.Controller, args []string) (string, error) {
	job, err := jobNumber(args[0])
	if err != nil {
		return "", err
	}
	if !burstbuffer.Detached(a.Env) {
		return "", c.In(ctx, job)
	}
	return "", c.Outlive(ctx, job, burstbuffer.FirstOf(a.Env), c.In)
}

func bbPaths(_ context.Context, _ *cli.App, c *burstbuffer.Controller, args []string) (string, error) {
	job, err := jobNumber(args[0])
	if err != nil {
		return "", err
	}
	lines, err := c.Paths(job)
	if err != nil { // a failure here is a job that is held for ever, without a reason: the next phase fails for the same, and says why
		c.Told(err.Error())
		return "", nil
	}
	return "", os.WriteFile(args[2], []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

func bbBefore(ctx context.Context, a *cli.App, c *burstbuffer.Controller, args []string) (string, error) {
	job, err := jobNumber(args[0])
	if err != nil {
		return "", err
	}
	before := func(ctx context.Context, job uint32) error {
		ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.Config.Slurm.Ready, config.DefaultReady))
		defer cancel()
		return c.Before(ctx, job)
	}
	if !burstbuffer.Detached(a.Env) {
		return "", before(ctx, job)
	}
	return "", c.Outlive(ctx, job, burstbuffer.FirstOf(a.Env), before)
}

// runOf is the run of the job that a phase begins in; "" is none, as far as can be seen.
func runOf(a *cli.App, args []string) string {
	c, err := controller(a)
	if err != nil || len(args) == 0 {
		return "" // which the second process says
	}
	job, err := jobNumber(args[0])
	if err != nil {
		return ""
	}
	x, err := c.Run(job)
	if err != nil {
		return ""
	}
	return x.RunID()
}

// bbAfter has nothing to do, and never fails: Slurm would bring nothing away then.
func bbAfter(context.Context, *cli.App, *burstbuffer.Controller, []string) (string, error) {
	return "", nil
}

func bbOut(ctx context.Context, _ *cli.App, c *burstbuffer.Controller, args []string) (string, error) {
	job, err := jobNumber(args[0])
	if err != nil {
		return "", err
	}
	var s burstbuffer.State
	if len(args) > 2 {
		if n, err := strconv.ParseUint(args[2], 10, 32); err == nil { // else it is not told: the results leave all the same
			s = burstbuffer.State(n)
		}
	}
	return "", c.Out(ctx, job, s)
}

func bbTeardown(ctx context.Context, _ *cli.App, c *burstbuffer.Controller, args []string) (string, error) {
	job, err := jobNumber(args[0])
	if err != nil {
		return "", err
	}
	return "", c.Teardown(ctx, job, len(args) > 2 && args[2] == "true")
}

// bbPools is what Slurm asks for every 30 seconds: there are no pools.
func bbPools(ctx context.Context, _ *cli.App, c *burstbuffer.Controller, _ []string) (string, error) {
	return "", c.Keep(ctx)
}

func bbStatus(ctx context.Context, _ *cli.App, c *burstbuffer.Controller, _ []string) (string, error) {
	return c.Status(ctx)
}

func jobNumber(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%w: %s is no number of a job", mover.ErrUsage, mover.Printable(text))
	}
	return uint32(n), nil
}

// scriptOf reads the beginning of a job's script.
func scriptOf(name string) (text directive.Text, err error) {
	text.Script, err = burstbuffer.ReadScript(name)
	return text, err
}

// atControllerCommand is a hook that slurmctld runs. It never fails: Slurm would run the job again, or hold it.
func atControllerCommand(a *cli.App, name, short string, body func(*burstbuffer.Controller, uint32) error) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: short, Example: "  datamove hook " + name, Args: cobra.ArbitraryArgs, DisableFlagParsing: true}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.Begin()
		if len(args) > 0 && args[0] == "--help" {
			return cmd.Help()
		}
		c, err := controller(a)
		if err == nil {
			var job uint32
			if job, err = jobNumber(cmp.Or(a.Env("SLURM_JOB_ID"), a.Env("SLURM_JOBID"))); err == nil {
				err = body(c, job)
			}
		}
		if err != nil {
			fmt.Fprintf(a.Err, "datamove: hook: %s: %s\n", name, cli.Shown(err.Error()))
		}
		return nil
	}
	return cmd
}

// prologSlurmctld implements hook prolog-slurmctld.
func prologSlurmctld(a *cli.App, c *burstbuffer.Controller, job uint32) error {
	nodes, err := hostlist.Nodes(cmp.Or(a.Env("SLURM_JOB_NODELIST"), a.Env("SLURM_NODELIST")))
	if err != nil {
		return err
	}
	return c.Nodes(job, burstbuffer.Place{Nodes: nodes, Name: a.Env("SLURM_JOB_NAME"), Array: a.Env("SLURM_ARRAY_JOB_ID"), Task: a.Env("SLURM_ARRAY_TASK_ID"), Count: restarts(a), Part: a.Env("SLURM_HET_JOB_ID") != ""})
}

// restarts is how often Slurm has begun the job again; after the end of a run that is not the last one the next is counted, too.
func restarts(a *cli.App) int {
	n, _ := strconv.Atoi(a.Env("SLURM_JOB_RESTART_COUNT")) // not set is none
	return n
}

// epilogSlurmctld implements hook epilog-slurmctld.
func epilogSlurmctld(a *cli.App, c *burstbuffer.Controller, job uint32) error {
	status, err := strconv.Atoi(cmp.Or(a.Env("SLURM_JOB_EXIT_CODE"), "0"))
	if err != nil {
		err = fmt.Errorf("%w: SLURM_JOB_EXIT_CODE is %s", mover.ErrUsage, mover.Printable(a.Env("SLURM_JOB_EXIT_CODE")))
	}
	return errors.Join(err, c.Ended(job, burstbuffer.End{Status: status, Count: restarts(a)}))
}
