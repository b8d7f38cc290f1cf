package demo

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
)

// Command is datamove demo.
func Command(a *cli.App) *cobra.Command {
	var o Options
	keep := false
	cmd := &cobra.Command{
		Use:   "demo [flags]",
		Short: "Show what datamove does, on data that it makes",
		Long: `Demo makes a data set in a temporary folder, copies it, breaks one byte and lets
verify find it, kills a copy with kill -9 and lets the same command go on. With
--s3 the data set is archived to that prefix and staged back as well; the endpoint
and the credentials come from the configuration or the AWS environment.`,
		Example: `  datamove demo`,
		Args:    cobra.NoArgs,
	}
	cmd.RunE = a.Do(func(ctx context.Context, _ []string) error {
		return runDemo(ctx, a, o, keep)
	})
	cmd.Flags().StringVar(&o.S3, "s3", "", "archive to and stage from this `LOCATION`, like s3://bucket/prefix, which should be empty")
	cmd.Flags().StringVar(&o.Dir, "dir", "", "work below this `DIR` (default a temporary one)")
	cmd.Flags().BoolVar(&keep, "keep", false, "leave everything there to look at")
	cmd.Flags().IntVar(&o.Small, "small", 0, "make `N` small files (default 3000)")
	cmd.Flags().IntVar(&o.LargeMB, "large", 0, "make each large file of `N` MiB (default 64)")
	return cmd
}

func runDemo(ctx context.Context, a *cli.App, o Options, keep bool) (err error) {
	if o.Program, err = os.Executable(); err != nil {
		return err
	}
	if o.Small < 0 || o.LargeMB < 0 {
		return mover.Misusef("--small and --large count from 1")
	}
	if o.Dir, err = os.MkdirTemp(o.Dir, "datamove-demo-"); err != nil {
		return err
	}
	if keep {
		defer func() { fmt.Fprintf(a.Out, "   left in %s\n", o.Dir) }()
	} else {
		defer func() {
			if rerr := os.RemoveAll(o.Dir); err == nil {
				err = rerr
			}
		}()
	}
	o.Env = append(os.Environ(), "DATAMOVE_SERVICE="+cli.NoService) // what is killed is to be the copy
	if a.ConfigFile != "" {
		o.Env = append(o.Env, "DATAMOVE_CONFIG="+a.ConfigFile)
	}
	return Run(ctx, a.Out, o)
}
