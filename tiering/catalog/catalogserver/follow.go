package catalogserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/location"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/catalog/changefeed"
	"datamove.dev/tiering/catalog/changefeed/remote"
)

// hearings are the trees of which changes are heard at this moment.
type hearings struct {
	mu  sync.Mutex
	all map[catalog.Tree]hearing
}

// hearing is one of them.
type hearing struct {
	feed   string
	keeper *changefeed.Follower
}

// Follow implements agentv1.LinkServiceServer.
func (s *Server) Follow(stream grpc.BidiStreamingServer[agentv1.FollowRequest, agentv1.FollowResponse]) error {
	if s.o.Catalog == nil {
		return errNoCatalog
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	id, epoch := first.GetTask(), first.GetEpoch()
	tree, _, done, err := s.walks(stream.Context(), follows, id, epoch)
	if err != nil {
		return err
	}
	defer done()
	t := s.conf().Tiers[tree.Tier]
	if t.Feed == "" {
		return mover.Usagef("nothing tells of changes in %s", tree)
	}
	ctx, end := context.WithCancelCause(stream.Context())
	defer end(nil)
	f, err := remote.Hear(&heard{stream, s, id, epoch}, &agentv1.FollowFeed{Kind: t.Feed, Reader: t.Reader, Queue: t.Queue})
	if err != nil {
		return err
	}
	k := &changefeed.Follower{Catalog: s.o.Catalog, Tree: tree, Source: f, Feed: f, Options: changefeed.Options{Logger: s.log}}
	s.hearings.begin(tree, hearing{t.Feed, k})
	defer s.hearings.end(tree, k)
	var g sync.WaitGroup
	defer g.Wait()
	g.Go(func() { end(k.Run(ctx)) })
	// Its end may be the keeper's doing: then the stream is let go of by returning.
	over := make(chan error, 1)
	go func() { over <- f.Listen(ctx) }()
	select {
	case err = <-over:
		end(err)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", mover.ErrTransient, err)
}

// heard is the stream of a feed from the lead of a task. It ends with the lead.
type heard struct {
	grpc.BidiStreamingServer[agentv1.FollowRequest, agentv1.FollowResponse]
	s     *Server
	id    string
	epoch uint64
}

// Recv implements remote.Hearer.
func (h *heard) Recv() (*agentv1.FollowRequest, error) {
	r, err := h.BidiStreamingServer.Recv()
	if err == nil {
		err = h.s.isLead(h.Context(), h.id, h.epoch)
	}
	return r, err
}

func (h *hearings) begin(tree catalog.Tree, one hearing) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[catalog.Tree]hearing{}
	}
	h.all[tree] = one
}

// end forgets one, if no later one has taken its place.
func (h *hearings) end(tree catalog.Tree, k *changefeed.Follower) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all[tree].keeper == k {
		delete(h.all, tree)
	}
}

func (h *hearings) of(tree catalog.Tree) (one hearing, is bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	one, is = h.all[tree]
	return one, is
}

// Follows reports whether changes in a tree are heard of.
func (s *Server) Follows(tree catalog.Tree) bool {
	_, is := s.hearings.of(tree)
	return is
}

// AsOf is of when the facts of a tree are: of its last scan, or, where changes are heard of, of a moment ago.
func (s *Server) AsOf(state *catalog.State) time.Time {
	one, is := s.hearings.of(state.Tree)
	if !is {
		return state.Scanned
	}
	p := one.keeper.Progress()
	if p.Batches == 0 { // what was before it began is not heard yet
		return state.Scanned
	}
	if of := s.now().Add(-p.Lag); of.After(state.Scanned) {
		return of
	}
	return state.Scanned
}

// followingOf is how changes of a tree are heard of; nil when they are not.
func (s *Server) followingOf(tree catalog.Tree) *pb.Following {
	one, is := s.hearings.of(tree)
	if !is {
		return nil
	}
	p := one.keeper.Progress()
	out := &pb.Following{Feed: one.feed, Events: int64(p.Events), Lag: durationpb.New(p.Lag), Scans: int64(p.Scans), Left: int64(p.Left)}
	if p.Batches > 0 {
		out.Time = timestamppb.New(s.now().Add(-p.Lag))
	}
	return out
}

// KeepFollowed keeps one task that follows changes for each reachable tree of a tier with a feed. It cancels the others.
func (s *Server) KeepFollowed(ctx context.Context) error {
	if s.o.Catalog == nil {
		return nil
	}
	err := s.unfollow(ctx)
	for _, name := range slices.Sorted(maps.Keys(s.conf().Tiers)) {
		t := s.conf().Tiers[name]
		if t.Feed == "" {
			continue
		}
		for _, tree := range s.reached(name) {
			if _, is := s.hearings.of(tree); is || s.now().Sub(s.followAsked[tree]) < scanRest {
				continue
			}
			if s.followAsked == nil {
				s.followAsked = map[catalog.Tree]time.Time{}
			}
			s.followAsked[tree] = s.now()
			_, ferr := s.treeTask(ctx, follows, name, tree.Node, "")
			err = errors.Join(err, ferr)
		}
	}
	return err
}

// unfollow cancels what hears of changes in another way than the configuration has it by now.
func (s *Server) unfollow(ctx context.Context) (err error) {
	var over []*pb.Task
	err = s.ledger.View(func(tx *state.Tx) error {
		for t, err := range state.FindTasks(tx, s.c.OwnTasks()) {
			if err != nil {
				return err
			}
			if t.GetSpec().GetKind() == follows && !s.asked(t.GetSpec()) {
				over = append(over, t)
			}
		}
		return nil
	})
	for _, t := range over {
		err = errors.Join(err, s.c.Cancel(ctx, t))
	}
	return err
}

// asked says whether the configuration still asks for a task that follows changes.
func (s *Server) asked(spec *pb.TaskSpec) bool {
	l, err := location.Parse(spec.GetSource())
	if err != nil {
		return false
	}
	t := s.conf().Tiers[l.Tier]
	tree := catalog.Tree{Tier: l.Tier}
	if t.NodeLocal {
		tree.Node = spec.GetNode()
	}
	one, is := s.hearings.of(tree)
	return t.Feed != "" && t.NodeLocal == (spec.GetNode() != "") && (!is || one.feed == t.Feed)
}
