package datasetworker

import (
	"testing"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/agent/worker"
	"datamove.dev/mover/location"
)

// TestStrict: a path that the service recorded is reached over no symbolic link, with the folder around it; a path of a user may lead over some.
func TestStrict(t *testing.T) {
	tiers := []*agentv1.TierAccess{{Name: "hot", Level: "hot", Path: "/nvme"}, {Name: "warm", Level: "warm", Path: "/lustre"}}
	of := func(spec *pb.TaskSpec) *worker.Job {
		spec.Source, spec.Target = "warm:sets/a", "hot:sets/a"
		return worker.NewJob(&agentv1.Job{Spec: spec, Tiers: tiers}, nil, worker.Options{})
	}
	replica := &pb.TaskSpec{Staging: &pb.Staging{Dataset: "a"}}
	const neither, source, target, both = "", "source", "target", "source target"
	for _, row := range []struct {
		what string
		r    worker.Runner
		spec *pb.TaskSpec
		want string
	}{
		{"a dataset is described", Describe{}, &pb.TaskSpec{}, source},
		{"a replica is staged", Stage{}, replica, target},
		{"a folder of a user is staged", Stage{}, &pb.TaskSpec{}, neither},
		{"a replica is released, which another one survives", Release{}, &pb.TaskSpec{}, both},
		{"scratch is purged", Purge{}, &pb.TaskSpec{}, target},
		{"access is probed", AccessProbe{}, &pb.TaskSpec{}, neither},
	} {
		j := of(row.spec)
		for path, is := range map[string]bool{
			"/lustre/sets/a": row.want == source || row.want == both, "/lustre/sets": row.want == source || row.want == both,
			"/nvme/sets/a": row.want == target || row.want == both, "/nvme/sets": row.want == target || row.want == both,
			"/nvme/sets/b": false, "/nvme/sets/a/b": false, "/lustre": false, "/home/a": false,
		} {
			if got := row.r.Strict(j, location.OfPath(path)); got != is {
				t.Errorf("%s: %s is strict: %v", row.what, path, got)
			}
		}
	}
}
