package coordinator

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/idempotency"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/server/pki"
)

// ForgetAgent implements pb.AgentServiceServer. What is not believed any more is stored
// first; from then on the node begins nothing, and what it has is taken from it.
func (s *agentServer) ForgetAgent(ctx context.Context, r *pb.ForgetAgentRequest) (*pb.ForgetAgentResponse, error) {
	name, key := r.GetName(), r.GetIdempotencyKey()
	if err := idempotency.Check(key); err != nil {
		return nil, err
	}
	if strings.ContainsRune(name, 0) {
		return nil, forgetting(name, errNoAgent)
	}
	dropped, again, err := s.forgetAgent(ctx, r)
	if err != nil || again {
		return dropped, err
	}
	ctx = context.WithoutCancel(ctx) // the rest has to follow
	s.expel(ctx, name)
	if dropped.Tasks = s.c.scheduler.endBound(ctx, name); dropped.GetTasks() > 0 {
		err = s.ledger.Update(ctx, state.Soon, func(tx *state.Tx) error {
			f, err := state.Forgotten.Get(tx, name)
			if err != nil {
				return mover.IgnoreNotExist(err)
			}
			f.Dropped = dropped
			return state.Forgotten.Put(tx, f)
		})
	}
	err = errors.Join(err, s.c.enroll.KeepForgotten())
	s.log.Info("an agent was forgotten", "agent", name, "replicas", dropped.GetReplicas(), "bytes", dropped.GetReplicaBytes(),
		"leases", dropped.GetLeases(), "tasks", dropped.GetTasks())
	return dropped, err
}

func forgetting(name string, why error) error {
	return &mover.Error{Op: "forget", Location: "agent " + mover.Printable(name), Err: why}
}

// mayExpel says why an agent can not be forgotten now.
func (s *agentServer) mayExpel(r *pb.ForgetAgentRequest) error {
	s.c.scheduler.mu.Lock()
	defer s.c.scheduler.mu.Unlock()
	n := s.c.scheduler.agents[r.GetName()]
	switch {
	case n == nil || n.orders == nil:
	case r.GetName() == s.o.Node:
		return forgetting(r.GetName(), mover.Because(mover.ErrConflict, "it is the coordinator's own, which has no certificate and would be there again at once; datamoved --no-agent runs without it"))
	case !r.GetRevoke():
		return forgetting(r.GetName(), mover.Because(mover.ErrHeld, "it is connected; stop datamoved there, or refuse it from now on, with all that it does (--revoke)"))
	}
	return nil
}

// forgetAgent changes the ledger. again says that it has been done under this key.
func (s *agentServer) forgetAgent(ctx context.Context, r *pb.ForgetAgentRequest) (dropped *pb.ForgetAgentResponse, again bool, err error) {
	look := func(tx *state.Tx) error {
		if dropped, again, err = s.forgotten(tx, authz.From(ctx), r); err != nil || again {
			return err
		}
		_, err := state.Agents.Get(tx, r.GetName())
		return err
	}
	if err = s.ledger.View(look); err == nil && !again {
		err = s.mayExpel(r)
	}
	sum := &pb.ForgetAgentResponse{}
	for more := true; more && err == nil && !again; {
		err = s.ledger.Update(ctx, state.Durable, func(tx *state.Tx) (err error) {
			if err = look(tx); err != nil || again {
				return err
			}
			if more, err = s.c.datasets.ForgetNode(tx, r.GetName(), sum); err != nil || more {
				return err
			}
			return errors.Join(s.distrust(tx, r, sum), idempotency.Remember(tx, s.c, authz.From(ctx), r.GetIdempotencyKey(), askedToForget(r), s.now()))
		})
	}
	switch {
	case errors.Is(err, mover.ErrNotExist):
		return nil, false, forgetting(r.GetName(), errNoAgent)
	case err != nil, again:
		return dropped, again, err
	}
	return sum, false, nil
}

// askedToForget is a request in the words of those that make tasks, for its key.
func askedToForget(r *pb.ForgetAgentRequest) *pb.TaskSpec {
	return &pb.TaskSpec{Node: r.GetName(), Options: &pb.Options{Again: r.GetRevoke()}}
}

// forgotten returns what went with a node when the same was asked for before.
func (s *agentServer) forgotten(tx *state.Tx, c authz.Caller, r *pb.ForgetAgentRequest) (dropped *pb.ForgetAgentResponse, again bool, err error) {
	if again, err = idempotency.Known(tx, c, r.GetIdempotencyKey(), askedToForget(r)); err != nil || !again {
		return nil, false, err
	}
	f, err := state.Forgotten.Get(tx, r.GetName())
	if dropped = f.GetDropped(); dropped == nil {
		dropped = &pb.ForgetAgentResponse{}
	}
	return dropped, true, mover.IgnoreNotExist(err)
}

// distrust deletes the record of a node and the tokens that it could join with, and has
// its certificates refused.
func (s *agentServer) distrust(tx *state.Tx, r *pb.ForgetAgentRequest, dropped *pb.ForgetAgentResponse) error {
	name := r.GetName()
	tokens, err := state.Collect(state.JoinTokens.All(tx, state.Range{}))
	if err != nil {
		return err
	}
	for _, t := range tokens {
		if t.GetName() != name {
			continue
		}
		if err := state.JoinTokens.Delete(tx, hex.EncodeToString(t.GetDigest())); err != nil {
			return err
		}
	}
	now := s.now()
	return errors.Join(state.Agents.Delete(tx, name), state.Forgotten.Put(tx, &ledgerv1.Forgotten{
		Name: name, ForgetTime: timestamppb.New(now), ExpireTime: timestamppb.New(now.Add(pki.AgentLife)), Dropped: proto.CloneOf(dropped), Revoked: r.GetRevoke(),
	}))
}

// expel ends the conversation with an agent, and takes from it what it has.
func (s *agentServer) expel(ctx context.Context, name string) {
	var lost []*lead
	s.c.scheduler.mu.Lock()
	if n := s.c.scheduler.agents[name]; n != nil && n.orders != nil {
		n.end()
		n.orders = nil
	}
	delete(s.c.scheduler.agents, name)
	for _, l := range s.c.scheduler.leads {
		if l.agent == name {
			lost = append(lost, l)
		}
		for _, b := range l.batches {
			if b.meta.GetState() == ledgerv1.BatchState_BATCH_STATE_TAKEN && b.meta.GetAgent() == name {
				s.c.scheduler.takeBack(ctx, l, b)
			}
		}
	}
	s.c.scheduler.mu.Unlock()
	for _, l := range lost {
		s.c.scheduler.lose(ctx, l, "agent "+name+" was forgotten")
	}
}
