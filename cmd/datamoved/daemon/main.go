// Package daemon is the command datamoved, the service: the coordinator, the agent of a node, or both,
// which is what it is on one machine without any configuration.
//
// What it owns: its command line and exit codes ([exits]), its directory of state, what
// systemd and signals say to it, and the wiring of the parts: ledger, queue and
// service behind a server, an agent beside it, and behind that the workers, which are
// this same program started as "datamoved worker".
//
// Its directory holds lock (its holder), ballast (room for a full disk), ledger, manifests, audit, trust
// (the authority), agent (journals of users), and on a node that joined identity (its
// certificate). One process at a time has it; a second names the first one. After kill -9
// or a power cut the same command goes on with everything that was accepted.
//
// SIGHUP reads the configuration again, all or nothing. SIGTERM puts the node's work
// back and ends; a second one ends at once. TestStart, TestReload and TestStop show
// it with the program itself, TestJoin two of them, test/script/datamoved what it prints.
package daemon

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	_ "time/tzdata" // zones of windows are the same on every machine

	"datamove.dev/cmd/datamoved/runners"
	"datamove.dev/lustre/fshints"
	"datamove.dev/mover/agent/sandbox"
	"datamove.dev/mover/agent/worker"
)

// workerCommand starts this program as a worker. Only the agent calls it.
const workerCommand = "worker"

// Linux gives a signal for a process to its first thread (complete_signal, kernel/signal.c). In a call that hangs, that one
// holds it back from all others: it runs only the goroutine of Main, which waits. A worker is killed when it
// does not end.
func init() {
	if len(os.Args) < 2 || os.Args[1] != workerCommand {
		runtime.LockOSThread()
	}
}

// Main is the whole command in its process: it takes os.Args, and returns the exit code.
// release is the version that the linker set, or "".
func Main(release string) int {
	version = release
	if len(os.Args) > 1 && os.Args[1] == workerCommand {
		return work()
	}
	debug.SetTraceback("crash") // a crash ends it by SIGABRT: code 2 is a mistake in the configuration, after which systemd does not start it again
	a := app{out: os.Stdout, err: os.Stderr, env: os.Getenv}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second one ends us at once
	if err := a.run(ctx, os.Args[1:]); err != nil {
		return exitCode(err)
	}
	return 0
}

// What a worker allocates is small and short-lived, and what is on its way is in
// buffers that the collector does not see.
const (
	heapGrowth = 400       // percent
	heapSoft   = 112 << 20 // bytes from which on the collector works harder
)

// work runs a worker, with the account of the owner of its task. It returns the exit code.
func work() int {
	runtime.MemProfileRate = 0   // a worker serves no profiles
	conn, err := sandbox.Child() // first, so that nothing is done with other rights
	if err == nil {
		debug.SetGCPercent(heapGrowth)
		debug.SetMemoryLimit(heapSoft)
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		err = worker.Run(ctx, conn, worker.Options{Runners: runners.Of(feedOf), Stderr: os.Stderr, FileSystem: fshints.Of})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "datamoved worker:", err)
	}
	return exitCode(err)
}
