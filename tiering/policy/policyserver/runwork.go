package policyserver

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/task"
	"datamove.dev/tiering/policy"
	"datamove.dev/tiering/policy/run"
)

// planReading is where the reading of a plan stands.
type planReading struct {
	program *policy.Program
	made    time.Time // the plan
	close   func()
	next    func() (*pb.PlanItem, error, bool)
	at      int64
	item    *pb.PlanItem // that comes next; nil is not read yet

	wholes []wholeItems // nil is not read yet
}

func (s *Server) closeReading() {
	for id := range s.reading {
		s.endReading(id)
	}
}

func (s *Server) endReading(id string) {
	if r := s.reading[id]; r != nil {
		r.close()
		delete(s.reading, id)
	}
}

// readOn goes to an item of a plan.
func (s *Server) readOn(id string, at int64) (*planReading, error) {
	if r := s.reading[id]; r != nil && r.at == at {
		return r, nil
	}
	s.endReading(id)
	if err := run.Verify(s.planFile(id)); err != nil {
		return nil, err
	}
	f, err := s.openPlan(id)
	if err != nil {
		return nil, err
	}
	programs, err := policy.Read("plan", []byte(f.Plan.GetPolicyText()))
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	next, stop := iter.Pull2(f.Items())
	r := &planReading{program: programs[0], made: f.Plan.GetTime().AsTime(), close: func() { stop(); _ = f.Close() }}
	r.next = func() (*pb.PlanItem, error, bool) { item, err, ok := next(); return item, err, ok }
	for ; r.at < at; r.at++ {
		if _, err, more := r.next(); err != nil || !more {
			r.close()
			return nil, errors.Join(err, mover.ErrCorrupt)
		}
	}
	if s.reading == nil {
		s.reading = map[string]*planReading{}
	}
	s.reading[id] = r
	return r, nil
}

// peek is the item that comes next; nil is the end.
func (r *planReading) peek() (*pb.PlanItem, error) {
	if r.item == nil {
		item, err, more := r.next()
		if err != nil || !more {
			return nil, err
		}
		r.item = item
	}
	return r.item, nil
}

// part takes the items that come next and belong together. It has none at the end.
func (r *planReading) part() (first *pb.PlanItem, part run.Part, err error) {
	for {
		item, err := r.peek()
		if err != nil || item == nil || !part.Takes(item) {
			return first, part, err
		}
		if first == nil {
			first = item
		}
		r.item = nil
		r.at++
	}
}

// goOn begins what comes next of a run, or ends it.
func (s *Server) goOn(ctx context.Context, id string) error {
	var begun []*pb.Task
	var ended *pb.Run
	err := s.ledger.Update(ctx, state.Durable, func(tx *state.Tx) error {
		begun, ended = nil, nil
		one, err := state.Runs.Get(tx, id)
		if err != nil || !run.Active(one.GetState()) {
			return mover.IgnoreNotExist(err)
		}
		stopping := one.GetState() == run.Running && one.GetWhy() != ""
		for !stopping && len(one.GetParts()) < run.WholesMost {
			r, err := s.readOn(id, one.GetNext())
			if err != nil {
				one.Why, stopping = "its plan can not be read: "+err.Error(), true
				break
			}
			if one.GetState() == run.Running {
				if one.Why = run.Over(one, errorsOf(r.program), s.now()); one.GetWhy() != "" {
					stopping = true
					break
				}
			}
			if next, err := r.peek(); err != nil || next != nil && len(one.GetParts()) >= run.PartsMost {
				if err != nil {
					return err
				}
				break
			}
			first, part, err := r.part()
			if err != nil {
				return err
			}
			if first == nil {
				t, more, err := s.nextWhole(tx, one, r)
				if err != nil {
					return err
				}
				if t != nil {
					begun = append(begun, t)
				}
				stopping = !more
				continue
			}
			t := s.partTask(one, r.program, first, part.Count())
			one.Next += part.Count()
			if t == nil { // it is no task, or there is nothing to undo
				continue
			}
			one.Parts = append(one.GetParts(), &pb.RunPart{First: t.GetSpec().GetTiering().GetFirst(), Count: part.Count(), Task: t.GetId()})
			begun = append(begun, t)
			if err := state.Tasks.Put(tx, t); err != nil {
				return err
			}
		}
		if stopping && len(one.GetParts()) == 0 {
			s.endRun(one)
			ended = one
		}
		return state.Runs.Put(tx, one)
	})
	if err != nil || ended != nil {
		s.endReading(id) // it may have read on
	}
	if err != nil {
		return err
	}
	if ended.GetState() == run.Stopped {
		s.postStopped(ended)
	}
	for _, t := range begun {
		s.c.Submitted(ctx, t)
	}
	return nil
}

func errorsOf(p *policy.Program) float64 {
	if pct := p.Policy.Spec.Limits.ErrorPct; pct != nil {
		return float64(*pct)
	}
	return errorPct
}

// endRun ends a run of which nothing is under way.
func (s *Server) endRun(one *pb.Run) {
	one.EndTime = timestamppb.New(s.now())
	switch {
	case one.GetState() == run.Undoing:
		one.State = run.Undone
	case one.GetWhy() != "":
		one.State = run.Stopped
	default:
		one.State = run.Done
	}
	if one.GetState() != run.Undone {
		s.o.Metrics.PolicyRan(one.GetState() == run.Stopped, one.GetDone().GetFiles(), one.GetDone().GetBytes(), one.GetFailed())
	}
	s.log.Info("a run of a policy has ended", "policy", one.GetPolicy(), "run", one.GetId(), "state", stateOf(one.GetState()), "why", one.GetWhy(), "files", one.GetDone().GetFiles(),
		"skipped", one.GetSkipped(), "failed", one.GetFailed())
}

// runLabel and policyLabel are of tasks that do something for a run.
const (
	runLabel    = "run"
	policyLabel = "policy"
)

// partTask is the task of a part. Its items are like the first one. It is nil when there is nothing to do for the part.
func (s *Server) partTask(one *pb.Run, p *policy.Program, first *pb.PlanItem, count int64) *pb.Task {
	action := &p.Policy.Spec.Rules[first.GetRuleIndex()].Action
	if run.Together(action) || first.GetWhole() != "" {
		return nil // they come after all others
	}
	undo := one.GetState() == run.Undoing
	spec := runSpec(first.GetTier()+":", first.GetNode(), undo)
	spec.Target, spec.Labels, spec.Options = policy.Target(first.GetTarget()), map[string]string{runLabel: one.GetId(), policyLabel: one.GetPolicy()}, &pb.Options{Verify: levelFor(action.Verify)}
	spec.Tiering = &pb.Tiering{Run: one.GetId(), First: one.GetNext(), Count: count, Remove: run.Removes(action), Layout: action.Layout, Release: action.HSM, OneFileSystem: p.Policy.Spec.Scope.OneFilesystem}
	if ops := int64(p.Policy.Spec.Limits.OpsPerSec); ops > 0 {
		spec.Tiering.OpsPerSecond = max(1, ops/run.PartsMost)
	}
	if rate := int64(p.Policy.Spec.Limits.Rate); rate > 0 {
		spec.Options.BytesPerSecond = max(1, rate/run.PartsMost)
	}
	if spec.GetTiering().GetRemove() {
		s.willKeep(one, p, first, spec)
	}
	if undo && !spec.GetTiering().GetRemove() {
		return nil
	}
	spec.Class = classFor(action, spec)
	return s.c.NewTask(spec)
}

// classFor is the class of a task: as its action says, or as its kind has it.
func classFor(a *policy.Action, spec *pb.TaskSpec) pb.TaskClass {
	if a.Class != "" {
		return pb.TaskClass(pb.TaskClass_value["TASK_CLASS_"+strings.ToUpper(string(a.Class))])
	}
	return task.ClassOf(spec)
}

// willKeep says where what is taken away is kept: what has a copy is there, and else it is moved aside, where the place can.
func (s *Server) willKeep(one *pb.Run, p *policy.Program, first *pb.PlanItem, spec *pb.TaskSpec) {
	conf := s.conf().Tiers[first.GetTier()]
	if spec.GetTarget() == "" {
		if conf.Path == "" {
			return
		}
		spec.Tiering.Keep = keptIn(one.GetId())
		place := &pb.RunPlace{Tier: first.GetTier(), Node: first.GetNode()}
		known := false
		for _, have := range one.GetPlaces() {
			known = known || have.GetTier() == place.GetTier() && have.GetNode() == place.GetNode()
		}
		if !known {
			one.Places = append(one.GetPlaces(), place)
		}
	}
	kept := time.Duration(p.Policy.Spec.Safety.Quarantine)
	if kept == 0 {
		kept = 7 * day
	}
	if one.GetState() == run.Running {
		one.KeptUntil = timestamppb.New(s.now().Add(kept))
	}
}

// keptIn is the directory of a tier in which a run keeps what it takes away.
func keptIn(id string) string { return mover.KeptName + "/" + id }

func levelFor(v policy.Verify) pb.Level {
	if v == policy.ByReading {
		return pb.Level_LEVEL_READ
	}
	return pb.Level_LEVEL_SERVER
}
