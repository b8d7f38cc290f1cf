package coordinator

import (
	"errors"
	"fmt"
	"os"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/location"
	"datamove.dev/mover/manifest"
	"datamove.dev/mover/task"
)

// manifestResult is what the manifest that a lead has sent says of what it has read.
type manifestResult struct {
	digest  string
	entries int64
	bytes   int64

	untouched bool   // of a removal that failed: nothing was removed
	unguarded string // of a staging: as in Replica

	unlike bool // of a task that failed: what it read is not what it has to be
}

func (s *datasetServer) proofOf(l *lead) manifestResult {
	s.c.scheduler.mu.Lock()
	defer s.c.scheduler.mu.Unlock()
	return l.proof
}

// proved returns what the lead of a task has proved by a manifest, which it must have sent.
func (s *datasetServer) proved(l *lead, t *pb.Task, r *agentv1.FinishRequest) (manifestResult, error) {
	s.c.scheduler.mu.Lock()
	defer s.c.scheduler.mu.Unlock()
	if l.proof.digest == "" && validDigest(r.GetDigest()) {
		l.proof.digest = r.GetDigest() // it was sent before this service began anew
	}
	if l.proof.digest == "" {
		return l.proof, &mover.Error{Op: "finish", Place: "task " + t.GetId(), Err: fmt.Errorf("%w: its lead has sent no manifest; submit it again", mover.ErrTransient)}
	}
	return l.proof, nil
}

// isOf says whether a digest is that of the version that a task is about.
func isOf(t *pb.Task, digest string) bool {
	l, err := location.Parse("dataset:" + t.GetDataset())
	return err == nil && l.Digest == digest
}

// sameStill says why what a task is to release is not to be removed: it is not the
// replica that it was, or the copy that is to survive it is not.
func sameStill(t *pb.Task, p manifestResult) error {
	if !task.Of(t.GetSpec()).RemovesTarget || isOf(t, p.digest) {
		return nil
	}
	return &mover.Error{Op: "release", Place: t.GetSpec().GetTarget(), Err: fmt.Errorf(
		"%w: what was read has the digest %s and not that of dataset:%s; it was changed since it was added, and stays", mover.ErrChanged, p.digest, mover.Printable(t.GetDataset()))}
}

// stored completes the proof of a manifest that has to be on the shelf.
func (s *datasetServer) stored(p manifestResult) (manifestResult, error) {
	f, err := os.Open(s.manifestFile(p.digest))
	if errors.Is(err, mover.ErrNotExist) {
		return p, fmt.Errorf("%w: the manifest %s is not there; add the dataset again", mover.ErrTransient, mover.Printable(p.digest))
	}
	if err != nil {
		return p, err
	}
	defer f.Close()
	if p.entries > 0 { // it came in this run of the service
		return p, nil
	}
	was := p.digest
	if p.digest, p.entries, p.bytes, err = manifest.Digest(f); err == nil && p.digest != was {
		err = fmt.Errorf("%w: the manifest %s", mover.ErrCorrupt, was)
	}
	return p, err
}
