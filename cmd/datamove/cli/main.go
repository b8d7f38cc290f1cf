// Package cli is what all commands of datamove share: the process and its flags ([App]), formats of output ([Format], [Listing]), exit codes, the way to the
// service, locations of the command line, and questions to file systems that may hang ([Probe]).
//
// A package beside it has the commands of one noun: a function that makes a cobra.Command of an App with its own flags; [App.Do] runs its body, with its own and
// views. Package root puts them together; nothing here knows a command. The work itself is done by datamove.dev/mover/engine, in this process, or by a service
// through datamove.dev/api; what is printed and how it ends is the same.
//
// An interrupted or killed run leaves nothing half visible; the same command goes on where it stopped. What asks file systems waits for none that hangs
// ([ProbePath]), and is done by a second process, which can be left behind ([App.SecondProcess]). Text that comes from elsewhere reaches no terminal as it is ([Shown]).
// What is printed as JSON has a schema with a number, which changes with what would break a reader. TestEveryKindHasACode shows that no kind of error was
// forgotten, TestCodesAgree that a service counts the same.
package cli

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
)

// What a copy allocates is small and short-lived, so the collector may wait for
// more of it; what is on its way is in buffers that it does not see. heapSoft keeps
// a run within 256 MiB with them.
const (
	heapGrowth = 400       // percent
	heapSoft   = 112 << 20 // bytes from which on the collector works harder
)

// Linux gives a signal for a process to its first thread (complete_signal, kernel/signal.c). In a call that hangs, that one
// holds it back from all others: it runs only the goroutine of Main, which asks no file system (attended).
func init() { runtime.LockOSThread() }

// Main is the whole command in its process: it takes os.Args, and returns the exit code.
// release is the version that the linker set, or "".
func Main(release string, p Program) (code int) {
	version = release
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(heapGrowth)
		debug.SetMemoryLimit(heapSoft)
	}
	ctx, stops := hearStops(context.Background())
	defer func() {
		if p := recover(); p != nil { // of this goroutine or the one of a command; of others the runtime says the same, and ends with 2
			c := crashOf(p)
			fmt.Fprintf(os.Stderr, "datamove: this is a fault of datamove %s, please report it with all of this: %v\n%s", BuildFacts().Version, c.fault, c.stack)
			code = ExitOther
		}
	}()
	a := App{In: os.Stdin, Out: &printed{os.Stdout, stops.stop}, Err: &printed{os.Stderr, stops.stop}, Env: os.Getenv, environ: os.Environ(), stops: stops}
	first := toFirst()
	if first == nil {
		a.second = runSecond
	}
	code = ExitCode(a.Run(ctx, p, os.Args[1:]))
	if first != nil {
		part(first, code)
	}
	return code
}

// crashed is a panic, and where it was.
type crashed struct {
	fault any
	stack []byte
}

// crashOf is what was recovered, with the stack of this goroutine unless it is passed on from another one.
func crashOf(p any) *crashed {
	if c, is := p.(*crashed); is {
		return c
	}
	return &crashed{p, debug.Stack()}
}
