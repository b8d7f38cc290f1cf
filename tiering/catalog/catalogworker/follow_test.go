package catalogworker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/agent/worker"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/test/must"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/catalog/changefeed"
)

// TestPacedGlances: who looks for what has happened sees what is true now, and not what Stat remembers.
func TestPacedGlances(t *testing.T) {
	place := must.Get(posix.Open(t.TempDir(), posix.Options{}))(t)
	defer place.Close()
	if g, ok := mover.As[catalog.Glancer](&paced{Backend: place}); !ok || g != catalog.Glancer(place) {
		t.Errorf("it has %v", g)
	}
}

// hearer is the agent of a worker that tells of changes. It asks for a feed, and nothing after that.
type hearer struct {
	agentv1.WorkerServiceClient
	streams int
}

func (h *hearer) Follow(ctx context.Context, _ ...grpc.CallOption) (grpc.BidiStreamingClient[agentv1.FollowRequest, agentv1.FollowResponse], error) {
	h.streams++
	return &follow{ctx: ctx}, nil
}

// follow is one stream.
type follow struct {
	grpc.BidiStreamingClient[agentv1.FollowRequest, agentv1.FollowResponse]
	ctx context.Context
}

func (f *follow) Context() context.Context { return f.ctx }

func (f *follow) Recv() (*agentv1.FollowResponse, error) {
	return &agentv1.FollowResponse{Feed: &agentv1.FollowFeed{Kind: "inotify"}}, nil
}

// TestFollow: a feed that can not be had ends the task; one that breaks, or is not reached, is asked for again after longer and longer pauses, until the task ends.
func TestFollow(t *testing.T) {
	broken := func(err error) Feeds {
		return func(mover.Backend, string, *agentv1.FollowFeed) (changefeed.Feed, func() error, error) {
			return nil, nil, err
		}
	}
	for _, row := range []struct {
		what    string
		feeds   Feeds
		want    error
		streams int // in a minute
	}{
		{"a program without feeds", nil, mover.ErrUnsupported, 1},
		{"a backend without one", broken(mover.ErrUnsupported), mover.ErrUnsupported, 1},
		{"a feed that breaks", broken(mover.ErrTransient), context.DeadlineExceeded, 9}, // after 0, 0.2, 0.6, 1.4, … 51.0 s
	} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			h := &hearer{}
			order := &agentv1.Job{Spec: &pb.TaskSpec{Source: "warm:"}, Tiers: []*agentv1.TierAccess{{Name: "warm", Level: "warm", Path: dir}}}
			_, err := (Follow{Feeds: row.feeds}).Run(ctx, worker.NewJob(order, h, worker.Options{}))
			if !errors.Is(err, row.want) || h.streams != row.streams {
				t.Errorf("%s: %v after %d streams", row.what, err, h.streams)
			}
		})
	}
}
