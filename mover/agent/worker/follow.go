package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/tiering/catalog/changefeed"
	"datamove.dev/tiering/catalog/changefeed/remote"
)

// Feeds makes the feed of changes in a backend, which is at that path if it is a directory; close ends what it needs, and may be nil.
type Feeds func(place mover.Backend, path string, kind *agentv1.FollowFeed) (f changefeed.Feed, close func() error, err error)

// follow tells the coordinator of changes in the source, until it is told to end. Where the connection breaks, it begins anew: a feed without memory has
// everything walked then.
func (w *worker) follow(ctx context.Context) (engine.Report, error) {
	begun := time.Now()
	l, err := w.at(w.job.GetSpec().GetSource())
	if err == nil {
		err = engine.Visit(ctx, l, w.open, func(place mover.Backend) error { return w.tellChanges(ctx, place, l.Path) })
	}
	return engine.Report{Elapsed: time.Since(begun)}, err
}

// tellChanges reports changes until the coordinator refuses them, or the feed fails for good.
func (w *worker) tellChanges(ctx context.Context, place mover.Backend, path string) error {
	for pause := resendPause; ; pause = min(2*pause, resendPauseMost) {
		began := time.Now()
		w.state.State(engine.Moving, "hears of changes")
		err := w.tellOnce(ctx, place, path)
		if !errors.Is(err, mover.ErrUnreachable) && !errors.Is(err, mover.ErrTransient) && !errors.Is(err, mover.ErrFull) || ctx.Err() != nil {
			return err
		}
		if time.Since(began) > resendPauseMost {
			pause = resendPause
		}
		w.state.State(engine.Waiting, "the coordinator does not hear of changes: "+err.Error())
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

func (w *worker) tellOnce(ctx context.Context, place mover.Backend, path string) error {
	ctx, cancel := context.WithCancel(ctx) // ends the stream
	defer cancel()
	stream, err := w.agent.Follow(ctx)
	if err != nil {
		return fromAgent(ctx, err)
	}
	var end func() error
	said := &conversation{WorkerService_FollowClient: stream}
	err = remote.Tell(ctx, said, &paced{Backend: place, w: w}, func(kind *agentv1.FollowFeed) (f changefeed.Feed, err error) {
		if w.o.Feeds == nil {
			return nil, fmt.Errorf("%w: this program hears of no changes", mover.ErrUnsupported)
		}
		f, end, err = w.o.Feeds(place, path, kind)
		return f, err
	}, w.log)
	if end != nil {
		err = errors.Join(err, end())
	}
	if why := said.err.Load(); why != nil { // why the other side has ended it counts
		return fromAgent(ctx, *why)
	}
	return err
}

// conversation remembers why it ended.
type conversation struct {
	agentv1.WorkerService_FollowClient
	err atomic.Pointer[error] // of Recv, which may be waiting still when the telling is over
}

// Recv implements remote.Teller.
func (c *conversation) Recv() (*agentv1.FollowResponse, error) {
	r, err := c.WorkerService_FollowClient.Recv()
	if err != nil && c.Context().Err() == nil {
		why := err
		if errors.Is(err, io.EOF) {
			why = fmt.Errorf("%w: the coordinator has ended the conversation", mover.ErrTransient)
		}
		c.err.Store(&why)
	}
	return r, err
}
