package slurm

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/tiering/slurm/directive"
	"datamove.dev/tiering/slurm/jobenv"
)

// hookEnvironmentCommand is the task prolog of a machine that has no Slurm.
func hookEnvironmentCommand(a *cli.App) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "environment [flags] SCRIPT",
		Short: "Print what a script finds in its environment, where Slurm does not tell it",
		Long: `Environment reads the #DATAMOVE lines of SCRIPT, and prints what the tasks of a Slurm job
with these lines find in their environment, for a shell to evaluate: where its data is on this
machine, where to write checkpoints, and from which to go on. Tiers are those of the configuration
here, so that one script runs on premises and in a cloud. It moves nothing.

What a hook has told already, and is set here, holds: only the rest is printed.`,
		Example: `  eval "$(datamove hook environment "$0")"
  train --data "$DATAMOVE_IN_IMAGENET" --save "$DATAMOVE_CHECKPOINT" --resume "${DATAMOVE_RESUME:-}"`,
		Args: cli.Exactly(1, "one script"),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		job, err := outsideJob(a, args[0], name)
		if err != nil {
			return err
		}
		text, err := scriptOf(args[0])
		if err != nil {
			return err
		}
		vars, err := job.Variables(ctx, text)
		if err != nil {
			return err
		}
		for _, v := range vars {
			line := "unset " + v[0]
			if v[1] != "" {
				line = "export " + v[0] + "=" + cli.ShellWord(v[1])
			}
			if _, err := fmt.Fprintln(a.Out, line); err != nil {
				return err
			}
		}
		return nil
	})
	cmd.Flags().StringVar(&name, "job", "", "its `NAME`, which is that of its directory on the scratch tier (default: that of the script)")
	return cmd
}

// outsideJob is a job of this machine. The values of patterns are those that Slurm would give, as far as there are any.
func outsideJob(a *cli.App, script, name string) (*jobenv.Job, error) {
	c, err := a.Config()
	if err != nil {
		return nil, err
	}
	base := strings.TrimSuffix(filepath.Base(script), filepath.Ext(script))
	v := directive.Values{Job: cmp.Or(name, base), Name: base, Node: c.Node}
	if v.Node == "" {
		if v.Node, err = os.Hostname(); err != nil {
			return nil, err
		}
	}
	if u, err := user.Current(); err == nil { // one of a container may have no name
		v.User = u.Username
	}
	return &jobenv.Job{Config: c, Values: v, Told: a.Env}, nil
}
