package datasetserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/idempotency"
	"datamove.dev/mover/coordinator/placement"
	"datamove.dev/mover/location"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task/convert"
	"datamove.dev/mover/telemetry"
	"datamove.dev/tiering/dataset"
)

// order is what a caller of Stage wants.
type order struct {
	caller authz.Caller
	trace  string // that it is part of; "" is none
	source location.Location
	tier   string
	node   string // of a node-local tier, else ""
	at     string // the node of its paths
	ttl    time.Duration
	holder string
	pin    *timestamppb.Timestamp
	lease  string // id of the lease, if one is wanted
	key    string
	asked  *pb.TaskSpec // the request, to compare with one that is sent again
	agents []*pb.Agent  // that could do it

	resumes bool // a staging that was paused goes on for it
}

// order reads a request.
func (s *Server) order(ctx context.Context, r *pb.StageRequest) (*order, error) {
	c := authz.From(ctx)
	o := &order{caller: c, pin: r.GetPinUntil(), key: r.GetIdempotencyKey(), trace: telemetry.Inject(ctx), tier: r.GetTier()}
	if d := s.rules().MayOn(c, authz.OfMethod(pb.DatasetService_Stage_FullMethodName), authz.Owner{}); !d.Allowed {
		return nil, d.Err()
	}
	var err error
	if o.source, err = convert.Locate(r.GetSource()); err != nil {
		return nil, err
	}
	if o.source.IsDataset() && !dataset.ValidDataset(o.source.Name) || len(o.key) > idempotency.KeyMost {
		return nil, mover.Usagef("%s is no dataset, or the idempotency key has more than %d letters", mover.Printable(r.GetSource()), idempotency.KeyMost)
	}
	if o.holder, err = holderOf(r.GetHolder(), c); err != nil {
		return nil, err
	}
	if r.GetLeaseTtl() != nil && r.GetLeaseTtl().AsDuration() != 0 {
		if o.ttl, err = dataset.TTL(r.GetLeaseTtl()); err != nil {
			return nil, err
		}
	}
	if o.pin != nil && !o.source.IsDataset() {
		return nil, mover.Usagef("only a dataset can be pinned: datamove dataset add")
	}
	if err := errors.Join(convert.CheckLabels(r.GetLabels()), s.checkLabels(c, r.GetLabels())); err != nil {
		return nil, err
	}
	o.lease = idempotency.ID(c, o.key, s.now())
	o.agents = s.c.ReadyAgents(authz.AccountOf(c))
	if err := s.aim(o, r.GetNode()); err != nil {
		return nil, err
	}
	o.asked = stageSpec(r.GetSource(), r.GetTier())
	o.asked.Node, o.asked.Class, o.asked.Project, o.asked.Labels = r.GetNode(), r.GetClass(), r.GetProject(), r.GetLabels()
	o.asked.Staging = &pb.Staging{LeaseTtl: r.GetLeaseTtl(), PinUntil: r.GetPinUntil(), Holder: r.GetHolder()}
	return o, nil
}

func (o *order) pinOn(r *pb.Replica) *pb.PinInfo {
	return &pb.PinInfo{Dataset: r.GetDataset(), Digest: r.GetDigest(), Tier: r.GetTier(), Until: o.pin, Reason: "staged", Owner: authz.AccountOf(o.caller)}
}

// aim finds out which tier and node are meant: without a tier the hottest one that
// the agent on the node has.
func (s *Server) aim(o *order, node string) error {
	o.at = cmp.Or(node, s.here(o.caller))
	if o.tier == "" {
		if o.tier = s.hottest(o.agents, o.at); o.tier == "" {
			return &mover.Error{Op: "stage", Location: o.source.String(), Err: fmt.Errorf("%w: no agent on %s reaches a tier; say which one is meant", mover.ErrNotExist, mover.Printable(o.at))}
		}
	}
	t, known := s.conf().Tiers[o.tier]
	if !known {
		return placement.NoTier("stage", o.tier, s.conf())
	}
	if t.NodeLocal {
		o.node = o.at
	}
	return nil
}

// levels orders tiers, the hottest first.
var levels = map[string]int{"hot": 1, "warm": 2, "cold": 3}

func (s *Server) hottest(agents []*pb.Agent, node string) (best string) {
	i := slices.IndexFunc(agents, func(a *pb.Agent) bool { return a.GetName() == node })
	if i < 0 {
		return ""
	}
	tiers := s.conf().Tiers
	for _, name := range agents[i].GetReaches() {
		t, known := tiers[name]
		if known && (best == "" || levels[t.Level] < levels[tiers[best].Level] || t.Level == tiers[best].Level && name < best) {
			best = name
		}
	}
	return best
}
