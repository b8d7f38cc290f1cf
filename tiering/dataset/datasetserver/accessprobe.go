package datasetserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/server/authz"
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
func (s *accessProber) look(ctx context.Context, u *Unseen) error {
	key := lookKey(authz.AccountOf(u.Caller), u.Replica)
	x, mine := s.looks.begin(key, s.clock.Steady())
	if !mine {
		select {
		case <-x.done:
			return x.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	see := s.o.Look
	if see == nil {
		see = func(u *Unseen) error { return s.see(ctx, u) }
	}
	err := see(u)
	s.looks.end(key, x, err, s.clock.Steady())
	return err
}

// see looks at one source after the other, until one is found that the caller may read.
func (s *accessProber) see(ctx context.Context, u *Unseen) (why error) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), lookPatience, errLate) // others may wait for it
	defer cancel()
	s.gathered(ctx, u)
	if len(u.Sources) == 0 {
		return s.finds(ctx, u.Caller, s.lookSpec(u, nil))
	}
	for _, source := range u.Sources {
		specs, err := s.lookAt(u, source)
		for _, spec := range specs {
			if err == nil {
				err = s.finds(ctx, u.Caller, spec)
			}
		}
		if err == nil {
			return nil
		}
		if why == nil || errors.Is(err, mover.ErrPermission) {
			why = err
		}
	}
	if errors.Is(why, mover.ErrUnreachable) && authz.IsOwner(u.Replica.GetOwner(), u.Caller) {
		if !s.gated(u.Replica) {
			return nil
		}
		return s.finds(ctx, u.Caller, s.lookSpec(u, nil))
	}
	return &mover.Error{Op: "read", Location: u.Replica.GetLocation(), Err: fmt.Errorf("it is for who may read it where it came from: %w", why)}
}

// gathered waits a moment for agents that could look to come back, when this service has just begun.
func (s *accessProber) gathered(ctx context.Context, u *Unseen) {
	spec := s.lookSpec(u, nil)
	if len(u.Sources) > 0 {
		spec = s.lookSpec(u, u.Sources[0])
	}
	for time.Since(s.started) < lookYouth && !s.c.Reachable(u.Caller, spec) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookAgain / 10):
		}
	}
}

var errLate = fmt.Errorf("%w: nobody could look in %v", mover.ErrTimeout, lookPatience)

// lookAt are the requests to look at a source and to let the caller in: one, where an agent sees both.
func (s *accessProber) lookAt(u *Unseen, source *pb.Replica) ([]*pb.TaskSpec, error) {
	project, err := s.rules().Through(u.Caller, u.Project, source.GetLocation(), false)
	if err != nil {
		return nil, err
	}
	both, alone := s.lookSpec(u, source), s.lookSpec(u, source)
	both.Project, alone.Project = project, project
	alone.Target, alone.Node = "", source.GetNode()
	oneNode := u.Replica.GetNode() == "" || source.GetNode() == "" || u.Replica.GetNode() == source.GetNode()
	switch {
	case oneNode && s.c.Reachable(u.Caller, both):
		return []*pb.TaskSpec{both}, nil
	case !s.c.Reachable(u.Caller, alone):
		return nil, &mover.Error{Op: "look at", Location: source.GetLocation(), Err: mover.Because(mover.ErrUnreachable, "no agent that is there reaches it, to see whether %s may read it", u.Caller)}
	case s.gated(u.Replica):
		return []*pb.TaskSpec{alone, s.lookSpec(u, nil)}, nil
	}
	return []*pb.TaskSpec{alone}, nil
}

// lookSpec is the request to look at a source, if there is one, and to let the caller in to
// the replica, if that has a gate.
func (s *accessProber) lookSpec(u *Unseen, source *pb.Replica) *pb.TaskSpec {
	spec := probeSpec(source.GetLocation(), cmp.Or(u.Replica.GetNode(), source.GetNode()))
	spec.Project = u.Project
	if spec.Class = task.ClassOf(spec); s.gated(u.Replica) {
		spec.Target = u.Replica.GetLocation()
	}
	return spec
}
