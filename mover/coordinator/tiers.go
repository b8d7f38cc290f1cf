package coordinator

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/config/spelling"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/location"
)

// tierServer answers about the tiers of the configuration.
type tierServer struct {
	pb.UnimplementedTierServiceServer
	*core
	c *Service
}

// ListTiers implements pb.TierServiceServer.
func (s *tierServer) ListTiers(_ context.Context, r *pb.ListTiersRequest) (*pb.ListTiersResponse, error) {
	out := &pb.ListTiersResponse{}
	tiers := s.conf().Tiers
	if _, known := tiers[r.GetName()]; r.GetName() != "" && !known {
		return nil, s.noTier("list", r.GetName())
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

// noTier is the error of a tier that the configuration does not have: a word that is wrong.
func (s *tierServer) noTier(op, name string) error {
	tiers := slices.Sorted(maps.Keys(s.conf().Tiers))
	names := "it has " + cmp.Or(strings.Join(tiers, ", "), "none")
	if question := spelling.Question(name, tiers); question != "" {
		names = question + " " + names
	}
	return &mover.Error{Op: op, Place: "tier " + mover.Printable(name), Err: mover.Because(mover.ErrUsage, "the configuration of the service has no such tier; %s", names)}
}

// inTier reads a location that has to be in a tier, if it names one.
func (s *tierServer) inTier(text string) (location.Location, error) {
	l, err := location.Parse(text)
	if _, known := s.conf().Tiers[l.Tier]; err == nil && l.InTier() && !known {
		err = s.noTier("use", l.Tier)
	}
	return l, err
}

// inTiers finds a location of a request that is in no tier that there is.
func (s *tierServer) inTiers(spec *pb.TaskSpec) error {
	for _, text := range locations(spec) {
		if _, err := s.inTier(text); err != nil {
			return err
		}
	}
	return nil
}

// lines are what is known of a tier by its agents: a line for each node of a node-local
// one, and one without a node if no agent has it.
func (s *tierServer) lines(name string, t config.Tier) (lines []*pb.Tier) {
	agents := s.reaching(name)
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
	for _, room := range s.c.datasets.rooms(name, t.NodeLocal) {
		for _, line := range lines {
			if line.GetNode() == room.node {
				line.TotalBytes, line.FreeBytes = room.GetTotalBytes(), room.GetFreeBytes()
			}
		}
	}
	return lines
}

// reaching are the agents that are there and reach a tier, by name.
func (s *tierServer) reaching(tier string) (names []string) {
	s.c.scheduler.mu.Lock()
	defer s.c.scheduler.mu.Unlock()
	for _, n := range s.c.scheduler.agents {
		for _, r := range n.hello.GetReaches() {
			if r.GetTier() == tier && n.orders != nil {
				names = append(names, n.name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// weigh sums the replicas on a tier, and those that are held.
func (s *tierServer) weigh(tx *state.Tx, line *pb.Tier) error {
	for r, err := range state.ReplicasByTier.All(tx, state.Range{Prefix: []string{line.GetName(), line.GetNode()}}) {
		if err != nil {
			return err
		}
		if r.GetState() == staging {
			continue
		}
		line.ReplicaBytes += r.GetBytes()
		held, err := s.c.datasets.holds(tx, r)
		if err != nil {
			return err
		}
		if held {
			line.LeasedBytes += r.GetBytes()
		}
	}
	return nil
}
