package datasetserver

import (
	"fmt"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/taskkind"
	"datamove.dev/mover/location"
	"datamove.dev/mover/task"
)

// isOf says whether a digest is that of the version that a task is about.
func isOf(t *pb.Task, digest string) bool {
	l, err := location.Parse("dataset:" + t.GetDataset())
	return err == nil && l.Digest == digest
}

// sameStill says why what a task is to release is not to be removed: it is not the
// replica that it was, or the copy that is to survive it is not.
func sameStill(t *pb.Task, p taskkind.Result) error {
	if !task.Of(t.GetSpec()).RemovesTarget || isOf(t, p.Digest) {
		return nil
	}
	return &mover.Error{Op: "release", Location: t.GetSpec().GetTarget(), Err: fmt.Errorf(
		"%w: what was read has the digest %s and not that of dataset:%s; it was changed since it was added, and stays", mover.ErrChanged, p.Digest, mover.Printable(t.GetDataset()))}
}

// proved returns what the agent of a task has proved by a manifest, which it must have sent.
func proved(got taskkind.Result, t *pb.Task, r *agentv1.FinishRequest) (taskkind.Result, error) {
	if got.Digest == "" && validDigest(r.GetDigest()) {
		got.Digest = r.GetDigest() // it was sent before this service began anew
	}
	if got.Digest == "" {
		return got, &mover.Error{Op: "finish", Location: "task " + t.GetId(), Err: fmt.Errorf("%w: its lead has sent no manifest; submit it again", mover.ErrTransient)}
	}
	return got, nil
}
