package coordinator

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/idempotency"
	"datamove.dev/mover/coordinator/placement"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/location"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
	"datamove.dev/mover/task/convert"
	"datamove.dev/mover/telemetry"
)

// SubmitTask implements pb.TaskServiceServer.
func (s *Service) SubmitTask(ctx context.Context, r *pb.SubmitTaskRequest) (*pb.Task, error) {
	if !task.Of(r.GetSpec()).Submitted {
		return nil, mover.Usagef("a task of kind %v is made by its own method", r.GetSpec().GetKind())
	}
	if r.GetSpec().GetTiering() != nil || r.GetSpec().GetSourceNode() != "" || r.GetSpec().GetScanPart() != nil || r.GetSpec().GetBurst() != nil {
		return nil, mover.Usagef("what is done for a burst or for a run of a policy, reads the disk of another node or verifies a catalog is not asked for")
	}
	if r.GetPaused() {
		return s.Submit(ctx, r.GetSpec(), r.GetIdempotencyKey(), func(tx *state.Tx, t *pb.Task) error {
			t.State, t.Why = task.Paused, state.HeldBack
			return state.Tasks.Put(tx, t)
		})
	}
	return s.Submit(ctx, r.GetSpec(), r.GetIdempotencyKey(), nil)
}

// Submit accepts a request of the caller in ctx. also changes the ledger together with it.
func (s *Service) Submit(ctx context.Context, asked *pb.TaskSpec, key string, also func(*state.Tx, *pb.Task) error) (*pb.Task, error) {
	caller := authz.From(ctx)
	spec, n, err := s.admit(caller, asked)
	if err != nil {
		return nil, err
	}
	if err := idempotency.Check(key); err != nil {
		return nil, err
	}
	now := s.now()
	t := &pb.Task{
		Id: task.NewID(now), Spec: spec, Owner: &pb.Account{Name: caller.Name, Uid: caller.UID}, State: task.Queued,
		CreateTime: timestamppb.New(now), Revision: 1, IdempotencyKey: key,
		TraceParent: telemetry.Inject(ctx),
	}
	var same *pb.Task
	err = s.datasets.Update(ctx, func(tx *state.Tx) error {
		if same, err = idempotency.Before(tx, caller, key, asked); err != nil || same != nil {
			return err
		}
		if err := s.Claim(tx, caller, t, asked, key); err != nil {
			return err
		}
		if err := s.datasets.Bind(tx, caller, t, asked); err != nil || also == nil {
			return err
		}
		return also(tx, t)
	})
	if err != nil || same != nil {
		return same, err
	}
	s.metrics.countNew(t)
	if t.GetState() == task.Queued {
		s.scheduler.enqueue(ctx, t, n)
	}
	return t, nil
}

// Claim stores a new task of a caller, and its key.
func (s *Service) Claim(tx *state.Tx, c authz.Caller, t *pb.Task, asked *pb.TaskSpec, key string) error {
	if err := s.usage.MayHoldTask(tx, c, t); err != nil {
		return err
	}
	if err := state.Tasks.Put(tx, t); err != nil {
		return err
	}
	return idempotency.Put(tx, t.GetOwner(), key, asked, t.GetId(), t.GetCreateTime())
}

// admit checks a request and completes it: class, project, node.
func (s *Service) admit(caller authz.Caller, asked *pb.TaskSpec) (*pb.TaskSpec, placement.Need, error) {
	spec := proto.Clone(asked).(*pb.TaskSpec)
	if spec == nil {
		return nil, placement.Need{}, mover.Usagef("there is nothing to do: the request has no spec")
	}
	me := authz.Owner{Name: caller.Name, UID: caller.UID}
	if d := s.rules().MayOn(caller, authz.OfKind(spec.GetKind()), me); !d.Allowed {
		return nil, placement.Need{}, d.Err()
	}
	if d := s.rules().May(caller, "task.urgent"); !d.Allowed && asked.GetClass() == pb.TaskClass_TASK_CLASS_RESTORE {
		return nil, placement.Need{}, &mover.Error{Op: "submit", Location: "a task of class restore", Err: d.Err()}
	}
	spec.Class = task.ClassOf(spec)
	if spec.GetProject() == "" {
		if mine := s.rules().Projects(caller); len(mine) > 0 {
			spec.Project = mine[0]
		}
	}
	if err := errors.Join(s.shape(spec), placement.InTiers(spec, s.conf())); err != nil {
		return nil, placement.Need{}, err
	}
	if err := s.datasets.Resolve(caller, spec); err != nil {
		return nil, placement.Need{}, err
	}
	if err := s.mayUse(caller, spec); err != nil {
		return nil, placement.Need{}, err
	}
	if _, err := convert.Request(spec, func(l location.Location) (location.Location, error) { return l, nil }); err != nil && task.Of(spec).Moves {
		return nil, placement.Need{}, err
	}
	n, err := placement.Of(spec, s.conf(), s.here(caller))
	if err == nil && n.Node != "" {
		spec.Node = n.Node
	}
	return spec, n, err
}

// shape checks what no location is needed for.
func (s *Service) shape(spec *pb.TaskSpec) error {
	if err := errors.Join(convert.Fits(spec), convert.CheckLabels(spec.GetLabels())); err != nil {
		return err
	}
	kind := task.Of(spec)
	if (spec.GetSource() == "") == (len(spec.GetSources()) == 0) && kind.Moves {
		return mover.Usagef("want one source, or several below the target")
	}
	if spec.GetTarget() == "" && !kind.NoTarget {
		return mover.Usagef("there is no target")
	}
	return s.kindOf(spec).Check(spec)
}

// mayUse asks for every location of a request.
func (s *Service) mayUse(caller authz.Caller, spec *pb.TaskSpec) error {
	write := !task.Of(spec).ReadOnly
	type use struct {
		at    string
		write bool
	}
	var uses []use
	if spec.GetSource() != "" {
		uses = append(uses, use{spec.GetSource(), false})
	}
	for _, at := range spec.GetSources() {
		uses = append(uses, use{at, false})
	}
	for _, at := range spec.GetBurst().GetHomes() {
		uses = append(uses, use{at, true})
	}
	if spec.GetTarget() != "" {
		uses = append(uses, use{spec.GetTarget(), write})
	}
	if dir := spec.GetOptions().GetBackupDir(); dir != "" {
		uses = append(uses, use{backupOf(spec.GetTarget(), dir), true})
	}
	for _, u := range uses {
		if d := s.rules().MayUse(caller, spec.GetProject(), u.at, u.write); !d.Allowed {
			return &mover.Error{Op: "use", Location: u.at, Err: d.Err()}
		}
	}
	return nil
}

// backupOf is where a backup directory is: a path, or a prefix in the target's bucket.
func backupOf(target, dir string) string {
	if strings.HasPrefix(dir, "/") {
		return dir
	}
	l, err := location.Parse(target)
	if err == nil && (l.InStore() || l.InTier()) {
		return l.Root().String() + dir
	}
	return dir
}

// here is the node of the caller.
func (s *Service) here(c authz.Caller) string { return cmp.Or(c.Agent, s.o.Node) }
