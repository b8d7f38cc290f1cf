package datasetserver

import (
	"context"
	"maps"
	"slices"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/config"
	"datamove.dev/mover/coordinator/placement"
	"datamove.dev/mover/coordinator/state"
)

// ListTiers implements pb.TierServiceServer.
func (s *Server) ListTiers(_ context.Context, r *pb.ListTiersRequest) (*pb.ListTiersResponse, error) {
	out := &pb.ListTiersResponse{}
	tiers := s.conf().Tiers
	if _, known := tiers[r.GetName()]; r.GetName() != "" && !known {
		return nil, placement.NoTier("list", r.GetName(), s.conf())
	}
	for _, name := range slices.Sorted(maps.Keys(tiers)) {
		if r.GetName() != "" && r.GetName() != name {
			continue
		}
		out.Tiers = append(out.Tiers, s.lines(name, tiers[name])...)
	}
	return out, s.ledger.View(func(tx *state.Tx) error {
		for _, line := range out.Tiers {
			if err := s.weigh(tx, line); err != nil {
				return err
			}
		}
		return nil
	})
}

// lines are what is known of a tier by its agents: a line for each node of a node-local
// one, and one without a node if no agent has it.
func (s *Server) lines(name string, t config.Tier) (lines []*pb.Tier) {
	agents := s.c.Reaching(name)
	if !t.NodeLocal || len(agents) == 0 {
		line := tierRow(name, t)
		line.Agents = agents
		lines = []*pb.Tier{line}
	} else {
		for _, node := range agents {
			line := tierRow(name, t)
			line.Node, line.Agents = node, []string{node}
			lines = append(lines, line)
		}
	}
	for _, room := range s.c.Rooms(name, t.NodeLocal) {
		for _, line := range lines {
			if line.GetNode() == room.Node {
				line.TotalBytes, line.FreeBytes = room.GetTotalBytes(), room.GetFreeBytes()
			}
		}
	}
	return lines
}

// weigh sums the replicas on a tier, and those that are held.
func (s *Server) weigh(tx *state.Tx, line *pb.Tier) error {
	for r, err := range state.ReplicasByTier.All(tx, state.Range{Prefix: []string{line.GetName(), line.GetNode()}}) {
		if err != nil {
			return err
		}
		if r.GetState() == staging {
			continue
		}
		line.ReplicaBytes += r.GetBytes()
		held, err := s.records.holds(tx, r)
		if err != nil {
			return err
		}
		if held {
			line.LeasedBytes += r.GetBytes()
		}
	}
	return nil
}
