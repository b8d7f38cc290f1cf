package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/task"
)

const (
	lookPatience = 20 * time.Second // with agents that look; callers have ten seconds more
	lookAgain    = time.Second      // between questions whether anybody is there to do it
	lookYouth    = 5 * time.Second  // of this service, in which agents come back
	lookKept     = time.Minute      // how long its task can be listed, from its submission on
)

// look has agents check whether a caller may read a source of the replica that it wants. Concurrent
// requests of one account for one replica share one check.
func (s *accessProber) look(ctx context.Context, u *unseen) error {
	key := lookKey(accountOf(u.caller), u.replica)
	x, mine := s.looks.begin(key, s.clock.steady())
	if !mine {
		select {
		case <-x.done:
			return x.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	see := s.o.look
	if see == nil {
		see = func(u *unseen) error { return s.see(ctx, u) }
	}
	err := see(u)
	s.looks.end(key, x, err, s.clock.steady())
	return err
}

// see looks at one source after the other, until one is found that the caller may read.
func (s *accessProber) see(ctx context.Context, u *unseen) (why error) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), lookPatience, errLate) // others may wait for it
	defer cancel()
	s.gathered(ctx, u)
	if len(u.sources) == 0 {
		return s.finds(ctx, u.caller, s.lookSpec(u, nil))
	}
	for _, source := range u.sources {
		specs, err := s.lookAt(u, source)
		for _, spec := range specs {
			if err == nil {
				err = s.finds(ctx, u.caller, spec)
			}
		}
		if err == nil {
			return nil
		}
		if why == nil || errors.Is(err, mover.ErrPermission) {
			why = err
		}
	}
	if errors.Is(why, mover.ErrUnreachable) && isOwner(u.replica.GetOwner(), u.caller) {
		if !s.gated(u.replica) {
			return nil
		}
		return s.finds(ctx, u.caller, s.lookSpec(u, nil))
	}
	return &mover.Error{Op: "read", Place: u.replica.GetLocation(), Err: fmt.Errorf("it is for who may read it where it came from: %w", why)}
}

// gathered waits a moment for agents that could look to come back, when this service has just begun.
func (s *accessProber) gathered(ctx context.Context, u *unseen) {
	spec := s.lookSpec(u, nil)
	if len(u.sources) > 0 {
		spec = s.lookSpec(u, u.sources[0])
	}
	for time.Since(s.started) < lookYouth && !s.c.datasets.reachable(u.caller, spec) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookAgain / 10):
		}
	}
}

var errLate = fmt.Errorf("%w: nobody could look in %v", mover.ErrTimeout, lookPatience)

// lookAt are the requests to look at a source and to let the caller in: one, where an agent sees both.
func (s *accessProber) lookAt(u *unseen, source *pb.Replica) ([]*pb.TaskSpec, error) {
	project, err := s.c.through(u.caller, u.project, source.GetLocation(), false)
	if err != nil {
		return nil, err
	}
	both, alone := s.lookSpec(u, source), s.lookSpec(u, source)
	both.Project, alone.Project = project, project
	alone.Target, alone.Node = "", source.GetNode()
	oneNode := u.replica.GetNode() == "" || source.GetNode() == "" || u.replica.GetNode() == source.GetNode()
	switch {
	case oneNode && s.c.datasets.reachable(u.caller, both):
		return []*pb.TaskSpec{both}, nil
	case !s.c.datasets.reachable(u.caller, alone):
		return nil, &mover.Error{Op: "look at", Place: source.GetLocation(), Err: mover.Because(mover.ErrUnreachable, "no agent that is there reaches it, to see whether %s may read it", u.caller)}
	case s.gated(u.replica):
		return []*pb.TaskSpec{alone, s.lookSpec(u, nil)}, nil
	}
	return []*pb.TaskSpec{alone}, nil
}

// lookSpec is the request to look at a source, if there is one, and to let the caller in to
// the replica, if that has a gate.
func (s *accessProber) lookSpec(u *unseen, source *pb.Replica) *pb.TaskSpec {
	spec := probeSpec(source.GetLocation(), cmp.Or(u.replica.GetNode(), source.GetNode()))
	spec.Project = u.project
	if spec.Class = task.ClassOf(spec); s.gated(u.replica) {
		spec.Target = u.replica.GetLocation()
	}
	return spec
}
