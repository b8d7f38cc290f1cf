// Copier copies one directory to another, as the mover does it, after it entered.
package main

import (
	"context"
	"fmt"
	"net"
	"os"

	"datamove.dev/mover"
	"datamove.dev/mover/agent/sandbox"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
)

func main() {
	conn, err := sandbox.Child()
	if err != nil {
		fmt.Fprintln(os.Stderr, "copier:", err)
		os.Exit(1)
	}
	fmt.Fprintln(conn, work(os.Args[1], os.Args[2], os.Args[3], os.Args[4]))
	<-make(chan net.Conn)
}

func work(source, target, state, backup string) string {
	task, err := engine.Start(context.Background(), engine.Request{Work: engine.Sync, Delete: true,
		Source: location.OfPath(source),
		Target: location.OfPath(target), StateDir: state, Backup: backup}, open)
	if err != nil {
		return fmt.Sprintln("start:", err)
	}
	report, err := task.Wait()
	return fmt.Sprintf("files %d others %d removed %d notes %d: %v", report.Files, report.Others, report.Removed, len(report.Notes), err)
}

func open(_ context.Context, l location.Location, o engine.OpenOptions) (mover.Backend, error) {
	p, err := posix.Open(l.Path, posix.Options{Create: o.Write, Backup: o.Backup, StateDir: o.StateDir, Buffers: o.Buffers})
	if err != nil {
		return nil, err
	}
	return p, nil
}
