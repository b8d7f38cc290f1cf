package datasetserver

import (
	"context"
	"errors"
	"fmt"
	"strings"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/location"
	"datamove.dev/mover/server/authz"
	"datamove.dev/tiering/dataset"
)

// A caller may use a cached replica if it may read a source of it now. The file system of the source
// decides that, not a record. A change can not wait for that check, so it ends with an *unseen.
// A worker then checks as the caller, and the change is made anew. Its agent lets the caller in
// at the gate of the replica (mover/agent/replicadir), before the caller gets its answer.

// Unseen is why a change can not be made yet.
type Unseen struct {
	Caller  authz.Caller
	Project string
	Replica *pb.Replica   // that the caller wants
	Sources []*pb.Replica // where it may come from, any of which will do; none has to be looked at
}

func (u *Unseen) Error() string {
	return fmt.Sprintf("nobody has looked whether %s may read %s", u.Caller, mover.Printable(u.Replica.GetLocation()))
}

// seenMost is how often a change is made anew: between a look and the change another task
// may have staged something else there.
const seenMost = 4

// updateWithProbe makes a durable change, with all the looks that it needs.
func (s *accessProber) updateWithProbe(ctx context.Context, do func(*state.Tx) error) error {
	for range seenMost {
		err := s.ledger.Update(ctx, state.Durable, do)
		var u *Unseen
		if !errors.As(err, &u) {
			return err
		}
		if err := s.look(ctx, u); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: what was asked for changes all the time; ask again", mover.ErrTransient)
}

// mayHave says why a caller may not have a replica. One that this service has made requires read access
// to one of its sources. The rules decide that for a bucket, a look (*unseen) for a file system.
// Without a source left, the caller needs a bucket with a copy that it may read, or it owns the replica.
func (s *accessProber) mayHave(tx *state.Tx, c authz.Caller, project string, r *pb.Replica) error {
	if err := s.rules().MayUseAt(c, project, r.GetLocation(), false); err != nil || r.GetDataset() == "" || !managed(r) {
		return err
	}
	sources, err := s.origins(tx, c, project, r)
	switch {
	case err != nil:
		return err
	case len(sources.denied) > 0 && len(sources.files) == 0 && !sources.open:
		return sources.denied[0]
	case sources.none() && !sources.stored && !authz.IsOwner(r.GetOwner(), c):
		return &mover.Error{Op: "read", Location: r.GetLocation(), Err: mover.Because(mover.ErrPermission,
			"nothing is left of where it came from, so nobody can tell who may read it; who staged it may, who is %s", mover.Printable(r.GetOwner().GetName()))}
	case s.looks.counts(lookKey(authz.AccountOf(c), r), s.clock.Steady()):
		return nil
	case sources.open || len(sources.files) == 0: // the caller has the right to it and only has to be let in
		if sources.files = nil; !s.gated(r) {
			return nil
		}
	}
	return &Unseen{Caller: c, Project: project, Replica: r, Sources: sources.files}
}

// gated reports whether a replica is behind a gate, which lets accounts in one by one.
func (s *accessProber) gated(r *pb.Replica) bool {
	return s.conf().Tiers[r.GetTier()].Path != "" && strings.HasSuffix(r.GetLocation(), "/"+dataset.Inside)
}

// origins are where a replica may come from.
type origins struct {
	files  []*pb.Replica // in file systems
	open   bool          // one is in a bucket that the caller may read
	denied []error       // why the caller may not use others
	stored bool          // a bucket that the caller may read has a copy that this service made
}

// none reports whether nothing is left that others have.
func (f *origins) none() bool { return len(f.files) == 0 && !f.open && len(f.denied) == 0 }

// origins finds them among the replicas of the same version.
func (s *accessProber) origins(tx *state.Tx, c authz.Caller, project string, r *pb.Replica) (*origins, error) {
	f := &origins{}
	for other, err := range state.Replicas.All(tx, versionRange(r.GetDataset(), r.GetDigest())) {
		if err != nil {
			return nil, err
		}
		stored := s.inStore(other)
		if other.GetState() != whole || managed(other) && !stored {
			continue
		}
		err := s.rules().MayUseAt(c, project, other.GetLocation(), false)
		switch {
		case managed(other):
			f.stored = f.stored || err == nil
		case err != nil:
			f.denied = append(f.denied, err)
		case stored:
			f.open = true
		default:
			f.files = append(f.files, other)
		}
	}
	return f, nil
}

// inStore reports whether a replica is in a bucket.
func (s *accessProber) inStore(r *pb.Replica) bool {
	l, err := location.Parse(r.GetLocation())
	return err == nil && (l.InStore() || l.InTier() && s.conf().Tiers[l.Tier].S3 != nil)
}
