package datasetserver

import (
	"cmp"
	"context"
	"fmt"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/placement"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/location"
	"datamove.dev/mover/server/authz"
	"datamove.dev/tiering/dataset"
)

// Release implements pb.DatasetServiceServer.
func (s *Server) Release(ctx context.Context, r *pb.ReleaseRequest) (*pb.Task, error) {
	c := authz.From(ctx)
	l, err := parseDataset(r.GetSource())
	if err != nil {
		return nil, err
	}
	if r.GetTier() == "" {
		return nil, mover.Usagef("say which tier the replica is to be released from")
	}
	asked := releaseRequest(r)
	return s.once(ctx, r.GetIdempotencyKey(), asked, func(tx *state.Tx) (*pb.Task, error) {
		if _, err := s.ownDataset(tx, c, pb.DatasetService_Release_FullMethodName, l.Name); err != nil {
			return nil, err
		}
		x, err := s.records.present(tx, "release", l.Name, l.Digest, r.GetTier(), s.records.nodeOf(r.GetTier(), r.GetNode(), c))
		if err != nil {
			return nil, err
		}
		return s.release(tx, c, x)
	})
}

// release makes the task that removes a replica, as the caller.
func (s *Server) release(tx *state.Tx, c authz.Caller, x *pb.Replica) (*pb.Task, error) {
	if _, err := placement.InTier(x.GetLocation(), s.conf()); err != nil {
		return nil, err // the tier has another name now, or is none any more
	}
	project, err := s.rules().Through(c, "", x.GetLocation(), true)
	if err != nil {
		return nil, err
	}
	if err := s.mayRelease(tx, x, ""); err != nil {
		return nil, err
	}
	spec := releaseSpec(x)
	spec.Project = project
	if x.GetState() == removing { // what is left of a removal that has failed
		return s.removes(tx, s.newTask(c, spec), unmade(x))
	}
	return s.releases(tx, s.newTask(c, spec), x, func(at string) error { return s.rules().MayUseAt(c, project, at, false) })
}

// releases stores a task that removes a replica of which a copy survives. The worker checks
// the copy first, and a lease holds it meanwhile. mayRead says whether the
// owner of the task may look at a location.
func (s *Server) releases(tx *state.Tx, t *pb.Task, x *pb.Replica, mayRead func(string) error) (*pb.Task, error) {
	survivor, err := s.survivor(tx, t, x, mayRead)
	if err != nil {
		return nil, err
	}
	now, err := s.records.moment(tx)
	if err != nil {
		return nil, err
	}
	t.Spec.Source, t.Spec.Node = survivor.GetLocation(), cmp.Or(x.GetNode(), survivor.GetNode())
	if err := s.holdFor(tx, t, survivor, now); err != nil {
		return nil, err
	}
	return s.removes(tx, t, x)
}

// survivor chooses the copy that is looked at before a replica is removed: one that an
// agent can look at now, if there is one.
func (s *Server) survivor(tx *state.Tx, t *pb.Task, x *pb.Replica, mayRead func(string) error) (best *pb.Replica, err error) {
	v, err := s.records.viewOf(tx, s.clock.Now(), x.GetDataset(), x.GetDigest())
	if err != nil {
		return nil, err
	}
	why := &mover.Error{Op: "release", Location: x.GetLocation(), Err: fmt.Errorf("%w: no node has both this replica and another copy, so that nobody can look whether that is there", mover.ErrRefused)}
	for _, r := range v.Survivors(x) {
		if err := mayRead(r.GetLocation()); err != nil {
			why.Err = fmt.Errorf("the copy that stays has to be looked at: %w", err)
			continue
		}
		with := &pb.TaskSpec{Source: r.GetLocation(), Target: x.GetLocation(), Node: cmp.Or(x.GetNode(), r.GetNode())}
		switch {
		case x.GetNode() != "" && r.GetNode() != "" && x.GetNode() != r.GetNode():
		case s.c.Reachable(authz.Caller{Name: t.GetOwner().GetName(), UID: t.GetOwner().GetUid()}, with):
			return r, nil
		default:
			best = cmp.Or(best, r)
		}
	}
	if best == nil {
		return nil, why
	}
	return best, nil
}

// mayRelease says why a replica has to stay. What is left of a removal that has failed
// may go in any case.
func (s *Server) mayRelease(tx *state.Tx, r *pb.Replica, task string) error {
	now, err := s.records.moment(tx)
	if err != nil || r.GetState() == removing && !live(tx, r.GetTask()) {
		return err
	}
	v, err := s.records.viewAround(tx, now, r)
	if err != nil {
		return err
	}
	return v.MayRelease(r, task)
}

// removes stores a task that removes replicas, and marks them as being removed: from here
// on no task relies on them.
func (s *Server) removes(tx *state.Tx, t *pb.Task, replicas ...*pb.Replica) (*pb.Task, error) {
	for _, r := range replicas {
		r.State, r.Task = removing, t.GetId()
		if err := s.records.putReplica(tx, r); err != nil {
			return nil, err
		}
		if r.GetDataset() != "" && len(replicas) == 1 {
			t.Dataset = tag(r.GetDataset(), r.GetDigest())
		}
	}
	return t, state.Tasks.Put(tx, t)
}

// discards removes a replica with the rights of its owner.
func (s *Server) discards(tx *state.Tx, r *pb.Replica) (*pb.Task, error) {
	return s.removes(tx, s.byMaker(r, nil), r)
}

// byMaker is a task that removes a replica with the rights of its owner; without one, of the service.
func (s *Server) byMaker(r *pb.Replica, labels map[string]string) *pb.Task {
	by := authz.Self()
	if o := r.GetOwner(); o != nil {
		by = authz.Caller{Name: o.GetName(), UID: o.GetUid()}
	}
	spec := releaseSpec(r)
	spec.Labels = labels
	return s.newTask(by, spec)
}

// Purge implements pb.DatasetServiceServer.
func (s *Server) Purge(ctx context.Context, r *pb.PurgeRequest) (*pb.Task, error) {
	c := authz.From(ctx)
	l, err := placement.InTier(r.GetLocation(), s.conf())
	if err != nil {
		return nil, err
	}
	node := s.records.nodeOf(l.Tier, r.GetNode(), c)
	l.TrailingSlash = false
	spec := purgeSpec(l.String(), node)
	spec.Staging = &pb.Staging{Tier: l.Tier}
	if spec, err = s.admitPurge(c, spec); err != nil {
		return nil, err
	}
	asked := purgeSpec(r.GetLocation(), r.GetNode())
	return s.once(ctx, r.GetIdempotencyKey(), asked, func(tx *state.Tx) (*pb.Task, error) {
		t := s.newTask(c, spec)
		if _, err := s.purges(tx, t, l, node); err != nil {
			return nil, err
		}
		return t, state.Tasks.Put(tx, t) // what is there is marked when the task begins: it may wait for ever
	})
}

// admitPurge is admit for a location that any project of the caller may hold.
func (s *Server) admitPurge(c authz.Caller, spec *pb.TaskSpec) (*pb.TaskSpec, error) {
	for _, p := range s.rules().Projects(c) {
		if s.rules().MayUse(c, p, spec.GetTarget(), true).Allowed {
			spec.Project = p
			break
		}
	}
	return s.c.Admit(c, spec)
}

// purges returns the replicas that go with what a task purges, if it may.
func (s *Server) purges(tx *state.Tx, t *pb.Task, l location.Location, node string) ([]*pb.Replica, error) {
	now, err := s.records.moment(tx)
	if err != nil {
		return nil, err
	}
	v, err := s.records.viewAt(tx, now, l.String(), node)
	if err != nil {
		return nil, err
	}
	if err := v.MayPurge(dataset.Purge{Location: l, Node: node, Root: l.Path == "", Task: t.GetId()}); err != nil {
		return nil, err
	}
	return v.Overlapping(l, node)
}
