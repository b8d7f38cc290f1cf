package datasetserver

import (
	"cmp"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/placement"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
)

// present finds the replica of a version on a tier, a whole one before others.
func (s *records) present(tx *state.Tx, op, dataset, digest, tier, node string) (found *pb.Replica, err error) {
	v, err := findVersion(tx, op, dataset, digest)
	if err != nil {
		return nil, err
	}
	for r, err := range state.Replicas.All(tx, state.Range{Prefix: []string{dataset, v.GetVersion().GetDigest(), tier}}) {
		if err != nil {
			return nil, err
		}
		if (node == "" || r.GetNode() == node) && (found == nil || found.GetState() != whole) {
			found = r
		}
	}
	if _, known := s.conf().Tiers[tier]; found == nil && tier != "" && !known {
		return nil, placement.NoTier(op, tier, s.conf())
	}
	if found == nil {
		on := cmp.Or(tier, "any place outside of the tiers")
		if node != "" {
			on += " of " + node
		}
		return nil, &mover.Error{Op: op, Location: "dataset:" + tag(dataset, v.GetVersion().GetDigest()), Err: mover.Because(mover.ErrNotExist, "no replica of it is on %s; stage it first", mover.Printable(on))}
	}
	return found, nil
}

// nodeOf is the node that is meant on a tier: none where all share it.
func (s *records) nodeOf(tier, node string, c authz.Caller) string {
	t, known := s.conf().Tiers[tier]
	switch {
	case known && !t.NodeLocal:
		return ""
	case known && node == "":
		return s.here(c)
	}
	return node
}
