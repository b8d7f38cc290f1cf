package agent

import (
	"context"
	"net"
	"time"

	"datamove.dev/mover/agent/sandbox"
)

// Worker is what works on a task. [sandbox.Process] is the one that a node has.
type Worker interface {
	Conn() net.Conn                 // to it. When it is closed, the worker ends
	PID() int                       // of its process
	Done() <-chan struct{}          // is closed when it has ended
	Stop(grace time.Duration) error // ends it, as Stop of sandbox.Process
	Crash() string                  // of one that has ended, as Crash of sandbox.Process
}

// Waiting is a worker that was started and waits to hear what it may reach. Confine or
// Stop has to be called. waits is called with a path on a file system that does not answer.
type Waiting interface {
	Confine(ctx context.Context, roots sandbox.Confinement, waits func(path string)) (Worker, error)
	Stop() error
}

// readyProcess starts a worker as a process.
func readyProcess(o sandbox.Options) (Waiting, error) {
	w, err := sandbox.Prestart(o)
	if err != nil {
		return nil, err
	}
	return waitingProcess{w}, nil
}

type waitingProcess struct{ *sandbox.Prestarted }

// Confine implements Waiting.
func (w waitingProcess) Confine(ctx context.Context, roots sandbox.Confinement, waits func(path string)) (Worker, error) {
	p, err := w.Prestarted.Confine(ctx, roots, waits)
	if err != nil {
		return nil, err
	}
	return workerProcess{p}, nil
}

type workerProcess struct{ *sandbox.Process }

// Conn implements Worker.
func (w workerProcess) Conn() net.Conn { return w.Process.Conn }
