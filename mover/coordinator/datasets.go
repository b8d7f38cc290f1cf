package coordinator

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/quota"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
	"datamove.dev/mover/task/convert"
	"datamove.dev/tiering/dataset"
)

// datasetServer has datasets, their versions and replicas, leases and pins.
type datasetServer struct {
	pb.UnimplementedDatasetServiceServer
	*core
	c *Service
	kept
}

// AddDataset implements pb.DatasetServiceServer.
func (s *datasetServer) AddDataset(ctx context.Context, r *pb.AddDatasetRequest) (*pb.Task, error) {
	if !dataset.ValidDataset(r.GetName()) {
		return nil, mover.Usagef("%s is no name of a dataset: letters, digits, '.', '-' and '_', at most 128, and not '.' or '-' first", mover.Printable(r.GetName()))
	}
	l, err := convert.Locate(r.GetLocation())
	if err != nil {
		return nil, err
	}
	if l.IsDataset() {
		return nil, mover.Usagef("%s is a dataset already", l)
	}
	if _, err := s.c.tiers.inTier(r.GetLocation()); err != nil {
		return nil, err
	}
	at, err := spot(l, r.GetNode(), s.conf())
	if err == nil && managed(at) {
		err = mover.Usagef("%s is a replica that this service has made; add the location where the dataset comes from", l)
	}
	if err != nil {
		return nil, err
	}
	source := r.GetLocation()
	if at.GetTier() != "" {
		source = at.GetLocation() // as it will be recorded: it is read there, over no symbolic link
	}
	spec := describeSpec(source)
	spec.Project, spec.Node, spec.Staging = r.GetProject(), r.GetNode(), &pb.Staging{Dataset: r.GetName()}
	return s.c.submit(ctx, spec, r.GetIdempotencyKey(), func(tx *state.Tx, t *pb.Task) error {
		return s.mayAdd(tx, authz.From(ctx), t)
	})
}

// mayAdd says why the owner of a task may not make a version of its dataset.
func (s *datasetServer) mayAdd(tx *state.Tx, c authz.Caller, t *pb.Task) error {
	d, err := s.ownDataset(tx, c, pb.DatasetService_AddDataset_FullMethodName, t.GetSpec().GetStaging().GetDataset())
	if errors.Is(err, mover.ErrNotExist) { // a new one is the caller's own
		return s.c.usage.mayHold(c, quota.Datasets)
	}
	if err != nil {
		return err
	}
	if d, err = withVersions(tx, d, versionsMost); err == nil && len(d.GetVersions()) == versionsMost {
		err = &mover.Error{Op: "add", Place: "dataset:" + d.GetName(), Err: fmt.Errorf("%w: it has %d versions; remove some", mover.ErrRefused, versionsMost)}
	}
	return err
}

// ownDataset returns a dataset that the caller may do something to.
func (s *datasetServer) ownDataset(tx *state.Tx, c authz.Caller, method, name string) (*pb.Dataset, error) {
	if !dataset.ValidDataset(name) {
		return nil, mover.Usagef("%s is no name of a dataset", mover.Printable(name))
	}
	d, err := state.Datasets.Get(tx, name)
	if errors.Is(err, mover.ErrNotExist) {
		err = noDataset("find", name, "")
	}
	if err != nil {
		return nil, err
	}
	if err := s.rules().MayOn(c, authz.OfMethod(method), ownerOf(d.GetOwner(), d.GetProject())).Err(); err != nil {
		return nil, &mover.Error{Op: "use", Place: "dataset:" + name, Err: err}
	}
	return d, nil
}

// GetDataset implements pb.DatasetServiceServer.
func (s *datasetServer) GetDataset(_ context.Context, r *pb.GetDatasetRequest) (d *pb.Dataset, err error) {
	err = s.ledger.View(func(tx *state.Tx) error {
		if _, err := findVersion(tx, "find", r.GetName(), ""); err != nil {
			return err
		}
		if d, err = state.Datasets.Get(tx, r.GetName()); err != nil {
			return err
		}
		d, err = withVersions(tx, d, versionsMost)
		return err
	})
	return d, err
}

// listedVersions is how many versions of each dataset a list tells.
const listedVersions = 10

// ListDatasets implements pb.DatasetServiceServer.
func (s *datasetServer) ListDatasets(ctx context.Context, r *pb.ListDatasetsRequest) (*pb.ListDatasetsResponse, error) {
	out := &pb.ListDatasetsResponse{}
	return out, s.ledger.View(func(tx *state.Tx) (err error) {
		wanted := func(d *pb.Dataset) bool { return r.GetProject() == "" || d.GetProject() == r.GetProject() }
		rows := state.Datasets.All(tx, state.Range{After: r.GetPageToken()})
		if out.Datasets, out.NextPageToken, err = page(ctx, rows, wanted, pageSize(r.GetPageSize()), state.Datasets.Token); err != nil {
			return err
		}
		for i, d := range out.Datasets {
			if out.Datasets[i], err = withVersions(tx, d, listedVersions); err != nil {
				return err
			}
		}
		return nil
	})
}

// described makes what a task has read a version of its dataset, and where it was
// read a replica of it.
func (s *datasetServer) described(tx *state.Tx, t *pb.Task, p manifestResult) error {
	name := t.GetSpec().GetStaging().GetDataset()
	d, err := state.Datasets.Get(tx, name)
	switch {
	case errors.Is(err, mover.ErrNotExist):
		d = &pb.Dataset{Name: name, Project: t.GetSpec().GetProject(), Owner: t.GetOwner(), CreateTime: timestamppb.New(s.clock.now())}
	case err != nil:
		return err
	case taken(d, t):
		return s.c.fail(tx, t, &mover.Error{Op: "add", Place: "dataset:" + name, Err: fmt.Errorf("%w: %s has made a dataset of that name meanwhile", mover.ErrPermission, nameOfAccount(d.GetOwner()))})
	}
	at, err := s.source(t)
	if err == nil {
		err = s.stays(tx, t, at)
	}
	if err != nil { // its tier is not there any more, or it goes
		return s.c.fail(tx, t, err)
	}
	if err := errors.Join(state.Datasets.Put(tx, d), addVersion(tx, t, p)); err != nil {
		return err
	}
	return s.addSource(tx, t, at, p)
}

// source is where a task has read.
func (s *datasetServer) source(t *pb.Task) (*pb.Replica, error) {
	l, err := convert.Locate(t.GetSpec().GetSource())
	if err != nil {
		return nil, err
	}
	return spot(l, t.GetSpec().GetNode(), s.conf())
}

// stays says why what is at a place can not become a replica: it is just being removed,
// or written to, so that it is something else in a moment. What another account writes to a place above it keeps nothing from being added.
func (s *datasetServer) stays(tx *state.Tx, by *pb.Task, at *pb.Replica) error {
	found, where, err := s.c.facts.meeting(tx, at.GetLocation(), at.GetNode())
	if err != nil {
		return err
	}
	no := func(task, what string) error {
		return &mover.Error{Op: "add", Place: at.GetLocation(), Err: fmt.Errorf("%w: task %s removes or writes %s; add it when that is done", mover.ErrConflict, task, mover.Printable(what))}
	}
	for _, r := range found {
		if r.GetState() != whole && live(tx, r.GetTask()) {
			return no(r.GetTask(), r.GetLocation())
		}
	}
	for t, err := range state.FindTasks(tx, state.TaskFilter{States: []pb.TaskState{task.Running}}) {
		if err != nil {
			return err
		}
		target := address(t.GetSpec().GetTarget(), t.GetSpec().GetNode(), s.conf())
		if task.Of(t.GetSpec()).Overwrites && overlap(where, target) && (concerns(t, by) || len(target) >= len(where)) {
			return no(t.GetId(), t.GetSpec().GetTarget())
		}
	}
	return nil
}

// taken says whether another owner, outside the task's project, made the dataset after the task was accepted.
func taken(d *pb.Dataset, t *pb.Task) bool {
	shared := d.GetProject() != "" && d.GetProject() == t.GetSpec().GetProject()
	mine := d.GetOwner().GetName() == t.GetOwner().GetName() && d.GetOwner().GetUid() == t.GetOwner().GetUid()
	return !shared && !mine && d.GetCreateTime().AsTime().After(t.GetCreateTime().AsTime())
}

// addSource records where a version was read. The place of a replica that is held or
// worked on stays as it is, and so does that of one that this service has made.
func (s *datasetServer) addSource(tx *state.Tx, t *pb.Task, r *pb.Replica, p manifestResult) error {
	now := timestamppb.New(s.clock.now())
	r.Dataset, r.Digest, r.State, r.Level, r.Bytes = t.GetSpec().GetStaging().GetDataset(), p.digest, whole, pb.Level_LEVEL_READ, p.bytes
	r.CreateTime, r.UseTime, r.Owner = now, now, t.GetOwner()
	if err := s.replaced(tx, r); err != nil {
		return err
	}
	was, err := getReplica(tx, r)
	switch {
	case errors.Is(err, mover.ErrNotExist):
		return s.putReplica(tx, r)
	case err != nil:
		return err
	case was.GetLocation() == r.GetLocation() && was.GetState() == whole:
		was.Level, was.Bytes = r.GetLevel(), r.GetBytes()
		return s.putReplica(tx, was)
	case managed(was) || was.GetTask() != "" || was.GetState() != whole:
		return nil
	}
	if held, err := s.holds(tx, was); err != nil || held {
		return err
	}
	return s.putReplica(tx, r)
}

// replaced forgets the records of other content at the location from which a version was
// read just now. A record that is held, or that a task works on, stays without its level.
func (s *datasetServer) replaced(tx *state.Tx, r *pb.Replica) error {
	found, where, err := s.c.facts.meeting(tx, r.GetLocation(), r.GetNode())
	if err != nil {
		return err
	}
	for _, other := range found {
		if other.GetDigest() == r.GetDigest() || address(other.GetLocation(), other.GetNode(), s.conf()) != where {
			continue
		}
		held, err := s.holds(tx, other)
		switch {
		case err != nil:
		case held || other.GetTask() != "":
			other.Level = pb.Level_LEVEL_UNSPECIFIED
			err = s.putReplica(tx, other)
		default:
			err = deleteReplica(tx, other)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// holds says whether a lease lasts on a replica.
func (s *datasetServer) holds(tx *state.Tx, r *pb.Replica) (bool, error) {
	r, err := shown(tx, r, s.clock.now())
	return r.GetLeases() > 0, err
}
