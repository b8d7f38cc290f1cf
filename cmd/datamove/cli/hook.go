package cli

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
	"datamove.dev/mover"
	"datamove.dev/mover/backend"
	"datamove.dev/mover/config"
	"datamove.dev/tiering/slurm"
	"datamove.dev/tiering/slurm/burstbuffer"
)

// exitFault is how a hook ends on a broken node. Slurm takes the node out of service for it: no other exit code but 0 may come of a hook.
const exitFault = 1

func (a *app) hookCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hook",
		Short: "What Slurm runs before, in and after a job",
		Long: `Hooks are run by Slurm, as its configuration says (deploy/slurm). They end within the
deadline of the configuration (slurm.deadline, 5 s), whatever happens, and with 0, but for a node whose
disk is broken: Slurm drains a node for anything else. What does not go well is printed to stderr, for the
log of slurmd.`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = a.do(func(context.Context, []string) error { return cmd.Help() })
	cmd.AddCommand(
		a.nodeHook("prolog", "Make the directory of a job, and names in it for what was staged (Prolog=)", func(ctx context.Context, s *slurm.Site) error { return a.prolog(ctx, s) }),
		a.nodeHook("epilog", "Let go of what was staged for a job, and take its directory away (Epilog=)", func(ctx context.Context, s *slurm.Site) error { return a.epilog(ctx, s) }),
		a.ofJob(a.nodeHook("task-prolog", "Print what the tasks of a job find in their environment (TaskProlog=)", func(ctx context.Context, s *slurm.Site) error { return a.taskProlog(ctx, s) })),
		a.hookEnvironmentCommand(),
		a.bbCommand(),
		a.atController("prolog-slurmctld", "Remember which nodes a job has got (PrologSlurmctld=)", func(c *burstbuffer.Controller, job uint32) error { return a.prologSlurmctld(c, job) }),
		a.atController("epilog-slurmctld", "Remember how a job has ended (EpilogSlurmctld=)", func(c *burstbuffer.Controller, job uint32) error { return a.epilogSlurmctld(c, job) }),
	)
	return cmd
}

// Of a hook's deadline its work, and the wait for it, may take so much: the rest is for starts and ends of processes on a busy node.
const (
	workShare = 0.8
	waitShare = 0.9
)

// nodeHook is a hook on a node. Its work is done by a second process, so that a disk which hangs keeps no hook: when its time is over the first one ends.
func (a *app) nodeHook(name, short string, body func(context.Context, *slurm.Site) error) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: short, Example: "  datamove hook " + name, Args: cobra.ArbitraryArgs, DisableFlagParsing: true} // nothing that Slurm adds some day is an error
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.Begin()
		if slices.Contains(args, "--help") {
			return cmd.Help()
		}
		share := workShare
		if a.RunsApart() {
			share = waitShare
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), time.Duration(share*float64(a.deadline())))
		defer cancel()
		err := a.Apart(ctx)
		if errors.Is(err, ErrNotApart) {
			err = a.onNode(ctx, body)
		}
		return a.ends(ctx, name, err)
	}
	return cmd
}

// ofJob is a hook that Slurm runs in the environment of a job.
func (a *app) ofJob(cmd *cobra.Command) *cobra.Command {
	do := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.InUserJob()
		return do(cmd, args)
	}
	return cmd
}

// ends is how a hook ends: with an error where the node is broken, and else well.
func (a *app) ends(ctx context.Context, name string, err error) error {
	var f *slurm.Fault
	var second *ended
	switch {
	case errors.As(err, &f):
		fmt.Fprintf(a.err, "datamove: hook: %s: %s\n", name, shown(f.Error()))
		return exitOf(exitFault)
	case errors.As(err, &second) && second.code == exitFault:
		return err
	case ctx.Err() != nil:
		err = fmt.Errorf("%w: its deadline of %v is over; the job goes on without what is not done", mover.ErrTimeout, a.deadline())
	}
	if err != nil && !errors.As(err, &second) { // else it is told
		fmt.Fprintf(a.err, "datamove: hook: %s: %s\n", name, shown(err.Error()))
	}
	return nil
}

// deadline is that of a hook. Without a configuration that can be read it is the usual one.
func (a *app) deadline() time.Duration {
	c, err := a.config()
	if err != nil {
		return config.DefaultDeadline
	}
	return cmp.Or(c.Slurm.Deadline, config.DefaultDeadline)
}

// onNode does the work of a hook in this process. That it breaks is no reason to drain the node.
func (a *app) onNode(ctx context.Context, body func(context.Context, *slurm.Site) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("it broke: %v", r)
		}
	}()
	s, err := a.slurmSite()
	if err != nil {
		return err
	}
	return body(ctx, s)
}

// slurmSite is this node, as the configuration has it.
func (a *app) slurmSite() (*slurm.Site, error) {
	c, err := a.config()
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
		return a.dial(ctx, cmp.Or(a.env("DATAMOVE_SERVICE"), c.Service, config.DefaultListen), "the datamoved of this node")
	}, backend.Mounted)
}

// prolog implements hook prolog.
func (a *app) prolog(ctx context.Context, s *slurm.Site) error {
	j, err := slurm.JobOf(a.env)
	if err != nil {
		return err
	}
	out, err := s.Prolog(ctx, j)
	a.tellNotes("prolog", j, out)
	return err
}

// epilogPatience is for how long an epilog waits for the mover: the node waits for the next job.
const epilogPatience = 700 * time.Millisecond

// epilog implements hook epilog.
func (a *app) epilog(ctx context.Context, s *slurm.Site) error {
	j, err := slurm.JobOf(a.env)
	if err != nil {
		return err
	}
	s.Patience = min(s.Patience, epilogPatience)
	out, err := s.Epilog(ctx, j)
	a.tellNotes("epilog", j, out)
	return err
}

// taskProlog implements hook task-prolog. Slurm runs it as the user.
func (a *app) taskProlog(_ context.Context, s *slurm.Site) error {
	j, err := slurm.TaskOf(a.env, uint32(os.Getuid()))
	if err != nil {
		return err
	}
	for _, line := range s.Tasks(j, os.Environ()) {
		fmt.Fprintln(a.out, line)
	}
	return nil
}

func (a *app) tellNotes(name string, j slurm.Job, out slurm.Outcome) {
	for _, note := range out.Notes {
		fmt.Fprintf(a.err, "datamove: hook: %s: job %d: %s\n", name, j.ID, shown(note))
	}
}
