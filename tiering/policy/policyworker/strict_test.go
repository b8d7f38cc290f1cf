package policyworker

import (
	"testing"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/agent/worker"
	"datamove.dev/mover/location"
)

// TestStrict: the folders of a checkpoint are reached over no symbolic link, when it is moved and when it comes back. A rule of files has the paths of a user.
func TestStrict(t *testing.T) {
	for _, r := range []worker.Runner{Tier{}, Undo{}} {
		for _, checkpoint := range []*pb.CheckpointWork{nil, {}} {
			j := worker.NewJob(&agentv1.Job{Spec: &pb.TaskSpec{Tiering: &pb.Tiering{Checkpoint: checkpoint}}}, nil, worker.Options{})
			if got := r.Strict(j, location.OfPath("/nvme/runs/a/step_1")); got != (checkpoint != nil) {
				t.Errorf("%T, checkpoint %v: strict %v", r, checkpoint, got)
			}
		}
	}
}
