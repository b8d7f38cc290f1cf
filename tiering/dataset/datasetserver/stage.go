package datasetserver

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/idempotency"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/location"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
	"datamove.dev/tiering/dataset"
)

// Stage implements pb.DatasetServiceServer. It brings a replica to a tier, once for all
// callers that want it there:
//
//   - what is there already, whole and as it should be, the caller gets a hold on (grant);
//   - what is on its way the caller waits for, with all others (join); for both an agent checks first
//     whether the caller may read a source, which takes a moment (mayHave);
//   - what is just being removed has to be gone first;
//   - and else a task brings it, from where it is best read (begins, from). What is doubted
//     is brought again, which mends it.
//
// A lease and a pin that were asked for begin when the replica is whole (wish).
func (s *Server) Stage(ctx context.Context, r *pb.StageRequest) (*pb.StageResponse, error) {
	o, err := s.order(ctx, r)
	if err != nil {
		return nil, err
	}
	out, made := &pb.StageResponse{}, false
	err = s.access.updateWithProbe(ctx, func(tx *state.Tx) (err error) {
		out, made, o.resumes = &pb.StageResponse{}, false, false
		now, err := s.records.moment(tx)
		if err == nil {
			made, err = s.stage(tx, o, out, now)
		}
		if err == nil {
			out.Replica, err = shown(tx, out.Replica, now)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	switch {
	case made:
		s.c.Submitted(ctx, out.GetTask())
	case o.resumes:
		s.c.Resumed(ctx, out.GetTask())
	}
	if t := out.GetTask(); t != nil {
		out.Task, err = s.c.Task(t.GetId())
	}
	return out, err
}

// stage decides what is to be done, and records it. made says that a task was.
func (s *Server) stage(tx *state.Tx, o *order, out *pb.StageResponse, now time.Time) (made bool, err error) {
	if o.pin != nil {
		if err := s.mayPin(tx, o, now); err != nil {
			return false, err
		}
	}
	want, err := s.slot(tx, o, now)
	if err != nil {
		return false, err
	}
	same, err := idempotency.Before(tx, o.caller, o.key, o.asked)
	if err != nil {
		return false, err
	}
	was, err := getReplica(tx, want)
	if mover.IgnoreNotExist(err) != nil {
		return false, err
	}
	if err != nil {
		was = nil
	}
	if same != nil {
		return false, s.again(tx, o, same, cmp.Or(was, want), out)
	}
	if was == nil {
		if err := s.remember(tx, want); err != nil {
			return false, err
		}
	}
	switch {
	case was == nil:
	case was.GetState() == removing:
		return false, &mover.Error{Op: "stage", Location: was.GetLocation(), Err: fmt.Errorf("%w: it is just being removed (task %s); stage it again when that is done", mover.ErrConflict, was.GetTask())}
	case live(tx, was.GetTask()):
		return false, s.join(tx, o, was, out)
	case was.GetState() == whole && was.GetDataset() != "" && !doubtful(was):
		return false, s.grant(tx, o, was, out, now)
	}
	return s.begins(tx, o, cmp.Or(was, want), out, now)
}

// doubtful says that the content of a replica of this service is unknown. Staging it
// again repairs it.
func doubtful(r *pb.Replica) bool { return managed(r) && r.GetLevel() == pb.Level_LEVEL_UNSPECIFIED }

// mayPin checks that the caller may keep the dataset.
func (s *Server) mayPin(tx *state.Tx, o *order, now time.Time) error {
	if err := pinUntil(o.pin, now); err != nil {
		return err
	}
	_, err := s.ownDataset(tx, o.caller, pb.DatasetService_Pin_FullMethodName, o.source.Name)
	return err
}

// slot is the replica that is wanted, as it will be recorded.
func (s *Server) slot(tx *state.Tx, o *order, now time.Time) (*pb.Replica, error) {
	if o.source.IsDataset() {
		v, err := findVersion(tx, "stage", o.source.Name, o.source.Digest)
		if err != nil {
			return nil, err
		}
		o.source.Digest = v.GetVersion().GetDigest()
	}
	v, err := s.records.viewOf(tx, now, o.source.Name, o.source.Digest)
	if err != nil {
		return nil, err
	}
	target, err := v.StageTarget(o.source, o.at, o.tier)
	if err != nil {
		return nil, err
	}
	return &pb.Replica{Dataset: o.source.Name, Digest: o.source.Digest, Tier: o.tier, Node: o.node, Location: target.String()}, nil
}

// again answers a request that was answered before.
func (s *Server) again(tx *state.Tx, o *order, t *pb.Task, r *pb.Replica, out *pb.StageResponse) error {
	out.Replica, out.Task = r, t
	if task.Ended(t.GetState()) && r.GetState() == whole {
		out.Task = nil
	}
	l, err := state.Leases.Get(tx, o.lease)
	if err == nil {
		out.Lease = l
	}
	return mover.IgnoreNotExist(err)
}

// begins makes the task that brings the replica, and records that it is on its way.
func (s *Server) begins(tx *state.Tx, o *order, r *pb.Replica, out *pb.StageResponse, now time.Time) (bool, error) {
	source, err := s.from(tx, o, r, now)
	if err == nil && managed(source) {
		err = s.access.mayHave(tx, o.caller, o.asked.GetProject(), source)
	}
	if err != nil {
		return false, err
	}
	if err := s.room.mayCome(tx, r, now); err != nil {
		return false, err
	}
	spec := stageSpec(source.GetLocation(), r.GetLocation())
	spec.Node, spec.Options = cmp.Or(r.GetNode(), source.GetNode()), s.stageOptions(r.GetTier())
	spec.Class, spec.Project, spec.Labels = o.asked.GetClass(), o.asked.GetProject(), o.asked.GetLabels()
	spec.Staging = &pb.Staging{Dataset: r.GetDataset(), Tier: r.GetTier(), LeaseTtl: o.asked.GetStaging().GetLeaseTtl(), PinUntil: o.pin, Holder: o.holder}
	spec, err = s.c.Admit(o.caller, spec)
	if err != nil {
		return false, err
	}
	t := s.newTask(o.caller, spec)
	t.IdempotencyKey, t.TraceParent = o.key, o.trace
	if r.GetDataset() != "" {
		t.Dataset = tag(r.GetDataset(), r.GetDigest())
		if err := s.holdFor(tx, t, source, now); err != nil {
			return false, err
		}
	}
	if r.GetState() != whole {
		r.State, r.Owner = staging, authz.AccountOf(o.caller)
	}
	r.Task = t.GetId()
	if err := s.records.putReplica(tx, r); err != nil {
		return false, err
	}
	if err := s.c.Claim(tx, o.caller, t, o.asked, o.key); err != nil {
		return false, err
	}
	out.Task, out.Replica = t, r
	return true, s.wish(tx, o, r)
}

// from is what a replica is made of.
func (s *Server) from(tx *state.Tx, o *order, r *pb.Replica, now time.Time) (*pb.Replica, error) {
	if r.GetDataset() == "" {
		if err := s.unoccupied(tx, r, now); err != nil {
			return nil, err
		}
		return replicaAt(o.source, o.at, s.conf())
	}
	v, err := s.records.viewOf(tx, now, r.GetDataset(), r.GetDigest())
	if err != nil {
		return nil, err
	}
	return v.PickSource(dataset.Slot{Dataset: r.GetDataset(), Digest: r.GetDigest(), Tier: r.GetTier(), Node: r.GetNode()}, o.agents)
}

// unoccupied says why nothing may be staged to where other replicas are.
func (s *Server) unoccupied(tx *state.Tx, r *pb.Replica, now time.Time) error {
	v, err := s.records.viewAt(tx, now, r.GetLocation(), r.GetNode())
	if err != nil {
		return err
	}
	l, err := location.Parse(r.GetLocation())
	if err != nil {
		return err
	}
	there, err := v.Overlapping(l, r.GetNode())
	for _, other := range there {
		if !slices.Equal(state.ReplicaKey(other), state.ReplicaKey(r)) {
			return &mover.Error{Op: "stage", Location: r.GetLocation(), Err: fmt.Errorf("%w: %s is there, a replica of dataset %s", mover.ErrConflict,
				mover.Printable(other.GetLocation()), mover.Printable(cmp.Or(other.GetDataset(), "that has no name")))}
		}
	}
	return err
}

// stageOptions are how a replica is made: where it is to count as a copy that can be relied on,
// it is read again past the cache. From a store it is read in any case.
func (s *Server) stageOptions(tier string) *pb.Options {
	if t := s.conf().Tiers[tier]; !t.Ephemeral && t.S3 == nil {
		return &pb.Options{Verify: pb.Level_LEVEL_READ}
	}
	return nil
}
