package datasetserver

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/placement"
	"datamove.dev/mover/coordinator/quota"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/coordinator/taskkind"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
	"datamove.dev/mover/task/convert"
	"datamove.dev/tiering/dataset"
)

// AddDataset implements pb.DatasetServiceServer.
func (s *Server) AddDataset(ctx context.Context, r *pb.AddDatasetRequest) (*pb.Task, error) {
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
	if _, err := placement.InTier(r.GetLocation(), s.conf()); err != nil {
		return nil, err
	}
	at, err := replicaAt(l, r.GetNode(), s.conf())
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
	return s.c.Submit(ctx, spec, r.GetIdempotencyKey(), func(tx *state.Tx, t *pb.Task) error {
		return s.mayAdd(tx, authz.From(ctx), t)
	})
}

// mayAdd says why the owner of a task may not make a version of its dataset.
func (s *Server) mayAdd(tx *state.Tx, c authz.Caller, t *pb.Task) error {
	d, err := s.ownDataset(tx, c, pb.DatasetService_AddDataset_FullMethodName, t.GetSpec().GetStaging().GetDataset())
	if errors.Is(err, mover.ErrNotExist) { // a new one is the caller's own
		return s.c.MayHold(c, quota.Datasets)
	}
	if err != nil {
		return err
	}
	if d, err = withVersions(tx, d, versionsMost); err == nil && len(d.GetVersions()) == versionsMost {
		err = &mover.Error{Op: "add", Location: "dataset:" + d.GetName(), Err: fmt.Errorf("%w: it has %d versions; remove some", mover.ErrRefused, versionsMost)}
	}
	return err
}

// ownDataset returns a dataset that the caller may do something to.
func (s *Server) ownDataset(tx *state.Tx, c authz.Caller, method, name string) (*pb.Dataset, error) {
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
	if err := s.rules().MayOn(c, authz.OfMethod(method), authz.OwnerOf(d.GetOwner(), d.GetProject())).Err(); err != nil {
		return nil, &mover.Error{Op: "use", Location: "dataset:" + name, Err: err}
	}
	return d, nil
}

// GetDataset implements pb.DatasetServiceServer.
func (s *Server) GetDataset(_ context.Context, r *pb.GetDatasetRequest) (d *pb.Dataset, err error) {
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
func (s *Server) ListDatasets(ctx context.Context, r *pb.ListDatasetsRequest) (*pb.ListDatasetsResponse, error) {
	out := &pb.ListDatasetsResponse{}
	return out, s.ledger.View(func(tx *state.Tx) (err error) {
		wanted := func(d *pb.Dataset) bool { return r.GetProject() == "" || d.GetProject() == r.GetProject() }
		rows := state.Datasets.All(tx, state.Range{After: r.GetPageToken()})
		if out.Datasets, out.NextPageToken, err = state.Page(ctx, rows, wanted, state.PageSize(r.GetPageSize()), state.Datasets.Token); err != nil {
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
func (s *Server) described(tx *state.Tx, t *pb.Task, p taskkind.Result) error {
	name := t.GetSpec().GetStaging().GetDataset()
	d, err := state.Datasets.Get(tx, name)
	switch {
	case errors.Is(err, mover.ErrNotExist):
		d = &pb.Dataset{Name: name, Project: t.GetSpec().GetProject(), Owner: t.GetOwner(), CreateTime: timestamppb.New(s.clock.Now())}
	case err != nil:
		return err
	case taken(d, t):
		return s.c.Fail(tx, t, &mover.Error{Op: "add", Location: "dataset:" + name, Err: fmt.Errorf("%w: %s has made a dataset of that name meanwhile", mover.ErrPermission, authz.NameOfAccount(d.GetOwner()))})
	}
	at, err := s.source(t)
	if err == nil {
		err = s.stays(tx, t, at)
	}
	if err != nil { // its tier is not there any more, or it goes
		return s.c.Fail(tx, t, err)
	}
	if err := errors.Join(state.Datasets.Put(tx, d), addVersion(tx, t, p)); err != nil {
		return err
	}
	return s.addSource(tx, t, at, p)
}

// source is where a task has read.
func (s *Server) source(t *pb.Task) (*pb.Replica, error) {
	l, err := convert.Locate(t.GetSpec().GetSource())
	if err != nil {
		return nil, err
	}
	return replicaAt(l, t.GetSpec().GetNode(), s.conf())
}

// stays says why what is at a place can not become a replica: it is just being removed,
// or written to, so that it is something else in a moment. What another account writes to a place above it keeps nothing from being added.
func (s *Server) stays(tx *state.Tx, by *pb.Task, at *pb.Replica) error {
	found, where, err := s.records.meeting(tx, at.GetLocation(), at.GetNode())
	if err != nil {
		return err
	}
	no := func(task, what string) error {
		return &mover.Error{Op: "add", Location: at.GetLocation(), Err: fmt.Errorf("%w: task %s removes or writes %s; add it when that is done", mover.ErrConflict, task, mover.Printable(what))}
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
		target := placement.Address(t.GetSpec().GetTarget(), t.GetSpec().GetNode(), s.conf())
		if task.Of(t.GetSpec()).Overwrites && placement.Overlap(where, target) && (task.Concerns(t, by) || len(target) >= len(where)) {
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
func (s *Server) addSource(tx *state.Tx, t *pb.Task, r *pb.Replica, p taskkind.Result) error {
	now := timestamppb.New(s.clock.Now())
	r.Dataset, r.Digest, r.State, r.Level, r.Bytes = t.GetSpec().GetStaging().GetDataset(), p.Digest, whole, pb.Level_LEVEL_READ, p.Bytes
	r.CreateTime, r.UseTime, r.Owner = now, now, t.GetOwner()
	if err := s.replaced(tx, r); err != nil {
		return err
	}
	was, err := getReplica(tx, r)
	switch {
	case errors.Is(err, mover.ErrNotExist):
		return s.records.putReplica(tx, r)
	case err != nil:
		return err
	case was.GetLocation() == r.GetLocation() && was.GetState() == whole:
		was.Level, was.Bytes = r.GetLevel(), r.GetBytes()
		return s.records.putReplica(tx, was)
	case managed(was) || was.GetTask() != "" || was.GetState() != whole:
		return nil
	}
	if held, err := s.records.holds(tx, was); err != nil || held {
		return err
	}
	return s.records.putReplica(tx, r)
}

// replaced forgets the records of other content at the location from which a version was
// read just now. A record that is held, or that a task works on, stays without its level.
func (s *Server) replaced(tx *state.Tx, r *pb.Replica) error {
	found, where, err := s.records.meeting(tx, r.GetLocation(), r.GetNode())
	if err != nil {
		return err
	}
	for _, other := range found {
		if other.GetDigest() == r.GetDigest() || placement.Address(other.GetLocation(), other.GetNode(), s.conf()) != where {
			continue
		}
		held, err := s.records.holds(tx, other)
		switch {
		case err != nil:
		case held || other.GetTask() != "":
			other.Level = pb.Level_LEVEL_UNSPECIFIED
			err = s.records.putReplica(tx, other)
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
func (s *records) holds(tx *state.Tx, r *pb.Replica) (bool, error) {
	r, err := shown(tx, r, s.clock.Now())
	return r.GetLeases() > 0, err
}
