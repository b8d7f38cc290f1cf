// Command datamove-bench measures datamove beside its peers, and says what a cluster
// can do. It owns flags and output; scenarios, measuring, statistics and the model are
// in datamove.dev/bench.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := rootCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "datamove-bench:", err)
		os.Exit(exitCode(err))
	}
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
	root.AddCommand(ceilingsCommand(), modelCommand(), reportCommand(), compareCommand())
	return root
}

// nothing takes no words behind a command.
func nothing(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes no %q: see %s --help", cmd.CommandPath(), args[0], cmd.CommandPath())}
	}
	return nil
}

// exitCode follows datamove: 130 interrupted, 2 for words that are wrong, 1 otherwise.
func exitCode(err error) int {
	var usage usageError
	switch {
	case errors.Is(err, context.Canceled):
		return 130
	case errors.As(err, &usage):
		return 2
	}
	return 1
}
