package policyserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
	"datamove.dev/mover/units"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/policy"
	"datamove.dev/tiering/policy/run"
)

const (
	runsUsual = 100
	runsMost  = 1000
	day       = 24 * time.Hour
	runsKept  = 400 * day // after their end
	errorPct  = 5.0       // of the files of a run may fail, if its policy does not say

	bySchedule  = "schedule"
	byWatermark = "watermark"
	byEvent     = "event"
)

// RunPlan implements pb.PolicyServiceServer.
func (s *Server) RunPlan(ctx context.Context, r *pb.RunPlanRequest) (*pb.Run, error) {
	f, err := s.openPlan(r.GetPlan())
	if err != nil {
		return nil, err
	}
	head := f.Plan
	if err := f.Close(); err != nil {
		return nil, err
	}
	if err := s.mayApprove(authz.From(ctx), head); err != nil {
		return nil, err
	}
	return s.beginRun(ctx, head, authz.From(ctx).Name, time.Time{})
}

// notices returns the messages of the notify rules of a policy. It logs each of them, too.
func (s *Server) notices(p *policy.Program, head *pb.Plan) (all []string) {
	for i, totals := range head.GetRules() {
		a := &p.Policy.Spec.Rules[i].Action
		kept := totals.GetKept()
		if a.Type != policy.Notify || kept.GetFiles() == 0 {
			continue
		}
		what := fmt.Sprintf("rule %s: %s, %s", totals.GetRule(), units.Plural(kept.GetFiles(), "file", "files"), units.Bytes(kept.GetBytes()))
		if len(a.Who) > 0 {
			what = "to " + strings.Join(a.Who, ", ") + ": " + what
		}
		if a.Message != "" {
			what += ": " + a.Message
		}
		all = append(all, what)
		s.log.Warn("a policy has something to tell", "policy", head.GetPolicy(), "run", head.GetId(), "who", a.Who, "files", kept.GetFiles(), "bytes", kept.GetBytes(), "message", a.Message)
	}
	return all
}

// needsApproval says whether a person has to agree to a plan: it would take away more than its policy lets it.
func needsApproval(p *policy.Program, head *pb.Plan) bool {
	a := p.Policy.Spec.Safety.Approval
	return a != nil && head.GetRemoves().GetBytes() > int64(a.WhenDeleting)
}

// theOwner is the word for the owner of a policy.
const theOwner = "owner"

// mayApprove says why a caller may not approve a plan. The policy names the approver: an account or a role. Running the plan approves it.
func (s *Server) mayApprove(c authz.Caller, head *pb.Plan) error {
	p, err := s.program(head.GetPolicy(), "")
	if err != nil || !needsApproval(p, head) {
		return err
	}
	by := p.Policy.Spec.Safety.Approval.By
	if by == theOwner {
		by = p.Policy.Metadata.Owner
	}
	if by == "" || by == c.Name || slices.Contains(s.o.Rules().Roles(c), by) {
		return nil
	}
	return &mover.Error{Op: "run", Location: "policy " + head.GetPolicy(), Err: mover.Because(mover.ErrPermission, "it would take away more than safety.approval lets it, and %s has to run it", mover.Printable(by))}
}

// beginRun begins the run of a plan, once. at is the time of the schedule that is due; zero is none.
func (s *Server) beginRun(ctx context.Context, head *pb.Plan, by string, at time.Time) (out *pb.Run, err error) {
	p, err := s.program(head.GetPolicy(), "")
	if err != nil {
		return nil, err
	}
	if by != byWatermark { // one that makes room elsewhere goes as far as it comes
		if err := s.hasRoom(head); err != nil {
			return nil, err
		}
	}
	begun := false
	err = s.ledger.Update(ctx, state.Durable, func(tx *state.Tx) error {
		out, err = state.Runs.Get(tx, head.GetId())
		if begun = errors.Is(err, mover.ErrNotExist); !begun {
			return err
		}
		if err := s.mayRun(tx, p, head); err != nil {
			return err
		}
		now := s.now()
		out = &pb.Run{Id: head.GetId(), Policy: head.GetPolicy(), PolicyDigest: head.GetPolicyDigest(), PlanDigest: head.GetDigest(), By: by, StartTime: timestamppb.New(now),
			State: run.Running, Planned: head.GetTotal(), Done: &pb.RunTotals{}, Notices: s.notices(p, head)}
		if !at.IsZero() {
			out.DueTime = timestamppb.New(at)
			if end := p.Ends(at); !end.IsZero() {
				out.BeginUntil = timestamppb.New(end)
			}
		}
		return state.Runs.Put(tx, out)
	})
	if err == nil && begun {
		s.postNotices(p, head)
		s.log.Info("a policy runs", "policy", out.GetPolicy(), "run", out.GetId(), "by", by, "files", out.GetPlanned().GetFiles(), "bytes", out.GetPlanned().GetBytes())
		s.wake()
	}
	return out, err
}

// mayRun says why a plan is not run.
func (s *Server) mayRun(tx *state.Tx, p *policy.Program, head *pb.Plan) error {
	name := head.GetPolicy()
	switch now := s.now(); {
	case p.Policy.Digest() != head.GetPolicyDigest():
		return &mover.Error{Op: "run", Location: "policy " + name, Err: mover.Because(mover.ErrConflict, "it has changed since the plan was made: plan it again")}
	case modeOf(p) == string(policy.ModePlan):
		return refusedPlan(name, "it is in the mode plan, in which nothing is done: set its mode to canary or enforce, and plan it again")
	case head.GetStale(), now.Sub(head.GetFactsTime().AsTime()) > staleness(p):
		return refusedPlan(name, "what is known of its files is of %s, and the policy lets it be %s old: scan its tiers, and plan it again",
			head.GetFactsTime().AsTime().Format(time.RFC3339), staleness(p))
	}
	if why := run.Unable(p, head.GetRules()); why != "" {
		return refusedPlan(name, "%s", why)
	}
	for _, of := range []pb.RunState{run.Running, run.Undoing} {
		for r, err := range state.RunsByState.All(tx, state.Range{Prefix: []string{of.String()}}) {
			if err != nil {
				return err
			}
			if r.GetPolicy() == name {
				return &mover.Error{Op: "run", Location: "policy " + name, Err: mover.Because(mover.ErrHeld, "run %s of it has not ended; wait for it, or stop it", r.GetId())}
			}
		}
	}
	return nil
}

// lastRun is the newest run of a policy; nil when there is none.
func lastRun(tx *state.Tx, name string) (*pb.Run, error) {
	for r, err := range state.RunsByPolicy.All(tx, state.Range{Prefix: []string{name}, Reverse: true}) {
		return r, err
	}
	return nil, nil
}

// ListRuns implements pb.PolicyServiceServer.
func (s *Server) ListRuns(_ context.Context, r *pb.ListRunsRequest) (*pb.ListRunsResponse, error) {
	limit := int(r.GetLimit())
	if limit <= 0 {
		limit = runsUsual
	}
	out := &pb.ListRunsResponse{}
	return out, s.ledger.View(func(tx *state.Tx) error {
		rows := state.Runs.All(tx, state.Range{Reverse: true})
		switch {
		case r.GetId() != "":
			one, err := state.Runs.Get(tx, r.GetId())
			if err != nil {
				return noRun(r.GetId(), err)
			}
			out.Runs = []*pb.Run{one}
			return nil
		case r.GetPolicy() != "":
			rows = state.RunsByPolicy.All(tx, state.Range{Prefix: []string{r.GetPolicy()}, Reverse: true})
		}
		for one, err := range rows {
			if err != nil {
				return err
			}
			if out.Runs = append(out.Runs, one); len(out.Runs) == min(limit, runsMost) {
				break
			}
		}
		return nil
	})
}

func noRun(id string, err error) error {
	if errors.Is(err, mover.ErrNotExist) {
		err = &mover.Error{Op: "find", Location: "run " + mover.Printable(id), Err: mover.Because(mover.ErrNotExist, "there is no such run")}
	}
	return err
}

// StopRun implements pb.PolicyServiceServer.
func (s *Server) StopRun(ctx context.Context, r *pb.StopRunRequest) (*pb.Run, error) {
	return s.changes(ctx, r.GetId(), func(_ *state.Tx, one *pb.Run) error {
		if one.GetState() == run.Running && one.GetWhy() == "" {
			one.Why = "stopped by " + authz.From(ctx).Name
		}
		return nil
	})
}

// UndoRun implements pb.PolicyServiceServer.
func (s *Server) UndoRun(ctx context.Context, r *pb.UndoRunRequest) (*pb.Run, error) {
	return s.changes(ctx, r.GetId(), func(_ *state.Tx, one *pb.Run) error {
		switch state := one.GetState(); {
		case state == run.Undoing, state == run.Undone:
			return nil
		case !run.May(state, run.Undoing):
			return &mover.Error{Op: "undo", Location: "run " + one.GetId(), Err: mover.Because(mover.ErrConflict, "it is %s: stop it first", stateOf(state))}
		case one.GetKeptUntil() == nil:
			return &mover.Error{Op: "undo", Location: "run " + one.GetId(), Err: mover.Because(mover.ErrRefused, "it has taken nothing away")}
		case s.now().After(one.GetKeptUntil().AsTime()):
			return &mover.Error{Op: "undo", Location: "run " + one.GetId(), Err: mover.Because(mover.ErrRefused, "what it has taken away was kept until %s", one.GetKeptUntil().AsTime().Format(time.RFC3339))}
		}
		one.State, one.Why, one.Next, one.Wholes, one.EndTime = run.Undoing, "undone by "+authz.From(ctx).Name, 0, 0, nil
		return nil
	})
}

// changes changes the record of a run, and has it looked at.
func (s *Server) changes(ctx context.Context, id string, do func(*state.Tx, *pb.Run) error) (one *pb.Run, err error) {
	err = s.ledger.Update(ctx, state.Durable, func(tx *state.Tx) error {
		if one, err = state.Runs.Get(tx, id); err != nil {
			return noRun(id, err)
		}
		if err := do(tx, one); err != nil {
			return err
		}
		return state.Runs.Put(tx, one)
	})
	s.wake()
	return one, err
}

// tiered counts, in the change in which a task ends, what it has done for its run.
func (s *Server) tiered(tx *state.Tx, t *pb.Task) error {
	one, err := state.Runs.Get(tx, t.GetSpec().GetTiering().GetRun())
	if err != nil {
		return mover.IgnoreNotExist(err)
	}
	i := slices.IndexFunc(one.GetParts(), func(p *pb.RunPart) bool { return p.GetTask() == t.GetId() })
	if i < 0 {
		return nil
	}
	part := one.GetParts()[i]
	one.Parts = slices.Delete(one.GetParts(), i, i+1)
	report := t.GetReport()
	switch {
	case undoes(t.GetSpec()):
		one.Restored += report.GetFiles()
	default:
		one.Done.Files, one.Done.Bytes, one.Skipped = one.GetDone().GetFiles()+report.GetFiles(), one.GetDone().GetBytes()+report.GetBytes(), one.GetSkipped()+report.GetKept()
	}
	failed := report.GetFailed()
	if t.GetState() != task.Done && failed == 0 {
		failed = max(0, part.GetCount()-report.GetFiles()-report.GetKept())
	}
	one.Failed += failed
	if one.GetError() == "" {
		one.Error = t.GetError()
	}
	if t.GetState() == task.Cancelled && one.GetWhy() == "" {
		one.Why = "its task " + t.GetId() + " was cancelled"
	}
	return state.Runs.Put(tx, one)
}

// runsOf are the newest runs that list a file.
func (s *Server) runsOf(tree catalog.Tree, name string) (found []*pb.Run, err error) {
	var runs []*pb.Run
	err = s.ledger.View(func(tx *state.Tx) error {
		for r, err := range state.Runs.All(tx, state.Range{Reverse: true}) {
			if err != nil {
				return err
			}
			if runs = append(runs, r); len(runs) == runsUsual {
				break
			}
		}
		return nil
	})
	for _, r := range runs {
		if err != nil {
			return found, err
		}
		var lists bool
		if lists, err = s.lists(r.GetId(), tree, name); lists {
			found = append(found, r)
		}
	}
	return found, err
}

// lists reports whether a plan lists a file. One that is gone lists nothing.
func (s *Server) lists(id string, tree catalog.Tree, name string) (bool, error) {
	f, err := s.openPlan(id)
	if err != nil {
		return false, mover.IgnoreNotExist(err)
	}
	defer f.Close()
	for item, err := range f.Items() {
		if err != nil {
			return false, err
		}
		if item.GetTier() == tree.Tier && item.GetNode() == tree.Node && string(item.GetName()) == name {
			return true, nil
		}
	}
	return false, nil
}

// stateOf is the state of a run, for people.
func stateOf(state pb.RunState) string {
	return map[pb.RunState]string{run.Running: "running", run.Done: "done", run.Stopped: "stopped", run.Undoing: "being undone", run.Undone: "undone"}[state]
}
