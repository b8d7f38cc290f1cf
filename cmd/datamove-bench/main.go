// Command datamove-bench measures datamove beside its peers. It owns flags and
// output; scenarios, measuring and statistics are in datamove.dev/bench.
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
	root := &cobra.Command{
		Use:           "datamove-bench",
		Short:         "measure datamove beside its peers",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(compareCommand())
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "datamove-bench:", err)
		os.Exit(exitCode(err))
	}
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
