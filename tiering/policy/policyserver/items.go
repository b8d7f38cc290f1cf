package policyserver

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/catalog/query"
	"datamove.dev/tiering/policy"
)

// ReadItems implements agentv1.LinkServiceServer. What is not true any more is not sent: the policy of the plan is asked once more, about what is known now.
func (s *Server) ReadItems(r *agentv1.ReadItemsRequest, out grpc.ServerStreamingServer[agentv1.ReadItemsResponse]) error {
	t, err := s.c.Assigned(out.Context(), r.GetTask(), r.GetEpoch())
	spec := t.GetSpec()
	switch {
	case err != nil:
		return err
	case spec.GetTiering() == nil:
		return mover.Usagef("task %s does nothing for a run", r.GetTask())
	}
	f, err := s.openPlan(spec.GetTiering().GetRun())
	if err != nil {
		return err
	}
	defer f.Close()
	still := func(*pb.PlanItem) (bool, error) { return true, nil }
	if !undoes(spec) {
		if still, err = s.still(f.Plan); err != nil {
			return err
		}
	}
	m, at, end := &agentv1.ReadItemsResponse{}, int64(0), spec.GetTiering().GetFirst()+spec.GetTiering().GetCount()
	for item, err := range f.Items() {
		if err != nil {
			return err
		}
		if at++; at <= spec.GetTiering().GetFirst() {
			continue
		}
		if at > end {
			break
		}
		true_, err := still(item)
		if err != nil {
			return err
		}
		if !true_ {
			m.Held++
			continue
		}
		if m.Items = append(m.Items, item); len(m.Items) < filesAtOnce {
			continue
		}
		if err := out.Send(m); err != nil {
			return err
		}
		m = &agentv1.ReadItemsResponse{Held: m.GetHeld()}
	}
	return out.Send(m)
}

// still makes a function that says whether the policy of a plan still selects an item as it did.
func (s *Server) still(plan *pb.Plan) (func(*pb.PlanItem) (bool, error), error) {
	programs, err := policy.Read("plan", []byte(plan.GetPolicyText()))
	if err != nil {
		return nil, err
	}
	judge, grounds := programs[0].Judge(s.now(), s.o.People), map[catalog.Tree]query.FactSource{}
	return func(item *pb.PlanItem) (bool, error) {
		tree := catalog.Tree{Tier: item.GetTier(), Node: item.GetNode()}
		if grounds[tree] == nil {
			g, err := s.o.Datasets.Tree(tree)
			if err != nil {
				return false, err
			}
			grounds[tree] = g.Ground()
		}
		file, err := s.o.Catalog.Get(tree, string(item.GetName()))
		if errors.Is(err, mover.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		v := judge.Decide(&file, grounds[tree].At(&file))
		return v.Rule == int(item.GetRuleIndex()) && v.Held == "" && v.Err == nil, nil
	}, nil
}

// EndKept removes what runs have kept for as long as they had to.
func (s *Server) EndKept(ctx context.Context) error {
	var due []*pb.Run
	err := s.ledger.View(func(tx *state.Tx) error {
		for r, err := range state.Runs.All(tx, state.Range{}) {
			if err != nil {
				return err
			}
			if len(r.GetPlaces()) > 0 && r.GetState() != pb.RunState_RUN_STATE_UNDOING && s.now().After(r.GetKeptUntil().AsTime()) {
				due = append(due, r)
			}
		}
		return nil
	})
	for _, r := range due {
		err = errors.Join(err, s.endKeptOf(ctx, r))
	}
	return err
}

// endKeptOf has what a run has kept removed, in one place after the other.
func (s *Server) endKeptOf(ctx context.Context, r *pb.Run) error {
	var t *pb.Task
	err := s.ledger.Update(ctx, state.Durable, func(tx *state.Tx) error {
		one, err := state.Runs.Get(tx, r.GetId())
		if err != nil || len(one.GetPlaces()) == 0 {
			return mover.IgnoreNotExist(err)
		}
		at := one.GetPlaces()[0]
		one.Places = one.GetPlaces()[1:]
		spec := removeSpec(at.GetTier() + ":" + keptIn(one.GetId()))
		spec.Node, spec.Class, spec.Labels = at.GetNode(), pb.TaskClass_TASK_CLASS_TIER, map[string]string{runLabel: one.GetId(), policyLabel: one.GetPolicy()}
		t = s.c.NewTask(spec)
		if err := state.Tasks.Put(tx, t); err != nil {
			return err
		}
		return state.Runs.Put(tx, one)
	})
	if err == nil {
		s.c.Submitted(ctx, t)
	}
	return err
}
