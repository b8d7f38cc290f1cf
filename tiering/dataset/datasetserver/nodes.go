package datasetserver

import (
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/coordinator/state"
)

const forgetSteps = 500 // replicas that are forgotten in one change

// Rebooted doubts what lies on the ephemeral tiers of a node that has begun anew: its disks
// may be empty. What is there all the same, staging finds, and moves no more than is missing.
func (s *Server) Rebooted(tx *state.Tx, node string) error {
	for tier, t := range s.conf().Tiers {
		if !t.NodeLocal || !t.Ephemeral {
			continue
		}
		replicas, err := state.Collect(state.ReplicasByTier.All(tx, state.Range{Prefix: []string{tier, node}}))
		if err != nil {
			return err
		}
		for _, r := range replicas {
			r.Level = pb.Level_LEVEL_UNSPECIFIED
			if err := s.records.putReplica(tx, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// ForgetNode forgets the replicas on the node-local tiers of a node, and their leases. It
// reports whether there is more than fits in one change.
func (s *Server) ForgetNode(tx *state.Tx, node string, dropped *pb.ForgetAgentResponse) (more bool, err error) {
	var gone []*pb.Replica
	for r, err := range state.Replicas.All(tx, state.Range{}) {
		if err != nil {
			return false, err
		}
		if r.GetNode() != node {
			continue
		}
		if more = len(gone) == forgetSteps; more {
			break
		}
		gone = append(gone, r)
	}
	for _, r := range gone {
		now, err := shown(tx, r, s.clock.Now())
		if err == nil {
			err = deleteReplica(tx, r)
		}
		if err != nil {
			return false, err
		}
		dropped.Replicas++
		dropped.ReplicaBytes += r.GetBytes()
		dropped.Leases += int64(now.GetLeases())
	}
	return more, nil
}
