// Package driver is the command datamove-csi, the CSI driver csi.datamove.dev: its controller, its node service, or
// both, with a registrar and a probe of its own.
//
// It owns its command line and the wiring; what a driver does is in datamove.dev/csi. Started as
// "datamove-csi hand" it is one of the processes that the driver asks file systems with, and kills.
package driver

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"datamove.dev/csi/fsclient"
	"datamove.dev/csi/fsworker"
)

// handCommand starts this program as a worker of the file system. Only the driver calls it.
const handCommand = "hand"

var version = "unknown"

// Linux gives a signal for a process to its first thread (complete_signal, kernel/signal.c). In a call that hangs, that one
// holds it back from all others: it runs only the goroutine of Main, which waits. A hand is killed.
func init() {
	if len(os.Args) < 2 || os.Args[1] != handCommand {
		runtime.LockOSThread()
	}
}

// Main is the whole command in its process: it takes os.Args, and returns the exit code.
// release is the version that the linker set, or "".
func Main(release string) int {
	version = cmp.Or(release, version)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) == 2 && os.Args[1] == handCommand {
		return serveHand()
	}
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "datamove-csi:", err)
		return exitCode(err)
	}
	return 0
}

// serveHand ends with the driver, and not by a signal to its group: a call that is under way is ended with its file system only.
func serveHand() int {
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	debug.SetMemoryLimit(24 << 20)
	if err := fsworker.Serve(context.Background(), fsclient.Methods()); err != nil {
		fmt.Fprintln(os.Stderr, "datamove-csi hand:", err)
		return 1
	}
	return 0
}
