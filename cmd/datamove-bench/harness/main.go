// Package harness is the command datamove-bench, which measures what a cluster does, says what it can do, and compares datamove with its peers.
// It owns flags and output; measuring, statistics and the model are in the packages below datamove.dev/bench.
package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"datamove.dev/mover"
)

// version is what Main was given.
var version = "unknown"

// Main is the whole command in its process: it takes os.Args, and returns the exit code.
// release is the version that the linker set, or "".
func Main(release string) int {
	version = cmp.Or(release, version)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := rootCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "datamove-bench:", err)
		return exitCode(err)
	}
	return 0
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "datamove-bench",
		Short:         "measure datamove beside its peers, and judge a cluster",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          nothing,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(ceilingsCommand(), runCommand(), joinCommand(), reportCommand(), modelCommand(), compareCommand(), versionCommand())
	return root
}

func versionCommand() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "which one this is", Args: nothing, RunE: func(cmd *cobra.Command, _ []string) error {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "datamove-bench", version)
		return err
	}}
}

// nothing takes no words behind a command.
func nothing(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes no %q: see %s --help", cmd.CommandPath(), args[0], cmd.CommandPath())}
	}
	return nil
}

// codes are the exit codes of datamove by kinds of errors, the gravest first.
var codes = []struct {
	kind error
	code int
}{
	{context.Canceled, 130}, {mover.ErrCorrupt, 9}, {mover.ErrFull, 7}, {mover.ErrRefused, 7}, {mover.ErrHeld, 5}, {mover.ErrChanged, 5}, {mover.ErrConflict, 5}, {mover.ErrPermission, 4},
	{mover.ErrUsage, 2}, {context.DeadlineExceeded, 10}, {mover.ErrTimeout, 10}, {mover.ErrUnreachable, 8}, {mover.ErrTransient, 8}, {mover.ErrNotExist, 3},
}

// exitCode is that of an error.
func exitCode(err error) int {
	var usage usageError
	if errors.As(err, &usage) {
		return 2
	}
	for _, c := range codes {
		if errors.Is(err, c.kind) {
			return c.code
		}
	}
	return 1
}
