package fabric

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Main is a command of the scale model: it runs until it ends, or is interrupted, and exits with 1 when it fails.
func Main(name string, run func(ctx context.Context, args []string) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}
