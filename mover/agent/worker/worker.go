package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"datamove.dev/api"
	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/engine"
)

// Options are what a worker has beside its job. The zero value works.
type Options struct {
	Runners    Runners                                                              // by the kind of task; nil knows none
	Stderr     io.Writer                                                            // of logs, as text; nil means no log
	FileSystem func(dir int) (mover.FileSystem, error)                              // knows more of the file system of an open directory; nil knows of none
	Around     func(engine.Opener) engine.Opener                                    // is put around what opens places; nil is nothing
	Dial       func(ctx context.Context, network, address string) (net.Conn, error) // connects to other agents, to stores and to AWS; nil uses the network
}

// Run serves the agent at the other end of conn until its job is done, or until conn
// or ctx ends.
func Run(ctx context.Context, conn net.Conn, o Options) error {
	client, err := dial(conn)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	agent := agentv1.NewWorkerServiceClient(client)
	stream, err := agent.Serve(ctx)
	if err != nil {
		return FromAgent(ctx, err)
	}
	first, err := stream.Recv()
	if err != nil {
		return FromAgent(ctx, err)
	}
	if first.GetJob() == nil {
		return fmt.Errorf("%w: the first order is no job", mover.ErrUsage)
	}
	w := &worker{NewJob(first.GetJob(), agent, o), cancel}
	if len(w.order.GetResolve()) > 0 {
		return w.tellReal(ctx)
	}
	ctx, endTrace, err := w.trace.begin(ctx, w.agent, w.order)
	if err != nil {
		return err
	}
	defer endTrace()
	go w.tell(ctx, stream)
	ctx = engine.WithObserver(ctx, w.state)
	if w.order.GetLead() {
		if w.swarm, err = w.joinSwarm(ctx); err != nil {
			return err
		}
		w.counts.countPeers(w.swarm.fetched)
		defer w.swarm.leave()
		go w.listen(ctx, stream, nil)
		return w.lead(ctx)
	}
	return w.help(ctx, stream)
}

// worker is one process, which has one job.
type worker struct {
	*Job
	stop context.CancelCauseFunc
}

// errStopped is the end of a worker that was told to stop.
type errStopped struct{ how agentv1.How }

func (e *errStopped) Error() string { return "told to stop: " + e.how.String() }

// listen takes orders until the stream ends.
func (w *worker) listen(ctx context.Context, stream agentv1.WorkerService_ServeClient, batch func(*agentv1.WorkerOrder)) {
	for {
		order, err := stream.Recv()
		if err != nil {
			w.stop(cmp.Or(context.Cause(ctx), FromAgent(ctx, err)))
			return
		}
		if s := order.GetStop(); s != nil && s.GetBatch() == "" {
			w.stop(&errStopped{s.GetHow()})
			continue
		}
		if p := order.GetPart(); p != nil {
			w.bandwidth.SetRate(p.GetBytesPerSecond())
			continue
		}
		if w.swarm.receive(order) {
			continue
		}
		if batch != nil {
			batch(order)
		}
	}
}

// told reports how a stop was meant, if it was one.
func told(ctx context.Context) (agentv1.How, bool) {
	var s *errStopped
	if errors.As(context.Cause(ctx), &s) {
		return s.how, true
	}
	return 0, false
}

// tellEvery is how often the agent hears how far we are, and tellPause how long it is at
// least between two words: at its end a task goes through a handful of phases at once.
const (
	tellEvery = 200 * time.Millisecond
	tellPause = 20 * time.Millisecond
)

// tell sends the state when it has changed.
func (w *worker) tell(ctx context.Context, stream agentv1.WorkerService_ServeClient) {
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for {
		if s, changed := w.state.status(time.Now()); changed {
			if stream.Send(s) != nil {
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(tellPause):
		}
		select {
		case <-ctx.Done():
			return
		case <-w.state.urgent:
		case <-tick.C:
		}
	}
}

// Stopped reports whether a context ended because the agent told this process to stop.
func Stopped(ctx context.Context) bool {
	_, stopped := told(ctx)
	return stopped
}

// FromAgent makes the error of a call or a stream one of the kinds of mover. That ctx has ended goes before.
func FromAgent(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if errors.Is(err, io.EOF) {
		return errors.New("the agent has ended the conversation")
	}
	return api.FromStatus(err)
}

func levelOf(name string) slog.Level {
	var l slog.Level
	if l.UnmarshalText([]byte(name)) != nil {
		return slog.LevelInfo
	}
	return l
}

// firstByte is when the first byte has passed, on the wire.
func firstByte(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
