package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/access"
	"datamove.dev/mover/ledger"
	"datamove.dev/mover/location"
	"datamove.dev/mover/task"
	"datamove.dev/mover/telemetry"
	"datamove.dev/tiering"
)

// Release implements pb.DatasetServiceServer.
func (s *Service) Release(ctx context.Context, r *pb.ReleaseRequest) (*pb.Task, error) {
	c := access.From(ctx)
	l, err := parseDataset(r.GetSource())
	if err != nil {
		return nil, err
	}
	if r.GetTier() == "" {
		return nil, usage("say which tier the replica is to be released from")
	}
	asked := &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_RELEASE, Source: r.GetSource(), Node: r.GetNode(), Staging: &pb.Staging{Tier: r.GetTier()}}
	return s.once(ctx, r.GetIdempotencyKey(), asked, func(tx *ledger.Tx) (*pb.Task, error) {
		if _, err := s.ownDataset(tx, c, pb.DatasetService_Release_FullMethodName, l.Name); err != nil {
			return nil, err
		}
		x, err := s.present(tx, "release", l.Name, l.Digest, r.GetTier(), s.nodeOf(r.GetTier(), r.GetNode(), c))
		if err != nil {
			return nil, err
		}
		return s.release(tx, c, x)
	})
}

// once does what makes a task, or returns the task that the caller made with the same
// key before.
func (s *Service) once(ctx context.Context, key string, asked *pb.TaskSpec, do func(*ledger.Tx) (*pb.Task, error)) (t *pb.Task, err error) {
	if len(key) > maxKey {
		return nil, usage("an idempotency key of %d letters; at most %d", len(key), maxKey)
	}
	made := false
	err = s.ledger.Update(ctx, ledger.Durable, func(tx *ledger.Tx) error {
		made = false
		if t, err = before(tx, access.From(ctx), key, asked); err != nil || t != nil {
			return err
		}
		if t, err = do(tx); err != nil {
			return err
		}
		made, t.IdempotencyKey, t.TraceParent = true, key, telemetry.Inject(ctx)
		return s.claim(tx, t, asked, key)
	})
	switch {
	case err != nil:
		return nil, err
	case made:
		s.submitted(ctx, t)
		return t, nil
	}
	return s.task(t.GetId())
}

// release makes the task that removes a replica, as the caller.
func (s *Service) release(tx *ledger.Tx, c access.Caller, x *pb.Replica) (*pb.Task, error) {
	if _, err := s.inTier(x.GetLocation()); err != nil {
		return nil, err // the tier has another name now, or is none any more
	}
	project, err := s.through(c, "", x.GetLocation(), true)
	if err != nil {
		return nil, err
	}
	if err := s.mayRelease(tx, x, ""); err != nil {
		return nil, err
	}
	spec := removalSpec(pb.TaskKind_TASK_KIND_RELEASE, x)
	spec.Project = project
	if x.GetState() == removing { // what is left of a removal that has failed
		return s.removes(tx, s.newTask(c, spec), unmade(x))
	}
	return s.releases(tx, s.newTask(c, spec), x, func(at string) error { return s.mayUseAt(c, project, at, false) })
}

// releases stores a task that removes a replica of which a copy survives: who removes it
// looks at that one first, and nobody else touches it meanwhile. mayRead says whether the
// owner of the task may look at a location.
func (s *Service) releases(tx *ledger.Tx, t *pb.Task, x *pb.Replica, mayRead func(string) error) (*pb.Task, error) {
	survivor, err := s.survivor(tx, t, x, mayRead)
	if err != nil {
		return nil, err
	}
	now, err := s.moment(tx)
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
func (s *Service) survivor(tx *ledger.Tx, t *pb.Task, x *pb.Replica, mayRead func(string) error) (best *pb.Replica, err error) {
	v, err := s.viewOf(tx, s.clock.now(), x.GetDataset(), x.GetDigest())
	if err != nil {
		return nil, err
	}
	why := &mover.Error{Op: "release", Place: x.GetLocation(), Err: fmt.Errorf("%w: no node has both this replica and another copy, so that nobody can look whether that is there", mover.ErrRefused)}
	for _, r := range v.Survivors(x) {
		if err := mayRead(r.GetLocation()); err != nil {
			why.Err = fmt.Errorf("the copy that stays has to be looked at: %w", err)
			continue
		}
		with := &pb.TaskSpec{Source: r.GetLocation(), Target: x.GetLocation(), Node: cmp.Or(x.GetNode(), r.GetNode())}
		switch {
		case x.GetNode() != "" && r.GetNode() != "" && x.GetNode() != r.GetNode():
		case s.reachable(access.Caller{Name: t.GetOwner().GetName(), UID: t.GetOwner().GetUid()}, with):
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
func (s *Service) mayRelease(tx *ledger.Tx, r *pb.Replica, task string) error {
	now, err := s.moment(tx)
	if err != nil || r.GetState() == removing && !live(tx, r.GetTask()) {
		return err
	}
	v, err := s.view(tx, now)
	if err != nil {
		return err
	}
	return v.MayRelease(r, task)
}

// removalSpec is the request to remove a replica.
func removalSpec(kind pb.TaskKind, r *pb.Replica) *pb.TaskSpec {
	spec := &pb.TaskSpec{Kind: kind, Target: r.GetLocation(), Node: r.GetNode(), Staging: &pb.Staging{Dataset: r.GetDataset(), Tier: r.GetTier()}}
	spec.Class = task.ClassOf(spec)
	if r.GetDataset() != "" && !managed(r) {
		spec.Options = &pb.Options{Checksum: true} // others write there, too: it is looked at first
	}
	return spec
}

// removes stores a task that removes replicas, and marks them: from here on nobody
// relies on them.
func (s *Service) removes(tx *ledger.Tx, t *pb.Task, replicas ...*pb.Replica) (*pb.Task, error) {
	for _, r := range replicas {
		r.State, r.Task = removing, t.GetId()
		if err := s.putReplica(tx, r); err != nil {
			return nil, err
		}
		if r.GetDataset() != "" && len(replicas) == 1 {
			t.Dataset = tag(r.GetDataset(), r.GetDigest())
		}
	}
	return t, ledger.Tasks.Put(tx, t)
}

// discards removes a replica with the rights of who made it.
func (s *Service) discards(tx *ledger.Tx, r *pb.Replica) (*pb.Task, error) {
	return s.removes(tx, s.byMaker(r, nil), r)
}

// byMaker is a task that removes a replica with the rights of who made it.
func (s *Service) byMaker(r *pb.Replica, labels map[string]string) *pb.Task {
	by := self()
	if o := r.GetOwner(); o != nil {
		by = access.Caller{Name: o.GetName(), UID: o.GetUid()}
	}
	spec := removalSpec(pb.TaskKind_TASK_KIND_RELEASE, r)
	spec.Labels = labels
	return s.newTask(by, spec)
}

// Purge implements pb.DatasetServiceServer.
func (s *Service) Purge(ctx context.Context, r *pb.PurgeRequest) (*pb.Task, error) {
	c := access.From(ctx)
	l, err := s.inTier(r.GetLocation())
	if err != nil {
		return nil, err
	}
	node := s.nodeOf(l.Tier, r.GetNode(), c)
	l.TrailingSlash = false
	spec := &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_PURGE, Target: l.String(), Node: node, Staging: &pb.Staging{Tier: l.Tier}}
	if spec, _, err = s.admitPurge(c, spec); err != nil {
		return nil, err
	}
	asked := &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_PURGE, Target: r.GetLocation(), Node: r.GetNode()}
	return s.once(ctx, r.GetIdempotencyKey(), asked, func(tx *ledger.Tx) (*pb.Task, error) {
		t := s.newTask(c, spec)
		inside, err := s.purges(tx, t, l, node)
		if err != nil {
			return nil, err
		}
		return s.removes(tx, t, inside...)
	})
}

// admitPurge is admit for a location that any project of the caller may hold.
func (s *Service) admitPurge(c access.Caller, spec *pb.TaskSpec) (*pb.TaskSpec, need, error) {
	for _, p := range s.rules().Projects(c) {
		if s.rules().MayUse(c, p, spec.GetTarget(), true).Allowed {
			spec.Project = p
			break
		}
	}
	return s.admit(c, spec)
}

// purges returns the replicas that go with what a task purges, if it may.
func (s *Service) purges(tx *ledger.Tx, t *pb.Task, l location.Location, node string) ([]*pb.Replica, error) {
	now, err := s.moment(tx)
	if err != nil {
		return nil, err
	}
	v, err := s.view(tx, now)
	if err != nil {
		return nil, err
	}
	if err := v.MayPurge(tiering.Purge{Location: l, Node: node, Root: l.Path == "", Task: t.GetId()}); err != nil {
		return nil, err
	}
	return v.Overlapping(l, node)
}

// mayBegin says, in the change that gives a task to a lead, why it may not be done any
// more: somebody may need by now what nobody did when it was submitted. A release that
// has begun has to come to its end.
func (s *Service) mayBegin(tx *ledger.Tx, t *pb.Task) error {
	switch kind := t.GetSpec().GetKind(); {
	case writes(t.GetSpec()):
		return s.overwrites(tx, t)
	case kind == pb.TaskKind_TASK_KIND_PURGE:
		l, err := location.Parse(t.GetSpec().GetTarget())
		if err != nil {
			return err
		}
		inside, err := s.purges(tx, t, l, t.GetSpec().GetNode())
		if err == nil {
			_, err = s.removes(tx, t, inside...)
		}
		return err
	case kind == pb.TaskKind_TASK_KIND_RELEASE && t.GetTries() == 0:
		r, err := stagedBy(tx, t)
		if err != nil || r.GetCreateTime() == nil { // it never was whole
			return err
		}
		if t.GetSpec().GetLabels()[evictedLabel] != "" {
			return s.mayEvict(tx, r, t.GetId())
		}
		return s.mayRelease(tx, r, t.GetId())
	}
	return nil
}

// mayEvict says why a replica has to stay that was to make room.
func (s *Service) mayEvict(tx *ledger.Tx, r *pb.Replica, task string) error {
	now, err := s.moment(tx)
	if err != nil {
		return err
	}
	v, err := s.view(tx, now)
	if err != nil {
		return err
	}
	return v.MayEvict(r, task)
}

// beginning is how durable it has to be that a task has begun: of what it removes, nobody
// may think later that it was not touched.
func beginning(t *pb.Task) ledger.Durability {
	switch t.GetSpec().GetKind() {
	case pb.TaskKind_TASK_KIND_RELEASE, pb.TaskKind_TASK_KIND_PURGE, pb.TaskKind_TASK_KIND_STAGE:
		return ledger.Durable
	}
	return ledger.Soon
}

// refuse ends a queued task that may not begin.
func (s *Service) refuse(tx *ledger.Tx, t *pb.Task, why error) error {
	if err := s.fail(tx, t, why); err != nil {
		return err
	}
	_, err := s.settle(tx, t, proof{})
	return err
}

// removed ends a removal: what is gone is forgotten, and what nobody has begun to remove is
// whole as it was. A copy that should have survived, and was found to be something else, is
// relied on no more. Of anything else nobody knows what is left. What this service has
// made is removed again later; what somebody tried to purge of it with rights that were not
// enough is doubted, and goes when room is needed. What others have stays as it is and is no
// replica any more.
func (s *Service) removed(tx *ledger.Tx, t *pb.Task, held *pb.Lease, p proof) error {
	untouched := t.GetStartTime() == nil || t.GetState() == task.Failed && p.untouched
	if held != nil && untouched && t.GetErrorKind() == mover.KindName(mover.ErrCorrupt) {
		if err := s.doubts(tx, held); err != nil {
			return err
		}
	}
	marked, err := markedBy(tx, t)
	if err != nil {
		return err
	}
	for _, r := range marked {
		switch {
		case t.GetState() == task.Done:
			err = deleteReplica(tx, r)
			s.evicted(t, r)
		case untouched && r.GetCreateTime() != nil:
			r.State, r.Task = whole, ""
			err = s.putReplica(tx, r)
		case t.GetSpec().GetKind() == pb.TaskKind_TASK_KIND_PURGE && managed(r):
			r.State, r.Task, r.Level = whole, "", pb.Level_LEVEL_UNSPECIFIED
			err = s.putReplica(tx, r)
		case t.GetSpec().GetKind() == pb.TaskKind_TASK_KIND_PURGE, !managed(r):
			err = deleteReplica(tx, r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// markedBy returns the replicas that a task removes.
func markedBy(tx *ledger.Tx, t *pb.Task) ([]*pb.Replica, error) {
	if t.GetSpec().GetKind() == pb.TaskKind_TASK_KIND_RELEASE {
		r, err := stagedBy(tx, t)
		if err != nil {
			return nil, ignoreGone(err)
		}
		return []*pb.Replica{r}, nil
	}
	replicas, err := all(ledger.Replicas.All(tx, ledger.Range{}))
	return slices.DeleteFunc(replicas, func(r *pb.Replica) bool { return r.GetTask() != t.GetId() }), err
}

const removalsMost = 200 // that are begun in one change

// retryRemovals begins again removals that have failed, as those who made what is left.
func (s *Service) retryRemovals(ctx context.Context, before time.Time) error {
	var left []*pb.Replica
	err := s.ledger.View(func(tx *ledger.Tx) error {
		for r, err := range ledger.Replicas.All(tx, ledger.Range{}) {
			if err != nil || len(left) == removalsMost {
				return err
			}
			if r.GetState() != whole && over(tx, r.GetTask(), before) {
				left = append(left, r)
			}
		}
		return nil
	})
	if err != nil || len(left) == 0 {
		return err
	}
	var next []*pb.Task
	err = s.ledger.Update(ctx, ledger.Durable, func(tx *ledger.Tx) error {
		for _, r := range left {
			now, err := getReplica(tx, r)
			if err != nil || now.GetState() == whole || live(tx, now.GetTask()) {
				continue
			}
			t, err := s.discards(tx, unmade(now))
			if err != nil {
				return err
			}
			next = append(next, t)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, t := range next {
		s.log.Warn("what is left of a replica is removed again", "task", t.GetId(), "location", t.GetSpec().GetTarget(), "node", t.GetSpec().GetNode())
		s.submitted(ctx, t)
	}
	return nil
}

// over says whether a task has ended before a time, or is forgotten.
func over(tx *ledger.Tx, id string, before time.Time) bool {
	t, err := ledger.Tasks.Get(tx, id)
	return errors.Is(err, mover.ErrNotExist) || err == nil && task.Ended(t.GetState()) && t.GetEndTime().AsTime().Before(before)
}

// unmade makes of a replica one that never was whole: it goes in any case.
func unmade(r *pb.Replica) *pb.Replica {
	r.CreateTime = nil
	return r
}
