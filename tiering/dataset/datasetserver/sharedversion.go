package datasetserver

import (
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/location"
	"datamove.dev/mover/task"
)

// SharedVersion is the version of a dataset that a task brings to the disk of a node, its size, and at most so many nodes that have it, with where it is there. An
// empty digest is that of another task.
func (s *Server) SharedVersion(tx *state.Tx, t *pb.Task, most int) (digest string, bytes int64, seeds map[string]string, err error) {
	spec := t.GetSpec()
	tier, there := s.conf().Tiers[spec.GetStaging().GetTier()]
	l, err := location.Parse("dataset:" + t.GetDataset())
	if !task.Of(spec).Shared || spec.GetStaging().GetDataset() == "" || !there || !tier.NodeLocal || tier.Path == "" || err != nil {
		return "", 0, nil, nil //nolint:nilerr // what is no dataset has no swarm
	}
	v, err := findVersion(tx, "stage", l.Name, l.Digest)
	if err != nil {
		return "", 0, nil, mover.IgnoreNotExist(err)
	}
	seeds = map[string]string{}
	for r, err := range state.Replicas.All(tx, versionRange(l.Name, l.Digest)) {
		if err != nil {
			return "", 0, nil, err
		}
		if r.GetNode() != "" && r.GetState() == whole && !doubtful(r) && managed(r) && len(seeds) < most {
			seeds[r.GetNode()] = r.GetLocation()
		}
	}
	return l.Digest, v.GetVersion().GetBytes(), seeds, nil
}
