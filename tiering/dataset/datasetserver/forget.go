package datasetserver

import (
	"context"
	"errors"
	"fmt"
	"strings"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/tiering/dataset"
)

// RemoveDataset implements pb.DatasetServiceServer.
func (s *Server) RemoveDataset(ctx context.Context, r *pb.RemoveDatasetRequest) (*pb.RemoveDatasetResponse, error) {
	digests := map[string]bool{}
	err := s.ledger.Update(ctx, state.Durable, func(tx *state.Tx) error {
		d, err := s.ownDataset(tx, authz.From(ctx), pb.DatasetService_RemoveDataset_FullMethodName, r.GetName())
		if err != nil {
			return err
		}
		if _, err := findVersion(tx, "remove", r.GetName(), r.GetDigest()); err != nil {
			return err
		}
		versions, err := state.Collect(state.Versions.All(tx, state.Range{Prefix: []string{d.GetName()}}))
		if err != nil {
			return err
		}
		left := 0
		for _, v := range versions {
			if r.GetDigest() != "" && v.GetVersion().GetDigest() != r.GetDigest() {
				left++
				continue
			}
			digests[v.GetVersion().GetDigest()] = true
			if err := s.removeVersion(tx, v); err != nil {
				return err
			}
		}
		if left > 0 {
			return nil
		}
		return removeName(tx, d.GetName())
	})
	if err != nil {
		return nil, err
	}
	if err := s.manifests.drop(digests); err != nil {
		s.log.Warn("manifests of no version stay until the next sweep", "dataset", r.GetName(), "err", err)
	}
	return &pb.RemoveDatasetResponse{}, nil
}

// removeVersion forgets a version and its replicas. It fails if one of them is needed.
func (s *Server) removeVersion(tx *state.Tx, v *ledgerv1.DatasetVersion) error {
	if _, err := s.records.moment(tx); err != nil {
		return err
	}
	replicas, err := state.Collect(state.Replicas.All(tx, versionRange(v.GetDataset(), v.GetVersion().GetDigest())))
	if err != nil {
		return err
	}
	for _, r := range replicas {
		if err := s.mayForget(tx, r); err != nil {
			return err
		}
		if err := s.forgetReplica(tx, r); err != nil {
			return err
		}
	}
	return state.Versions.Delete(tx, v.GetDataset(), state.Number(v.GetNumber()))
}

// forgetReplica forgets where a version is. A replica that this service has staged to an
// ephemeral tier stays recorded, as one of no dataset. Without a record it would never be evicted.
func (s *Server) forgetReplica(tx *state.Tx, r *pb.Replica) error {
	if err := deleteReplica(tx, r); err != nil || !s.conf().Tiers[r.GetTier()].Ephemeral || !managed(r) {
		return err
	}
	r.Dataset, r.Digest, r.Level = "", "", pb.Level_LEVEL_UNSPECIFIED
	return s.records.putReplica(tx, r)
}

// remember forgets what is known of a place as a replica of no dataset, where a dataset is
// to be: it was staged there before it was forgotten. By an earlier version that was to the folder around it,
// and there it is then once more: what is in a replica is no place for another one.
func (s *Server) remember(tx *state.Tx, want *pb.Replica) error {
	if want.GetDataset() == "" {
		return nil
	}
	old := &pb.Replica{Tier: want.GetTier(), Node: want.GetNode(), Location: want.GetLocation()}
	was, err := getReplica(tx, old)
	if errors.Is(err, mover.ErrNotExist) {
		old.Location = strings.TrimSuffix(old.GetLocation(), "/"+dataset.Inside)
		was, err = getReplica(tx, old)
	}
	if err != nil {
		return mover.IgnoreNotExist(err)
	}
	want.Location = old.GetLocation()
	if live(tx, was.GetTask()) || was.GetState() != whole {
		return &mover.Error{Op: "stage", Location: want.GetLocation(), Err: fmt.Errorf("%w: what was left of it there is just being removed (task %s)", mover.ErrConflict, was.GetTask())}
	}
	return deleteReplica(tx, was)
}

// mayForget says why a replica has to stay known.
func (s *Server) mayForget(tx *state.Tx, r *pb.Replica) error {
	refuse := func(kind error, format string, args ...any) error {
		return &mover.Error{Op: "remove", Location: "dataset:" + tag(r.GetDataset(), r.GetDigest()), Err: mover.Because(kind, "%s "+format, append([]any{mover.Printable(r.GetLocation())}, args...)...)}
	}
	now, err := shown(tx, r, s.clock.Now())
	switch {
	case err != nil:
		return err
	case now.GetLeases() > 0:
		return refuse(mover.ErrHeld, "is held by %s; datamove lease list --dataset %s names them", leasesOf(now), r.GetDataset())
	case now.GetPinnedUntil() != nil:
		return refuse(mover.ErrRefused, "is pinned; unpin it first")
	case live(tx, r.GetTask()):
		return refuse(mover.ErrConflict, "is worked on by task %s", r.GetTask())
	}
	return nil
}

// leasesOf counts the leases on a replica, for people.
func leasesOf(r *pb.Replica) string {
	if r.GetLeases() == 1 {
		return "a lease"
	}
	return fmt.Sprintf("%d leases", r.GetLeases())
}

// removeName forgets what is left of a dataset without versions.
func removeName(tx *state.Tx, name string) error {
	pins, err := state.Collect(state.Pins.All(tx, state.Range{Prefix: []string{name}}))
	if err != nil {
		return err
	}
	for _, p := range pins {
		if err := state.Pins.Delete(tx, name, p.GetDigest(), p.GetTier()); err != nil {
			return err
		}
	}
	return state.Datasets.Delete(tx, name)
}
