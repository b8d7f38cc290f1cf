package policyserver

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/placement"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/catalog/query"
	"datamove.dev/tiering/dataset"
	"datamove.dev/tiering/policy"
)

// policies are those of the configuration of this moment.
func (s *Server) policies() []*policy.Program {
	if s.o.Policies == nil {
		return nil
	}
	return s.o.Policies()
}

// ListPolicies implements pb.PolicyServiceServer.
func (s *Server) ListPolicies(context.Context, *pb.ListPoliciesRequest) (*pb.ListPoliciesResponse, error) {
	out := &pb.ListPoliciesResponse{}
	return out, s.ledger.View(func(tx *state.Tx) error {
		for _, p := range s.policies() {
			meta, spec := &p.Policy.Metadata, &p.Policy.Spec
			row := &pb.Policy{Name: string(meta.Name), Owner: meta.Owner, Mode: modeOf(p), File: path.Base(p.Policy.File), Digest: p.Policy.Digest(), Roots: spec.Scope.Roots}
			for _, t := range spec.Trigger {
				row.Triggers = append(row.Triggers, t.String())
			}
			last, err := lastRun(tx, row.GetName())
			if err != nil {
				return err
			}
			row.Last = last
			if next := s.nextRun(p, last); !next.IsZero() {
				row.NextTime = timestamppb.New(next)
			}
			if row.Announced, err = s.announced(p); err != nil {
				return err
			}
			out.Policies = append(out.Policies, row)
		}
		return nil
	})
}

func modeOf(p *policy.Program) string {
	if p.Policy.Spec.Mode == "" {
		return string(policy.ModePlan)
	}
	return string(p.Policy.Spec.Mode)
}

// program finds a policy by its name, or reads the text of one.
func (s *Server) program(name, text string) (*policy.Program, error) {
	if text != "" {
		all, err := policy.Read("text", []byte(text))
		if err != nil {
			return nil, err
		}
		if len(all) != 1 {
			return nil, mover.Usagef("%d policies; want one at a time", len(all))
		}
		return all[0], nil
	}
	have := []string{}
	for _, p := range s.policies() {
		if string(p.Policy.Metadata.Name) == name {
			return p, nil
		}
		have = append(have, string(p.Policy.Metadata.Name))
	}
	known := "there are none"
	if len(have) > 0 {
		known = "there are " + strings.Join(have, ", ")
	}
	return nil, &mover.Error{Op: "find", Location: "policy " + mover.Printable(name), Err: mover.Because(mover.ErrNotExist, "the configuration of the service has no such policy; %s", known)}
}

// reader answers questions about a tree. The caller sets the ground.
func (s *Server) reader() query.Reader {
	return query.Reader{Catalog: s.o.Catalog, People: s.o.People}
}

// areas are what a policy is about: of a node-local tier, what each node has that was ever scanned. An area in another one is a part of it.
func (s *Server) areas(p *policy.Program) (areas []query.Area, err error) {
	if s.o.Catalog == nil {
		return nil, mover.Errorf(mover.ErrUnsupported, "this service keeps no catalog")
	}
	for _, root := range p.Policy.Spec.Scope.Roots {
		tier, dir, _ := strings.Cut(root, ":")
		dir = strings.Trim(dir, "/")
		t, known := s.conf().Tiers[tier]
		if !known {
			return nil, placement.NoTier("use", tier, s.conf())
		}
		trees := []catalog.Tree{{Tier: tier}}
		if t.NodeLocal {
			if trees, err = s.nodesOf(tier); err != nil {
				return nil, err
			}
		}
		for _, tree := range trees {
			g, err := s.o.Datasets.Tree(tree)
			if err != nil {
				return nil, err
			}
			areas = append(areas, query.Area{Tree: tree, Dir: dir, Ground: g.Ground})
		}
	}
	return slices.DeleteFunc(slices.Clone(areas), func(a query.Area) bool {
		return slices.ContainsFunc(areas, func(b query.Area) bool { return a.Tree == b.Tree && a.Dir != b.Dir && mover.Within(a.Dir, b.Dir) })
	}), nil
}

// nodesOf are the trees of a node-local tier.
func (s *Server) nodesOf(tier string) (trees []catalog.Tree, err error) {
	states, err := s.o.Catalog.Trees()
	for _, state := range states {
		if state.Tree.Tier == tier && !state.Scanned.IsZero() {
			trees = append(trees, state.Tree)
		}
	}
	return trees, err
}

// withCheckpoints adds the trees in which a policy has checkpoints and that no scan has seen yet: an event of theirs is over when a run has begun for it.
func (s *Server) withCheckpoints(p *policy.Program, areas []query.Area) ([]query.Area, error) {
	return areas, s.ledger.View(func(tx *state.Tx) error {
		for _, root := range p.Policy.Spec.Scope.Roots {
			tier, dir, _ := strings.Cut(root, ":")
			if !s.conf().Tiers[tier].NodeLocal {
				continue
			}
			for c, err := range state.Checkpoints.All(tx, state.Range{Prefix: []string{tier}}) {
				if err != nil {
					return err
				}
				tree := catalog.Tree{Tier: tier, Node: c.GetNode()}
				known := tree.Node == "" || slices.ContainsFunc(areas, func(a query.Area) bool { return a.Tree == tree })
				if dir = strings.Trim(dir, "/"); !known && mover.Within(string(c.GetFolder()), dir) {
					areas = append(areas, query.Area{Tree: tree, Dir: dir})
				}
			}
		}
		return nil
	})
}

// stalest is how old the facts about areas are.
func (s *Server) stalest(areas []query.Area) (oldest time.Time, err error) {
	for i, a := range areas {
		state, err := s.o.Catalog.State(a.Tree)
		if err != nil {
			return oldest, err
		}
		if of := s.o.Server.AsOf(&state); i == 0 || of.Before(oldest) {
			oldest = of
		}
	}
	return oldest, nil
}

// staleness is how old facts may be.
func staleness(p *policy.Program) time.Duration {
	if d := time.Duration(p.Policy.Spec.Source.Staleness); d > 0 {
		return d
	}
	return day
}

// simulatedMost bounds what is simulated.
const (
	daysMost      = 366
	simulatedMost = 400 // runs
)

// SimulatePolicy implements pb.PolicyServiceServer.
func (s *Server) SimulatePolicy(ctx context.Context, r *pb.SimulatePolicyRequest) (*pb.SimulatePolicyResponse, error) {
	p, err := s.program(r.GetPolicy(), r.GetText())
	if err != nil {
		return nil, err
	}
	if r.GetDays() < 0 || r.GetDays() > daysMost {
		return nil, mover.Usagef("want 0 to %d days, and not %d", daysMost, r.GetDays())
	}
	from := s.now()
	if r.GetFrom() != nil {
		if err := r.GetFrom().CheckValid(); err != nil {
			return nil, mover.Usagef("from: %v", err)
		}
		from = r.GetFrom().AsTime()
	}
	areas, err := s.areas(p)
	if err != nil {
		return nil, err
	}
	out, gone := &pb.SimulatePolicyResponse{}, map[uint64]bool{}
	for _, at := range simulated(p, from, int(r.GetDays())) {
		plan, err := s.reader().Plan(ctx, p, areas, at, func(area int, f *dataset.File) bool { return gone[idOf(areas[area].Tree, f)] })
		if err != nil {
			return nil, err
		}
		for i := range plan.Items { // what was done once is not done again
			gone[idOf(areas[plan.Items[i].Area].Tree, &plan.Items[i].File)] = true
		}
		head := headOf(p, plan)
		out.Runs = append(out.Runs, &pb.SimulatedRun{Time: timestamppb.New(at), Total: head.GetTotal(), Removes: head.GetRemoves(), Rules: head.GetRules(), Left: head.GetLeft()})
	}
	return out, nil
}

func idOf(tree catalog.Tree, f *dataset.File) uint64 {
	return policy.Hash(tree.Tier + "\x00" + tree.Node + "\x00" + f.Name())
}

// simulated are the times of the runs: that of its beginning, and those of the schedule.
func simulated(p *policy.Program, from time.Time, days int) []time.Time {
	if days == 0 || p.Policy.Spec.Schedule == nil {
		return []time.Time{from}
	}
	var all []time.Time
	end := from.Add(time.Duration(days) * day)
	for last := from; len(all) < simulatedMost; {
		_, _, next := p.Due(last, last)
		if next.IsZero() || next.After(end) {
			break
		}
		at, due, _ := p.Due(last, next)
		if !due {
			break
		}
		all, last = append(all, next), at
	}
	return all
}

// ExplainFile implements pb.PolicyServiceServer.
func (s *Server) ExplainFile(ctx context.Context, r *pb.ExplainFileRequest) (*pb.ExplainFileResponse, error) {
	reader, q, err := s.o.Server.Question(ctx, &pb.Question{Location: r.GetLocation(), Node: r.GetNode()})
	if err != nil {
		return nil, err
	}
	var found *query.Found
	for f, err := range reader.Find(ctx, q, query.ByName, 2) { // of what is no file, or not the caller's, nothing
		if err != nil {
			return nil, err
		}
		if f.Name() == q.Dir {
			found = &f
		}
		break
	}
	if found == nil {
		return nil, &mover.Error{Op: "explain", Location: r.GetLocation(), Err: mover.Because(mover.ErrNotExist, "the catalog has no such file that you may see; of a folder each file is asked about by itself")}
	}
	programs := s.policies()
	if r.GetPolicy() != "" || r.GetText() != "" {
		p, err := s.program(r.GetPolicy(), r.GetText())
		if err != nil {
			return nil, err
		}
		programs = []*policy.Program{p}
	}
	out := &pb.ExplainFileResponse{File: found.Info("")}
	area := query.Area{Tree: q.Tree, Ground: reader.Ground}
	for _, p := range programs {
		if !about(p, q.Tree.Tier, q.Dir) {
			continue
		}
		sight, used, err := s.sight(reader, p, area, &found.File)
		if err != nil {
			return nil, err
		}
		out.Used, out.Policies = used, append(out.Policies, sight)
	}
	out.Runs, err = s.runsOf(q.Tree, q.Dir)
	return out, err
}

// about reports whether a name is in the scope of a policy.
func about(p *policy.Program, tier, name string) bool {
	return slices.ContainsFunc(p.Policy.Spec.Scope.Roots, func(root string) bool {
		of, dir, _ := strings.Cut(root, ":")
		return of == tier && mover.Within(name, strings.Trim(dir, "/"))
	})
}

// sight is what a policy says of a file, at its next run or, where it has none, now.
func (s *Server) sight(reader query.Reader, p *policy.Program, area query.Area, f *dataset.File) (*pb.PolicySight, string, error) {
	var last *pb.Run
	err := s.ledger.View(func(tx *state.Tx) (err error) { last, err = lastRun(tx, string(p.Policy.Metadata.Name)); return err })
	if err != nil {
		return nil, "", err
	}
	out := &pb.PolicySight{Policy: string(p.Policy.Metadata.Name), Mode: modeOf(p)}
	if next := s.nextRun(p, last); !next.IsZero() {
		out.NextTime = timestamppb.New(next)
	}
	judge, at, v := reader.Judged(p, area, f, s.now())
	out.Reason = judge.Reason(f, at, v)
	sights, used := judge.Explain(f, at)
	for _, one := range sights {
		rule := &pb.RuleSight{Rule: one.Rule, Holds: one.Holds}
		if one.Err != nil {
			rule.Error = one.Err.Error()
		}
		for _, c := range one.Clause {
			rule.Clauses = append(rule.Clauses, &pb.ClauseSight{Field: c.Field, Want: strings.ToValidUTF8(c.Want, "�"), Is: strings.ToValidUTF8(c.Is, "�"), Holds: c.Holds})
		}
		out.Rules = append(out.Rules, rule)
	}
	return out, used, nil
}

// refusedPlan is why a plan is not made or run.
func refusedPlan(name, format string, args ...any) error {
	return &mover.Error{Op: "run", Location: "policy " + mover.Printable(name), Err: mover.Because(mover.ErrRefused, format, args...)}
}

var errNoPlan = errors.New("there is no such plan; plans are kept for a week")

// noPlan is the error of a plan that is not there.
func noPlan(id string) error {
	return &mover.Error{Op: "read", Location: "plan " + mover.Printable(id), Err: fmt.Errorf("%w: %w", mover.ErrNotExist, errNoPlan)}
}

// seesItems is the owner of the plan items that a caller may see; nil is any owner.
func (s *Server) seesItems(c authz.Caller) *uint32 {
	if s.o.Rules().May(c, authz.OfMethod(pb.PolicyService_GetPlan_FullMethodName).Action+".any").Allowed {
		return nil
	}
	return &c.UID
}
