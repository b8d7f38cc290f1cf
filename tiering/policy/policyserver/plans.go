package policyserver

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
	"datamove.dev/tiering/catalog/query"
	"datamove.dev/tiering/policy"
	"datamove.dev/tiering/policy/run"
)

// planKept is how long a plan that was not run is kept; the plan of a run stays as long as the run.
const planKept = 7 * day

// plans is where plans lie, by their ids.
func (s *Server) plans() string { return filepath.Join(s.o.Data, "plans") }

func (s *Server) planFile(id string) string { return filepath.Join(s.plans(), id) }

// PlanPolicy implements pb.PolicyServiceServer.
func (s *Server) PlanPolicy(ctx context.Context, r *pb.PlanPolicyRequest) (*pb.Plan, error) {
	p, err := s.program(r.GetPolicy(), r.GetText())
	if err != nil {
		return nil, err
	}
	return s.plan(ctx, p)
}

// plan makes the plan of a policy, and keeps it.
func (s *Server) plan(ctx context.Context, p *policy.Program) (*pb.Plan, error) {
	areas, err := s.areas(p)
	if err != nil {
		return nil, err
	}
	oldest, err := s.stalest(areas)
	if err != nil {
		return nil, err
	}
	now := s.now()
	plan, err := s.reader().Plan(ctx, p, areas, now, nil)
	if err != nil {
		return nil, err
	}
	head := headOf(p, plan)
	head.Id, head.Time, head.FactsTime = task.NewID(now), timestamppb.New(now), timestamppb.New(oldest)
	head.Stale = now.Sub(oldest) > staleness(p)
	head.Owners = s.ownersOf(plan)
	return head, s.keepPlan(p, plan, areas, head)
}

// headOf sums a plan.
func headOf(p *policy.Program, plan *policy.Plan) *pb.Plan {
	all, gone := plan.Total(p)
	head := &pb.Plan{Policy: string(p.Policy.Metadata.Name), PolicyDigest: p.Policy.Digest(), PolicyText: p.Policy.Text, Mode: modeOf(p), Scope: totals(plan.Scope),
		Total: totals(all), Removes: totals(gone), Errors: plan.Fails}
	for i, tally := range plan.Rules {
		rule := &p.Policy.Spec.Rules[i]
		head.Rules = append(head.Rules, &pb.RuleTotals{Rule: string(rule.Name), Action: string(rule.Action.Type), Matched: totals(tally), Kept: totals(plan.Kept[i])})
	}
	head.Notes = plan.Notes
	for _, left := range plan.Left {
		head.Left = append(head.Left, &pb.Reason{Why: left.Why, Total: totals(left.Tally)})
	}
	if plan.Err != nil {
		head.Error = plan.Err.Error()
	}
	return head
}

func totals(t policy.Tally) *pb.RunTotals { return &pb.RunTotals{Files: t.Files, Bytes: t.Bytes} }

// ownersMost are named in the head of a plan.
const ownersMost = 20

// ownersOf returns the owners with the most bytes in a plan, at most ownersMost.
func (s *Server) ownersOf(plan *policy.Plan) (owners []*pb.OwnerTotals) {
	sums := map[uint32]*policy.Tally{}
	for i := range plan.Items {
		item := &plan.Items[i]
		if !item.Known.Has(mover.FactOwner) {
			continue
		}
		sum := sums[item.UID]
		if sum == nil {
			sum = &policy.Tally{}
			sums[item.UID] = sum
		}
		sum.Files, sum.Bytes = sum.Files+1, sum.Bytes+item.Size
	}
	uids := []uint32{}
	for uid := range sums {
		uids = append(uids, uid)
	}
	slices.SortFunc(uids, func(a, b uint32) int {
		return cmp.Or(cmp.Compare(sums[b].Bytes, sums[a].Bytes), cmp.Compare(sums[b].Files, sums[a].Files), cmp.Compare(a, b))
	})
	for _, uid := range uids[:min(len(uids), ownersMost)] {
		name := ""
		if s.o.People != nil {
			name, _ = s.o.People.User(uid) // else a number
		}
		owners = append(owners, &pb.OwnerTotals{Owner: cmp.Or(strings.ToValidUTF8(name, "�"), strconv.FormatUint(uint64(uid), 10)), Total: totals(*sums[uid])})
	}
	return owners
}

// keepPlan writes a plan down: a rule after the other, each in its order.
func (s *Server) keepPlan(p *policy.Program, plan *policy.Plan, areas []query.Area, head *pb.Plan) (err error) {
	if err := os.MkdirAll(s.plans(), 0o700); err != nil {
		return err
	}
	w, err := run.Create(s.planFile(head.GetId()))
	if err != nil {
		return mover.OfFullDisk(err)
	}
	judges := map[int]*teller{}
	slices.SortStableFunc(plan.Items, func(a, b policy.Item) int {
		return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(areas[a.Area].Tree.Tier, areas[b.Area].Tree.Tier), cmp.Compare(areas[a.Area].Tree.Node, areas[b.Area].Tree.Node))
	})
	for i := range plan.Items {
		item := &plan.Items[i]
		if judges[item.Area] == nil {
			judges[item.Area] = &teller{p.Judge(head.GetTime().AsTime(), s.o.People), areas[item.Area].Ground()}
		}
		action := &p.Policy.Spec.Rules[item.Rule].Action
		reason, whole, targets := judges[item.Area].reason(item, action)
		for _, target := range targets {
			if err := w.Add(run.ItemOf(p, item, areas[item.Area].Tree, target, reason, whole)); err != nil {
				return mover.OfFullDisk(errors.Join(err, w.Close(nil)))
			}
		}
	}
	return mover.OfFullDisk(w.Close(head))
}

// teller tells why something is to be done to items of one area.
type teller struct {
	judge  *policy.Judge
	ground query.FactSource
}

// reason is why, what the item is a part of that goes as one, and where it is copied to.
func (t *teller) reason(item *policy.Item, a *policy.Action) (why, whole string, targets []string) {
	at := t.ground.At(&item.File)
	return strings.ToValidUTF8(t.judge.Reason(&item.File, at, policy.Verdict{Rule: item.Rule}), "�"), run.WholeOf(a, at), run.Targets(a, at)
}

// GetPlan implements pb.PolicyServiceServer.
func (s *Server) GetPlan(r *pb.GetPlanRequest, out grpc.ServerStreamingServer[pb.GetPlanResponse]) error {
	f, err := s.openPlan(r.GetId())
	if err != nil {
		return err
	}
	defer f.Close()
	owner := s.seesItems(authz.From(out.Context()))
	m := &pb.GetPlanResponse{Plan: f.Plan}
	if owner != nil {
		f.Plan.Owners = nil
	}
	for item, err := range f.Items() {
		if err != nil {
			return err
		}
		if owner != nil && (!mover.Facts(item.GetKnown()).Has(mover.FactOwner) || item.GetUid() != *owner) {
			continue
		}
		if m.Items = append(m.Items, item); len(m.Items) < filesAtOnce {
			continue
		}
		if err := out.Send(m); err != nil {
			return err
		}
		m = &pb.GetPlanResponse{}
	}
	return out.Send(m)
}

func (s *Server) openPlan(id string) (*run.File, error) {
	if !task.ValidID(id) {
		return nil, noPlan(id)
	}
	f, err := run.Open(s.planFile(id))
	if errors.Is(err, os.ErrNotExist) {
		return nil, noPlan(id)
	}
	return f, err
}

// SweepPlans removes plan files older than planKept that belong to no run and no announcement, finished or not.
func (s *Server) SweepPlans(context.Context) error {
	entries, err := os.ReadDir(s.plans())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	needed := map[string]bool{}
	err = s.ledger.View(func(tx *state.Tx) error {
		for r, err := range state.Runs.All(tx, state.Range{}) {
			if err != nil {
				return err
			}
			needed[r.GetId()] = true
		}
		for a, err := range state.Announcements.All(tx, state.Range{}) {
			if err != nil {
				return err
			}
			needed[a.GetPlan()] = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, ierr := e.Info()
		if ierr != nil || needed[e.Name()] || time.Since(info.ModTime()) < planKept {
			continue
		}
		err = errors.Join(err, os.Remove(s.planFile(e.Name())))
	}
	return err
}
