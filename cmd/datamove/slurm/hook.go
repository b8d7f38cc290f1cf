// Package slurm has the command hook, which Slurm runs before, in and after a job, on nodes and beside slurmctld.
//
// It owns how a hook begins and ends: in time, and never with an exit code that drains a node by mistake (hook.go); a phase that Slurm kills is done by a second
// process (burstbuffer.Detach). What a hook does is done by tiering/slurm and what is below. cmd/datamove/root TestOutlives kills phases.
package slurm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"datamove.dev/api"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/mover/backend"
	"datamove.dev/mover/config"
	"datamove.dev/tiering/slurm"
	"datamove.dev/tiering/slurm/burstbuffer"
)

// exitFault is how a hook ends on a broken node. Slurm takes the node out of service for it: no other exit code but 0 may come of a hook.
const exitFault = 1

// Command is datamove hook.
func Command(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hook",
		Short: "What Slurm runs before, in and after a job",
		Long: `Hooks are run by Slurm, as its configuration says (deploy/slurm). They end within the
deadline of the configuration (slurm.deadline, 5 s), whatever happens, and with 0, but for a node with a
broken disk: Slurm drains a node for anything else. What does not go well is printed to stderr, for the
log of slurmd.`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = a.Do(func(context.Context, []string) error { return cmd.Help() })
	cmd.AddCommand(
		nodeHookCommand(a, "prolog", "Make the directory of a job, and names in it for what was staged (Prolog=)", func(ctx context.Context, s *slurm.Site) error { return prolog(ctx, a, s) }),
		nodeHookCommand(a, "epilog", "Let go of what was staged for a job, and take its directory away (Epilog=)", func(ctx context.Context, s *slurm.Site) error { return epilog(ctx, a, s) }),
		ofJobCommand(a, nodeHookCommand(a, "task-prolog", "Print what the tasks of a job find in their environment (TaskProlog=)", func(ctx context.Context, s *slurm.Site) error { return taskProlog(ctx, a, s) })),
		hookEnvironmentCommand(a),
		bbCommand(a),
		atControllerCommand(a, "prolog-slurmctld", "Remember which nodes a job has got (PrologSlurmctld=)", func(c *burstbuffer.Controller, job uint32) error { return prologSlurmctld(a, c, job) }),
		atControllerCommand(a, "epilog-slurmctld", "Remember how a job has ended (EpilogSlurmctld=)", func(c *burstbuffer.Controller, job uint32) error { return epilogSlurmctld(a, c, job) }),
	)
	return cmd
}

// Of a hook's deadline its work, and the wait for it, may take so much: the rest is for starts and ends of processes on a busy node.
const (
	workShare = 0.8
	waitShare = 0.9
)

// nodeHookCommand is a hook on a node. Its work is done by a second process, so that a disk which hangs keeps no hook: when its time is over the first one ends.
func nodeHookCommand(a *cli.App, name, short string, body func(context.Context, *slurm.Site) error) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: short, Example: "  datamove hook " + name, Args: cobra.ArbitraryArgs, DisableFlagParsing: true} // nothing that Slurm adds some day is an error
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.Begin()
		if slices.Contains(args, "--help") {
			return cmd.Help()
		}
		share := workShare
		if a.HasSecondProcess() {
			share = waitShare
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), time.Duration(share*float64(deadline(a))))
		defer cancel()
		err := a.SecondProcess(ctx)
		if errors.Is(err, cli.ErrNoSecondProcess) {
			err = onNode(ctx, a, body)
		}
		return ends(ctx, a, name, err)
	}
	return cmd
}

// ofJobCommand is a hook that Slurm runs in the environment of a job.
func ofJobCommand(a *cli.App, cmd *cobra.Command) *cobra.Command {
	do := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.InUserJob()
		return do(cmd, args)
	}
	return cmd
}

// ends is how a hook ends: with an error where the node is broken, and else well.
func ends(ctx context.Context, a *cli.App, name string, err error) error {
	var f *slurm.Fault
	var second *cli.EndedError
	switch {
	case errors.As(err, &f):
		fmt.Fprintf(a.Err, "datamove: hook: %s: %s\n", name, cli.Shown(f.Error()))
		return cli.ExitOf(exitFault)
	case errors.As(err, &second) && second.Code == exitFault:
		return err
	case ctx.Err() != nil:
		err = fmt.Errorf("%w: its deadline of %v is over; the job goes on without what is not done", mover.ErrTimeout, deadline(a))
	}
	if err != nil && !errors.As(err, &second) { // else it is told
		fmt.Fprintf(a.Err, "datamove: hook: %s: %s\n", name, cli.Shown(err.Error()))
	}
	return nil
}

// deadline is that of a hook. Without a configuration that can be read it is the usual one.
func deadline(a *cli.App) time.Duration {
	c, err := a.Config()
	if err != nil {
		return config.DefaultDeadline
	}
	return cmp.Or(c.Slurm.Deadline, config.DefaultDeadline)
}

// onNode does the work of a hook in this process. That it breaks is no reason to drain the node.
func onNode(ctx context.Context, a *cli.App, body func(context.Context, *slurm.Site) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("it broke: %v", r)
		}
	}()
	s, err := slurmSite(a)
	if err != nil {
		return err
	}
	return body(ctx, s)
}

// slurmSite is this node, as the configuration has it.
func slurmSite(a *cli.App) (*slurm.Site, error) {
	c, err := a.Config()
	if err != nil {
		return nil, err
	}
	node := c.Node
	if node == "" {
		if node, err = os.Hostname(); err != nil {
			return nil, err
		}
	}
	return slurm.Of(c, node, func(ctx context.Context) (*api.Client, error) {
		return a.Dial(ctx, cmp.Or(a.Env("DATAMOVE_SERVICE"), c.Service, config.DefaultListen), "the datamoved of this node")
	}, backend.Mounted)
}

// prolog implements hook prolog.
func prolog(ctx context.Context, a *cli.App, s *slurm.Site) error {
	j, err := slurm.JobOf(a.Env)
	if err != nil {
		return err
	}
	out, err := s.Prolog(ctx, j)
	tellNotes(a, "prolog", j, out)
	return err
}

// epilogPatience is for how long an epilog waits for the mover: the node waits for the next job.
const epilogPatience = 700 * time.Millisecond

// epilog implements hook epilog.
func epilog(ctx context.Context, a *cli.App, s *slurm.Site) error {
	j, err := slurm.JobOf(a.Env)
	if err != nil {
		return err
	}
	s.Patience = min(s.Patience, epilogPatience)
	out, err := s.Epilog(ctx, j)
	tellNotes(a, "epilog", j, out)
	return err
}

// taskProlog implements hook task-prolog. Slurm runs it as the user.
func taskProlog(_ context.Context, a *cli.App, s *slurm.Site) error {
	j, err := slurm.TaskOf(a.Env, uint32(os.Getuid()))
	if err != nil {
		return err
	}
	for _, line := range s.Tasks(j, os.Environ()) {
		fmt.Fprintln(a.Out, line)
	}
	return nil
}

func tellNotes(a *cli.App, name string, j slurm.Job, out slurm.Outcome) {
	for _, note := range out.Notes {
		fmt.Fprintf(a.Err, "datamove: hook: %s: job %d: %s\n", name, j.ID, cli.Shown(note))
	}
}
