package datasetserver

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/location"
	"datamove.dev/mover/server/authz"
)

// isDataset says whether a location names a dataset.
func isDataset(text string) bool { return strings.HasPrefix(text, "dataset:") }

// Resolve puts the replica that is best read in the place of a dataset that a task
// names as its source.
func (s *Server) Resolve(c authz.Caller, spec *pb.TaskSpec) error {
	if isDataset(spec.GetTarget()) {
		return mover.Usagef("%s is not a place to write to or to compare with: name the location of a replica", mover.Printable(spec.GetTarget()))
	}
	if slices.ContainsFunc(spec.GetSources(), isDataset) {
		return mover.Usagef("a dataset is copied by itself: name one as the source, and no others")
	}
	if !isDataset(spec.GetSource()) {
		return nil
	}
	l, err := parseDataset(spec.GetSource())
	if err != nil {
		return err
	}
	var best *pb.TaskSpec
	err = s.ledger.View(func(tx *state.Tx) error {
		v, err := findVersion(tx, "read", l.Name, l.Digest)
		if err != nil {
			return err
		}
		replicas, err := state.Collect(state.Replicas.All(tx, versionRange(l.Name, v.GetVersion().GetDigest())))
		if err == nil {
			best, err = s.nearest(c, spec, replicas)
		}
		return err
	})
	if err != nil {
		return err
	}
	spec.Source, spec.Node = best.GetSource(), best.GetNode()
	return nil
}

// nearest is a request with the replica that it is best done with.
func (s *Server) nearest(c authz.Caller, spec *pb.TaskSpec, replicas []*pb.Replica) (best *pb.TaskSpec, err error) {
	slices.SortFunc(replicas, func(a, b *pb.Replica) int {
		return cmp.Or(cmp.Compare(s.distance(a), s.distance(b)), -cmp.Compare(a.GetLevel(), b.GetLevel()), cmp.Compare(a.GetLocation(), b.GetLocation()), cmp.Compare(a.GetNode(), b.GetNode()))
	})
	for _, r := range replicas {
		if r.GetState() != whole || r.GetLevel() == pb.Level_LEVEL_UNSPECIFIED || spec.GetNode() != "" && r.GetNode() != "" && r.GetNode() != spec.GetNode() {
			continue
		}
		with := proto.CloneOf(spec)
		with.Source, with.Node = r.GetLocation(), cmp.Or(spec.GetNode(), r.GetNode())
		if s.c.Reachable(c, with) {
			return with, nil
		}
		best = cmp.Or(best, with) // it waits for an agent
	}
	if best == nil {
		err = &mover.Error{Op: "read", Location: spec.GetSource(), Err: fmt.Errorf("%w: no whole replica of it is known to be what it was; add the dataset again where it is, or stage it", mover.ErrNotExist)}
	}
	return best, err
}

// distance orders replicas: a cold one is read last.
func (s *Server) distance(r *pb.Replica) int {
	if t, known := s.conf().Tiers[r.GetTier()]; known {
		return levels[t.Level] / levels["cold"]
	}
	if l, err := location.Parse(r.GetLocation()); err == nil && l.InStore() {
		return 1
	}
	return 0
}

// Bind ties a task that was just stored to the replicas that it reads, and to those
// that it writes over.
func (s *Server) Bind(tx *state.Tx, c authz.Caller, t *pb.Task, asked *pb.TaskSpec) error {
	if err := s.holdSource(tx, c, t, asked); err != nil {
		return err
	}
	_, err := s.records.mayWrite(tx, t)
	return err
}

// holdSource keeps the replica that a task reads in the place of a dataset that was
// asked for.
func (s *Server) holdSource(tx *state.Tx, c authz.Caller, t *pb.Task, asked *pb.TaskSpec) error {
	if !isDataset(asked.GetSource()) {
		return nil
	}
	l, err := parseDataset(asked.GetSource())
	if err != nil {
		return err
	}
	now, err := s.records.moment(tx)
	if err != nil {
		return err
	}
	v, err := findVersion(tx, "read", l.Name, l.Digest)
	if err != nil {
		return err
	}
	for r, err := range state.Replicas.All(tx, versionRange(l.Name, v.GetVersion().GetDigest())) {
		if err != nil {
			return err
		}
		if r.GetLocation() == t.GetSpec().GetSource() && (r.GetNode() == "" || r.GetNode() == t.GetSpec().GetNode()) {
			if err := s.access.mayHave(tx, c, t.GetSpec().GetProject(), r); err != nil {
				return err
			}
			t.Dataset = tag(l.Name, r.GetDigest())
			if err := state.Tasks.Put(tx, t); err != nil {
				return err
			}
			return s.holdFor(tx, t, r, now)
		}
	}
	return &mover.Error{Op: "read", Location: asked.GetSource(), Err: fmt.Errorf("%w: its replica at %s has just gone; submit the task again", mover.ErrTransient, mover.Printable(t.GetSpec().GetSource()))}
}
