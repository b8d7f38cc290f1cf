package datasetserver

import (
	"cmp"
	"context"
	"path"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/coordinator/placement"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/location"
	"datamove.dev/tiering/dataset"
)

// The states of replicas, by short names.
const (
	staging  = pb.ReplicaState_REPLICA_STATE_STAGING
	whole    = pb.ReplicaState_REPLICA_STATE_WHOLE
	removing = pb.ReplicaState_REPLICA_STATE_REMOVING
)

// getReplica returns the record of the replica that r names.
func getReplica(tx *state.Tx, r *pb.Replica) (*pb.Replica, error) {
	return state.Replicas.Get(tx, state.ReplicaKey(r)...)
}

// putReplica stores the record of a replica. What is counted for people is not in it.
func (s *records) putReplica(tx *state.Tx, r *pb.Replica) error {
	r.Leases, r.PinnedUntil = 0, nil
	s.spots.add(r)
	if r.GetLevel() == pb.Level_LEVEL_UNSPECIFIED {
		s.before.take(r, "")
	}
	return state.Replicas.Put(tx, r)
}

// putLease stores a lease.
func (s *records) putLease(tx *state.Tx, l *pb.Lease) error {
	s.spots.add(l)
	return state.Leases.Put(tx, l)
}

// deleteReplica forgets a replica, and the leases on it that have ended.
func deleteReplica(tx *state.Tx, r *pb.Replica) error {
	leases, err := state.Collect(state.LeasesByReplica.All(tx, state.Range{Prefix: state.ReplicaKey(r)}))
	if err != nil {
		return err
	}
	for _, l := range leases {
		if err := state.Leases.Delete(tx, l.GetId()); err != nil {
			return err
		}
	}
	return state.Replicas.Delete(tx, state.ReplicaKey(r)...)
}

// replicaAt is where a location is in the words of a replica: by its tier where it is in one.
func replicaAt(l location.Location, node string, c *config.Config) (*pb.Replica, error) {
	tier, local, err := placement.TierOf(l, c)
	if err != nil {
		return nil, err
	}
	if l.IsPath() && tier != "" {
		l = location.OfTier(tier, below(l.Path, c.Tiers[tier].Path))
	}
	l.TrailingSlash = false
	if !local {
		node = ""
	}
	return &pb.Replica{Tier: tier, Node: node, Location: l.String()}, nil
}

// below is a path in words of a directory that it lies in.
func below(p, dir string) string {
	return strings.Trim(strings.TrimPrefix(strings.Trim(path.Clean(p), "/"), strings.Trim(path.Clean(dir), "/")), "/")
}

// managed says whether a location is where staged datasets are.
func managed(r *pb.Replica) bool {
	l, err := location.Parse(r.GetLocation())
	return err == nil && l.InTier() && mover.Within(l.Path, dataset.Datasets)
}

// wasUsed notes that a replica was of use until now.
func (s *records) wasUsed(tx *state.Tx, l *pb.Lease, now time.Time) error {
	r, err := state.Replicas.Get(tx, state.ReplicaKey(l)...)
	if err != nil {
		return mover.IgnoreNotExist(err)
	}
	if r.GetUseTime().AsTime().Before(now) {
		r.UseTime = timestamppb.New(now)
		return s.putReplica(tx, r)
	}
	return nil
}

// ListReplicas implements pb.DatasetServiceServer.
func (s *Server) ListReplicas(ctx context.Context, r *pb.ListReplicasRequest) (*pb.ListReplicasResponse, error) {
	out := &pb.ListReplicasResponse{}
	err := s.ledger.View(func(tx *state.Tx) (err error) {
		of := state.Range{After: r.GetPageToken()}
		if r.GetDataset() != "" {
			of.Prefix = append(of.Prefix, r.GetDataset())
		}
		rows := state.Replicas.All(tx, of)
		wanted := func(x *pb.Replica) bool {
			return (r.GetDigest() == "" || x.GetDigest() == r.GetDigest()) && (r.GetTier() == "" || x.GetTier() == r.GetTier()) && (r.GetNode() == "" || x.GetNode() == r.GetNode())
		}
		if out.Replicas, out.NextPageToken, err = state.Page(ctx, rows, wanted, state.PageSize(r.GetPageSize()), state.Replicas.Token); err != nil {
			return err
		}
		for i, x := range out.Replicas {
			if out.Replicas[i], err = shown(tx, x, s.clock.Now()); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// shown is a copy of a replica for callers, with the number of its leases and its pin.
func shown(tx *state.Tx, r *pb.Replica, now time.Time) (*pb.Replica, error) {
	r = proto.CloneOf(r)
	for l, err := range state.LeasesByReplica.All(tx, state.Range{Prefix: state.ReplicaKey(r)}) {
		if err != nil {
			return nil, err
		}
		if !dataset.Expired(l, now) {
			r.Leases++
		}
	}
	if r.GetDataset() == "" {
		return r, nil
	}
	for p, err := range state.Pins.All(tx, state.Range{Prefix: []string{r.GetDataset()}}) {
		if err != nil {
			return nil, err
		}
		if pinsReplica(p, r) && p.GetUntil().AsTime().After(now) && p.GetUntil().AsTime().After(r.GetPinnedUntil().AsTime()) {
			r.PinnedUntil = p.GetUntil()
		}
	}
	return r, nil
}

func pinsReplica(p *pb.PinInfo, r *pb.Replica) bool {
	return p.GetDataset() == r.GetDataset() && (p.GetDigest() == "" || p.GetDigest() == r.GetDigest()) && cmp.Or(p.GetTier(), r.GetTier()) == r.GetTier()
}
