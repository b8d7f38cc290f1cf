package coordinator

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/enroll"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
)

// agentServer has the agents: their streams, their records, how they join and how they are forgotten.
type agentServer struct {
	pb.UnimplementedAgentServiceServer
	*core
	c *Service
}

// recordAgent notes in the ledger that an agent is there.
func (s *agentServer) recordAgent(ctx context.Context, name string, h *agentv1.Hello, now time.Time) error {
	return s.ledger.Update(ctx, state.Soon, func(tx *state.Tx) error {
		if err := enroll.Remembered(tx, name, authz.From(ctx).Serial); err != nil {
			return err
		}
		r, err := state.Agents.Get(tx, name)
		if errors.Is(err, mover.ErrNotExist) {
			r, err = &ledgerv1.AgentRecord{Agent: &pb.Agent{Name: name, JoinTime: timestamppb.New(now)}}, nil
		}
		if err != nil {
			return err
		}
		if was := r.GetBoot(); was != "" && h.GetBoot() != "" && was != h.GetBoot() {
			if err := s.c.datasets.Rebooted(tx, name); err != nil {
				return err
			}
		}
		r.Boot, r.Instance, r.Uid = h.GetBoot(), h.GetInstance(), h.GetUid()
		r.Agent.Version, r.Agent.Root, r.Agent.SeenTime = h.GetVersion(), h.GetRoot(), timestamppb.New(now)
		return state.Agents.Put(tx, r)
	})
}

// ListAgents implements pb.AgentServiceServer.
func (s *agentServer) ListAgents(_ context.Context, r *pb.ListAgentsRequest) (*pb.ListAgentsResponse, error) {
	s.c.scheduler.mu.Lock()
	defer s.c.scheduler.mu.Unlock()
	var names []string
	for name := range s.c.scheduler.agents {
		if name > r.GetPageToken() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	out := &pb.ListAgentsResponse{}
	for _, name := range names[:min(len(names), state.PageSize(r.GetPageSize()))] {
		out.Agents = append(out.Agents, s.viewAgent(s.c.scheduler.agents[name]))
	}
	if len(out.Agents) < len(names) {
		out.NextPageToken = out.Agents[len(out.Agents)-1].GetName()
	}
	return out, nil
}

// viewAgent is an agent for callers. scheduler.mu is held.
func (s *agentServer) viewAgent(n *node) *pb.Agent {
	a := &pb.Agent{
		Name: n.name, Version: n.hello.GetVersion(), Address: n.address, BytesPerSecond: n.rate, Root: n.hello.GetRoot(),
		JoinTime: timestamppb.New(n.joined), SeenTime: timestamppb.New(n.seen),
	}
	for _, r := range n.hello.GetReaches() {
		if r.GetTier() != "" {
			a.Reaches = append(a.Reaches, r.GetTier())
		}
	}
	slices.Sort(a.Reaches)
	a.Lacks = s.lacks(n)
	for _, l := range s.c.scheduler.leads {
		if l.agent == n.name {
			a.Leads++
		}
		for _, b := range l.batches {
			if b.meta.GetState() == ledgerv1.BatchState_BATCH_STATE_TAKEN && b.meta.GetAgent() == n.name {
				a.Helps++
			}
		}
	}
	a.State = s.stateOf(n, int(a.Leads+a.Helps))
	return a
}

// lacks are the tiers of the configuration that an agent does not reach. scheduler.mu is held.
func (s *agentServer) lacks(n *node) (tiers []string) {
	for _, name := range slices.Sorted(maps.Keys(s.conf().Tiers)) {
		if !slices.ContainsFunc(n.hello.GetReaches(), func(r *agentv1.Reach) bool { return r.GetTier() == name }) {
			tiers = append(tiers, name)
		}
	}
	return tiers
}

// tellLacks tells an agent which tiers it does not reach. scheduler.mu is held.
func (s *agentServer) tellLacks(n *node) {
	if lacks := s.lacks(n); len(lacks) > 0 {
		s.c.scheduler.send(n.name, &agentv1.Order{What: &agentv1.Order_Lacks{Lacks: &agentv1.Lacks{Tiers: lacks}}})
	}
}

// stateOf is the state of an agent that has so much in hand. scheduler.mu is held.
func (s *agentServer) stateOf(n *node, inHand int) pb.AgentState {
	switch {
	case s.now().Sub(n.seen) > s.lease:
		return pb.AgentState_AGENT_STATE_LOST
	case (n.drain || n.leaving) && inHand > 0:
		return pb.AgentState_AGENT_STATE_DRAINING
	case n.drain || n.leaving:
		return pb.AgentState_AGENT_STATE_DRAINED
	}
	return pb.AgentState_AGENT_STATE_READY
}

// DrainAgent implements pb.AgentServiceServer.
func (s *agentServer) DrainAgent(ctx context.Context, r *pb.DrainAgentRequest) (*pb.Agent, error) {
	return s.drain(ctx, r.GetName(), true)
}

// UndrainAgent implements pb.AgentServiceServer.
func (s *agentServer) UndrainAgent(ctx context.Context, r *pb.UndrainAgentRequest) (*pb.Agent, error) {
	return s.drain(ctx, r.GetName(), false)
}

// errNoAgent is told of a name that no node has.
var errNoAgent = mover.Because(mover.ErrNotExist, "there is no such agent")

func (s *agentServer) drain(ctx context.Context, name string, on bool) (*pb.Agent, error) {
	err := s.ledger.Update(ctx, state.Durable, func(tx *state.Tx) error {
		r, err := state.Agents.Get(tx, name)
		if err != nil {
			return err
		}
		r.Draining = on
		return state.Agents.Put(tx, r)
	})
	op := "undrain"
	if on {
		op = "drain"
	}
	unknown := &mover.Error{Op: op, Location: "agent " + mover.Printable(name), Err: errNoAgent}
	if errors.Is(err, mover.ErrNotExist) || strings.ContainsRune(name, 0) {
		err = unknown
	}
	if err != nil {
		return nil, err
	}
	defer s.c.hurry()
	s.c.scheduler.mu.Lock()
	defer s.c.scheduler.mu.Unlock()
	n := s.c.scheduler.agents[name]
	if n == nil {
		return nil, unknown
	}
	n.drain = on
	return s.viewAgent(n), nil
}

// CreateJoinToken implements pb.AgentServiceServer.
func (s *agentServer) CreateJoinToken(ctx context.Context, r *pb.CreateJoinTokenRequest) (*pb.CreateJoinTokenResponse, error) {
	return s.c.enroll.CreateJoinToken(ctx, r)
}
