package catalogworker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/agent/worker"
	"datamove.dev/mover/engine"
	"datamove.dev/tiering/catalog/changefeed"
	"datamove.dev/tiering/catalog/changefeed/remote"
)

// Feeds makes the feed of changes in a backend, which is at that path if it is a directory; close ends what it needs, and may be nil.
type Feeds func(place mover.Backend, path string, kind *agentv1.FollowFeed) (f changefeed.Feed, close func() error, err error)

// Follow is the Runner that tells the coordinator of changes in the source, until it is told to end. Where the connection breaks, it begins anew: a feed
// without memory has everything walked then.
type Follow struct {
	worker.FollowsLinks
	Feeds Feeds // nil can not tell of changes
}

// Run implements worker.Runner.
func (f Follow) Run(ctx context.Context, j *worker.Job) (engine.Report, error) {
	begun := time.Now()
	l, err := j.At(j.Spec().GetSource())
	if err == nil {
		err = engine.Visit(ctx, l, j.Open, func(place mover.Backend) error { return f.tellChanges(ctx, j, place, l.Path) })
	}
	return engine.Report{Elapsed: time.Since(begun)}, err
}

// How long it is between two tries to tell of changes: longer each time, as what is told can begin with a walk.
const (
	followPause     = 200 * time.Millisecond
	followPauseMost = 30 * time.Second
)

// tellChanges reports changes until the coordinator refuses them, or the feed fails for good.
func (f Follow) tellChanges(ctx context.Context, j *worker.Job, place mover.Backend, path string) error {
	for pause := followPause; ; pause = min(2*pause, followPauseMost) {
		began := time.Now()
		j.State(engine.Moving, "hears of changes")
		err := f.tellOnce(ctx, j, place, path)
		if !errors.Is(err, mover.ErrUnreachable) && !errors.Is(err, mover.ErrTransient) && !errors.Is(err, mover.ErrFull) || ctx.Err() != nil {
			return err
		}
		if time.Since(began) > followPauseMost {
			pause = followPause
		}
		j.State(engine.Waiting, "the coordinator does not hear of changes: "+err.Error())
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

func (f Follow) tellOnce(ctx context.Context, j *worker.Job, place mover.Backend, path string) error {
	ctx, cancel := context.WithCancel(ctx) // ends the stream
	defer cancel()
	stream, err := j.Agent().Follow(ctx)
	if err != nil {
		return worker.FromAgent(ctx, err)
	}
	var end func() error
	said := &conversation{WorkerService_FollowClient: stream}
	err = remote.Tell(ctx, said, &paced{Backend: place, job: j}, func(kind *agentv1.FollowFeed) (feed changefeed.Feed, err error) {
		if f.Feeds == nil {
			return nil, fmt.Errorf("%w: this program hears of no changes", mover.ErrUnsupported)
		}
		feed, end, err = f.Feeds(place, path, kind)
		return feed, err
	}, j.Log())
	if end != nil {
		err = errors.Join(err, end())
	}
	if why := said.err.Load(); why != nil { // why the other side has ended it counts
		return worker.FromAgent(ctx, *why)
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
