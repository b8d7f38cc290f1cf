package coordinator

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/location"
	"datamove.dev/mover/task"
	"datamove.dev/tiering/dataset"
)

// What tests of datasets know of replicas, leases and tasks, in their own words: the server of datasets has its own.

const (
	staging  = pb.ReplicaState_REPLICA_STATE_STAGING
	whole    = pb.ReplicaState_REPLICA_STATE_WHOLE
	removing = pb.ReplicaState_REPLICA_STATE_REMOVING
)

// tier is a tier of the configuration, for which a test says how full it is.
func (d *desk) tier(name string) *pb.Tier {
	d.t.Helper()
	tiers, err := d.datasets.ListTiers(context.Background(), &pb.ListTiersRequest{Name: name})
	if err != nil {
		d.t.Fatalf("%v", err)
	}
	row := tiers.GetTiers()[0]
	row.Node, row.TotalBytes, row.FreeBytes = "", 0, 0
	return row
}

// manifest is where the manifest of a digest is; that of "" is where all are.
func (d *desk) manifest(digest string) string { return filepath.Join(d.dir, "manifests", digest) }

// managed says whether a replica was made by the service.
func managed(r *pb.Replica) bool {
	l, err := location.Parse(r.GetLocation())
	return err == nil && l.InTier() && mover.Within(l.Path, dataset.Datasets)
}

// doubtful says whether it is unknown what such a replica is.
func doubtful(r *pb.Replica) bool { return managed(r) && r.GetLevel() == pb.Level_LEVEL_UNSPECIFIED }

// tag is a version in one word.
func tag(name, digest string) string { return name + "@" + digest }

// live says whether a task has not ended.
func live(tx *state.Tx, id string) bool {
	t, err := state.Tasks.Get(tx, id)
	return err == nil && !task.Ended(t.GetState())
}

// workedOn is the replica of the version of a task that the task works on.
func workedOn(tx *state.Tx, t *pb.Task) (*pb.Replica, error) {
	name, digest, _ := strings.Cut(t.GetDataset(), "@")
	if name == "" {
		name = state.NoDataset
	}
	for r, err := range state.Replicas.All(tx, state.Range{Prefix: []string{name, digest, t.GetSpec().GetStaging().GetTier()}}) {
		if err != nil || r.GetTask() == t.GetId() {
			return r, err
		}
	}
	return nil, mover.ErrNotExist
}

// newLease is a lease on a replica from now on.
func newLease(id string, r *pb.Replica, holder string, owner *pb.Account, now time.Time, ttl time.Duration) *pb.Lease {
	return &pb.Lease{
		Id: id, Dataset: r.GetDataset(), Digest: r.GetDigest(), Tier: r.GetTier(), Node: r.GetNode(), Location: r.GetLocation(),
		Holder: holder, Owner: owner, CreateTime: timestamppb.New(now), ExpireTime: timestamppb.New(now.Add(ttl)),
	}
}
