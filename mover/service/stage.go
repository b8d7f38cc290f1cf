package service

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/access"
	"datamove.dev/mover/ledger"
	"datamove.dev/mover/location"
	"datamove.dev/mover/task"
	"datamove.dev/mover/telemetry"
	"datamove.dev/mover/wire"
	"datamove.dev/tiering"
)

// order is what a caller of Stage wants.
type order struct {
	caller access.Caller
	trace  string // that it is part of; "" is none
	source location.Location
	tier   string
	node   string // of a node-local tier, else ""
	at     string // the node whose paths are meant
	ttl    time.Duration
	holder string
	pin    *timestamppb.Timestamp
	lease  string // id of the lease, if one is wanted
	key    string
	asked  *pb.TaskSpec // the request, for whoever sends it again
	agents []*pb.Agent  // that could do it
}

// Stage implements pb.DatasetServiceServer.
func (s *Service) Stage(ctx context.Context, r *pb.StageRequest) (*pb.StageResponse, error) {
	o, err := s.order(ctx, r)
	if err != nil {
		return nil, err
	}
	out, made := &pb.StageResponse{}, false
	err = s.ledger.Update(ctx, ledger.Durable, func(tx *ledger.Tx) (err error) {
		out, made = &pb.StageResponse{}, false
		now, err := s.moment(tx)
		if err == nil {
			made, err = s.stage(tx, o, out, now)
		}
		if err == nil {
			out.Replica, err = shown(tx, out.Replica, now)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if made {
		s.submitted(ctx, out.GetTask())
	}
	if t := out.GetTask(); t != nil {
		out.Task, err = s.task(t.GetId())
	}
	return out, err
}

// order reads a request.
func (s *Service) order(ctx context.Context, r *pb.StageRequest) (*order, error) {
	c := access.From(ctx)
	o := &order{caller: c, pin: r.GetPinUntil(), key: r.GetIdempotencyKey(), trace: telemetry.Inject(ctx), tier: r.GetTier()}
	if d := s.rules().MayOn(c, access.OfKind(pb.TaskKind_TASK_KIND_STAGE), access.Owner{}); !d.Allowed {
		return nil, d.Err()
	}
	var err error
	if o.source, err = wire.Locate(r.GetSource()); err != nil {
		return nil, err
	}
	if o.source.Scheme == location.Dataset && !tiering.ValidDataset(o.source.Name) || len(o.key) > maxKey {
		return nil, usage("%s is no dataset, or the idempotency key has more than %d letters", mover.Printable(r.GetSource()), maxKey)
	}
	if o.holder, err = holderOf(r.GetHolder(), c); err != nil {
		return nil, err
	}
	if r.GetLeaseTtl() != nil && r.GetLeaseTtl().AsDuration() != 0 {
		if o.ttl, err = tiering.TTL(r.GetLeaseTtl()); err != nil {
			return nil, err
		}
	}
	if o.pin != nil && o.source.Scheme != location.Dataset {
		return nil, usage("only a dataset can be pinned: datamove dataset add")
	}
	o.lease = leaseID(c, o.key, s.now())
	s.mu.Lock()
	o.agents = s.readyAgents(accountOf(c))
	s.mu.Unlock()
	if err := s.aim(o, r.GetNode()); err != nil {
		return nil, err
	}
	o.asked = &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_STAGE, Source: r.GetSource(), Target: r.GetTier(), Node: r.GetNode(), Class: r.GetClass(), Project: r.GetProject(),
		Staging: &pb.Staging{LeaseTtl: r.GetLeaseTtl(), PinUntil: r.GetPinUntil(), Holder: r.GetHolder()}}
	return o, nil
}

// readyAgents are the agents that could act for an account, as the rules see them.
// Service.mu is held.
func (s *Service) readyAgents(owner *pb.Account) (ready []*pb.Agent) {
	for _, n := range s.agents {
		if !n.ready() || !n.hello.GetRoot() && n.hello.GetUid() != owner.GetUid() {
			continue
		}
		a := &pb.Agent{Name: n.name, State: pb.AgentState_AGENT_STATE_READY}
		for _, r := range n.hello.GetReaches() {
			a.Reaches = append(a.Reaches, cmp.Or(r.GetTier(), "/"))
		}
		ready = append(ready, a)
	}
	return ready
}

// aim finds out which tier and node are meant: without a tier the hottest one that
// the agent on the node has.
func (s *Service) aim(o *order, node string) error {
	o.at = cmp.Or(node, s.here(o.caller))
	if o.tier == "" {
		if o.tier = s.hottest(o.agents, o.at); o.tier == "" {
			return &mover.Error{Op: "stage", Place: o.source.String(), Err: fmt.Errorf("%w: no agent on %s reaches a tier; say which one is meant", mover.ErrNotExist, mover.Printable(o.at))}
		}
	}
	t, known := s.conf().Tiers[o.tier]
	if !known {
		return s.noTier("stage", o.tier)
	}
	if t.NodeLocal {
		o.node = o.at
	}
	return nil
}

// levels orders tiers, the hottest first.
var levels = map[string]int{"hot": 1, "warm": 2, "cold": 3}

func (s *Service) hottest(agents []*pb.Agent, node string) (best string) {
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

// stage decides what is to be done, and records it. made says that a task was.
func (s *Service) stage(tx *ledger.Tx, o *order, out *pb.StageResponse, now time.Time) (made bool, err error) {
	if o.pin != nil {
		if err := s.mayPin(tx, o, now); err != nil {
			return false, err
		}
	}
	want, err := s.slot(tx, o, now)
	if err != nil {
		return false, err
	}
	same, err := before(tx, o.caller, o.key, o.asked)
	if err != nil {
		return false, err
	}
	was, err := getReplica(tx, want)
	if ignoreGone(err) != nil {
		return false, err
	}
	if err != nil {
		was = nil
	}
	if same != nil {
		return false, s.again(tx, o, same, cmp.Or(was, want), out)
	}
	if was == nil {
		if err := s.remember(tx, want); err != nil {
			return false, err
		}
	}
	switch {
	case was == nil:
	case was.GetState() == removing:
		return false, &mover.Error{Op: "stage", Place: was.GetLocation(), Err: fmt.Errorf("%w: it is just being removed (task %s); stage it again when that is done", mover.ErrConflict, was.GetTask())}
	case live(tx, was.GetTask()):
		return false, s.join(tx, o, was, out)
	case was.GetState() == whole && was.GetDataset() != "" && !doubtful(was):
		return false, s.grant(tx, o, was, out, now)
	}
	return s.begins(tx, o, cmp.Or(was, want), out, now)
}

// doubtful says of a replica that this service has made that nobody knows any more what it
// is. To stage it again mends it.
func doubtful(r *pb.Replica) bool { return managed(r) && r.GetLevel() == pb.Level_LEVEL_UNSPECIFIED }

// mayPin checks that the caller may keep the dataset.
func (s *Service) mayPin(tx *ledger.Tx, o *order, now time.Time) error {
	if err := pinUntil(o.pin, now); err != nil {
		return err
	}
	_, err := s.ownDataset(tx, o.caller, pb.DatasetService_Pin_FullMethodName, o.source.Name)
	return err
}

// slot is the replica that is wanted, as it will be recorded.
func (s *Service) slot(tx *ledger.Tx, o *order, now time.Time) (*pb.Replica, error) {
	if o.source.Scheme == location.Dataset {
		v, err := findVersion(tx, "stage", o.source.Name, o.source.Digest)
		if err != nil {
			return nil, err
		}
		o.source.Digest = v.GetVersion().GetDigest()
	}
	v, err := s.viewOf(tx, now, o.source.Name, o.source.Digest)
	if err != nil {
		return nil, err
	}
	target, err := v.StageTarget(o.source, o.at, o.tier)
	if err != nil {
		return nil, err
	}
	return &pb.Replica{Dataset: o.source.Name, Digest: o.source.Digest, Tier: o.tier, Node: o.node, Location: target.String()}, nil
}

// again answers a request that was answered before.
func (s *Service) again(tx *ledger.Tx, o *order, t *pb.Task, r *pb.Replica, out *pb.StageResponse) error {
	out.Replica, out.Task = r, t
	if task.Ended(t.GetState()) && r.GetState() == whole {
		out.Task = nil
	}
	l, err := ledger.Leases.Get(tx, o.lease)
	if err == nil {
		out.Lease = l
	}
	return ignoreGone(err)
}

// grant gives the caller a hold on what is there.
func (s *Service) grant(tx *ledger.Tx, o *order, r *pb.Replica, out *pb.StageResponse, now time.Time) error {
	out.Replica = r
	if err := s.mayRead(tx, o.caller, o.asked.GetProject(), r); err != nil {
		return err
	}
	if err := s.keep(tx, o.caller, o.key, o.asked); err != nil {
		return err
	}
	if o.pin != nil {
		if err := s.putPin(tx, o.caller, o.pinOn(r), now); err != nil {
			return err
		}
	}
	if o.ttl == 0 {
		return nil
	}
	var err error
	if out.Lease, err = lasting(tx, o.lease, r, now); out.Lease != nil || err != nil { // of the same request, before
		return err
	}
	if err := s.mayLease(tx, now, r); err != nil {
		return err
	}
	out.Lease = newLease(o.lease, r, o.holder, accountOf(o.caller), now, o.ttl)
	return s.putLease(tx, out.Lease)
}

func (o *order) pinOn(r *pb.Replica) *pb.PinInfo {
	return &pb.PinInfo{Dataset: r.GetDataset(), Digest: r.GetDigest(), Tier: r.GetTier(), Until: o.pin, Reason: "staged", Owner: accountOf(o.caller)}
}

// join has the caller wait for a staging that is under way.
func (s *Service) join(tx *ledger.Tx, o *order, r *pb.Replica, out *pb.StageResponse) (err error) {
	if err := s.mayRead(tx, o.caller, o.asked.GetProject(), r); err != nil {
		return err
	}
	if out.Task, err = ledger.Tasks.Get(tx, r.GetTask()); err != nil {
		return err
	}
	out.Replica = r
	if o.key != "" {
		k := &ledgerv1.Key{Caller: ledger.User(accountOf(o.caller)), Key: o.key, Task: r.GetTask(), SpecDigest: digest(o.asked), CreateTime: timestamppb.New(s.now())}
		if err := ledger.Keys.Put(tx, k); err != nil {
			return err
		}
	}
	return s.wish(tx, o, r)
}

// wish remembers what the caller wants as soon as the replica is whole.
func (s *Service) wish(tx *ledger.Tx, o *order, r *pb.Replica) error {
	if _, err := lasting(tx, o.lease, r, s.clock.now()); err != nil {
		return err
	}
	w := &ledgerv1.Wish{Task: r.GetTask()}
	w.Lease = newLease(o.lease, r, o.holder, accountOf(o.caller), s.now(), 0)
	w.Lease.ExpireTime = nil
	if o.ttl > 0 {
		w.Ttl = durationpb.New(o.ttl)
	}
	if o.pin != nil {
		w.Pin = o.pinOn(r)
	}
	wishes, err := all(ledger.Wishes.All(tx, ledger.Range{Prefix: []string{r.GetTask()}}))
	if err == nil && len(wishes) >= leasesMost {
		err = &mover.Error{Op: "stage", Place: r.GetLocation(), Err: fmt.Errorf("%w: %d wait for it already", mover.ErrRefused, len(wishes))}
	}
	if err != nil {
		return err
	}
	return ledger.Wishes.Put(tx, w)
}

// begins makes the task that brings the replica, and records that it is on its way.
func (s *Service) begins(tx *ledger.Tx, o *order, r *pb.Replica, out *pb.StageResponse, now time.Time) (bool, error) {
	source, err := s.from(tx, o, r, now)
	if err != nil {
		return false, err
	}
	spec := &pb.TaskSpec{
		Kind: pb.TaskKind_TASK_KIND_STAGE, Source: source.GetLocation(), Target: r.GetLocation(), Class: o.asked.GetClass(), Project: o.asked.GetProject(),
		Node: cmp.Or(r.GetNode(), source.GetNode()), Options: s.stageOptions(r.GetTier()),
		Staging: &pb.Staging{Dataset: r.GetDataset(), Tier: r.GetTier(), LeaseTtl: o.asked.GetStaging().GetLeaseTtl(), PinUntil: o.pin, Holder: o.holder},
	}
	spec, _, err = s.admit(o.caller, spec)
	if err != nil {
		return false, err
	}
	t := s.newTask(o.caller, spec)
	t.IdempotencyKey, t.TraceParent = o.key, o.trace
	if r.GetDataset() != "" {
		t.Dataset = tag(r.GetDataset(), r.GetDigest())
		if err := s.holdFor(tx, t, source, now); err != nil {
			return false, err
		}
	}
	if r.GetState() != whole {
		r.State, r.Owner = staging, accountOf(o.caller)
	}
	r.Task = t.GetId()
	if err := s.putReplica(tx, r); err != nil {
		return false, err
	}
	if err := s.claim(tx, t, o.asked, o.key); err != nil {
		return false, err
	}
	out.Task, out.Replica = t, r
	return true, s.wish(tx, o, r)
}

// from is what a replica is made of.
func (s *Service) from(tx *ledger.Tx, o *order, r *pb.Replica, now time.Time) (*pb.Replica, error) {
	if r.GetDataset() == "" {
		if err := s.unoccupied(tx, r, now); err != nil {
			return nil, err
		}
		return spot(o.source, o.at, s.conf())
	}
	v, err := s.viewOf(tx, now, r.GetDataset(), r.GetDigest())
	if err != nil {
		return nil, err
	}
	return v.PickSource(tiering.Slot{Dataset: r.GetDataset(), Digest: r.GetDigest(), Tier: r.GetTier(), Node: r.GetNode()}, o.agents)
}

// unoccupied says why nothing may be staged to where other replicas are.
func (s *Service) unoccupied(tx *ledger.Tx, r *pb.Replica, now time.Time) error {
	v, err := s.viewAt(tx, now, r.GetLocation(), r.GetNode())
	if err != nil {
		return err
	}
	l, err := location.Parse(r.GetLocation())
	if err != nil {
		return err
	}
	there, err := v.Overlapping(l, r.GetNode())
	for _, other := range there {
		if !slices.Equal(ledger.ReplicaKey(other), ledger.ReplicaKey(r)) {
			return &mover.Error{Op: "stage", Place: r.GetLocation(), Err: fmt.Errorf("%w: %s is there, a replica of dataset %s", mover.ErrConflict,
				mover.Printable(other.GetLocation()), mover.Printable(firstOf(other.GetDataset(), "that has no name")))}
		}
	}
	return err
}

// mayFollow says whether somebody else's task may be looked at: one that brings a
// dataset to where others wait for it, too.
func (s *Service) mayFollow(ctx context.Context, method string, t *pb.Task) bool {
	if t.GetSpec().GetKind() != pb.TaskKind_TASK_KIND_STAGE || t.GetDataset() == "" || access.OfMethod(method).Action != "task.read" {
		return false
	}
	return s.rules().MayOn(access.From(ctx), access.OfMethod(pb.DatasetService_ListReplicas_FullMethodName), access.Owner{}).Allowed
}

// stageOptions are how a replica is made: where it is to count as a copy that can be relied on,
// it is read again past the cache. From a store it is read in any case.
func (s *Service) stageOptions(tier string) *pb.Options {
	if t := s.conf().Tiers[tier]; !t.Ephemeral && t.S3 == nil {
		return &pb.Options{Verify: pb.Level_LEVEL_READ}
	}
	return nil
}
