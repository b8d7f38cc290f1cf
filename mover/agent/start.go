package agent

import (
	"context"
	"net"
	"time"

	"datamove.dev/mover/acting"
)

// Worker is what works on a task. [acting.Process] is the one that a node has.
type Worker interface {
	Conn() net.Conn                 // to it. When it is closed, the worker ends
	PID() int                       // of its process
	Done() <-chan struct{}          // is closed when it has ended
	Stop(grace time.Duration) error // ends it, as Stop of acting.Process
	Crash() string                  // of one that has ended, as Crash of acting.Process
}

// Waiting is a worker that was started and waits to hear what it may reach. Confine or
// Stop has to be called.
type Waiting interface {
	Confine(ctx context.Context, roots acting.Confinement) (Worker, error)
	Stop() error
}

// readyProcess starts a worker as a process.
func readyProcess(o acting.Options) (Waiting, error) {
	w, err := acting.Ready(o)
	if err != nil {
		return nil, err
	}
	return waitingProcess{w}, nil
}

type waitingProcess struct{ *acting.Waiting }

// Confine implements Waiting.
func (w waitingProcess) Confine(ctx context.Context, roots acting.Confinement) (Worker, error) {
	p, err := w.Waiting.Confine(ctx, roots)
	if err != nil {
		return nil, err
	}
	return workerProcess{p}, nil
}

type workerProcess struct{ *acting.Process }

// Conn implements Worker.
func (w workerProcess) Conn() net.Conn { return w.Process.Conn }
