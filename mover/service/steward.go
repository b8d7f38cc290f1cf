package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/ledger"
	"datamove.dev/mover/task"
	"datamove.dev/tiering/policy"
	"datamove.dev/tiering/run"
)

// stewardship is what is remembered of policies beside the ledger. All of it can be made again.
type stewardship struct {
	stirred chan struct{} // something has changed

	announcing  sync.Mutex
	announcedAs map[string]*pb.Plan // by policy: what its next run will do; guarded by announcing

	broughtMu sync.Mutex
	broughtAt map[string]time.Time // by tier: when a task of somebody has brought something there last; guarded by broughtMu

	reading    map[string]*planReading // of runs; of steward alone
	aboveSince map[string]time.Time    // by policy and trigger: of steward alone
}

// stewardEvery is how often schedules are looked at.
const stewardEvery = 5 * time.Second

func (s *Service) stir() {
	select {
	case s.stirred <- struct{}{}:
	default:
	}
}

// steward runs policies when it is time, and goes on with runs, until ctx ends.
func (s *Service) steward(ctx context.Context) {
	tick := time.NewTicker(stewardEvery)
	defer tick.Stop()
	defer s.closeReading()
	for {
		if err := s.tendPolicies(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("policies can not be looked after; it is tried again", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-s.stirred:
		case <-tick.C:
		}
	}
}

// tendPolicies is one round.
func (s *Service) tendPolicies(ctx context.Context) (err error) {
	for _, p := range s.policies() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if perr := s.keepPolicy(ctx, p); perr != nil {
			err = errors.Join(err, &mover.Error{Op: "run", Place: "policy " + string(p.Policy.Metadata.Name), Err: perr})
		}
	}
	var runs []*pb.Run
	err = errors.Join(err, s.ledger.View(func(tx *ledger.Tx) error {
		for _, state := range []pb.RunState{run.Running, run.Undoing} {
			more, err := all(ledger.RunsByState.All(tx, ledger.Range{Prefix: []string{state.String()}}))
			if err != nil {
				return err
			}
			runs = append(runs, more...)
		}
		return nil
	}))
	for _, r := range runs {
		if rerr := s.goOn(ctx, r.GetId()); rerr != nil {
			err = errors.Join(err, &mover.Error{Op: "go on with", Place: "run " + r.GetId(), Err: rerr})
		}
	}
	return err
}

// since is from when on runs by schedule count: the last one, or the beginning of this service.
func (s *Service) since(last *pb.Run) time.Time {
	if due := last.GetDueTime(); due != nil {
		return due.AsTime()
	}
	return s.started
}

// nextRun is when a policy runs by itself; zero is never.
func (s *Service) nextRun(p *policy.Program, last *pb.Run) time.Time {
	if p.Policy.Spec.Schedule == nil {
		return time.Time{}
	}
	_, due, next := p.Due(s.since(last), s.now())
	if due {
		return s.now()
	}
	return next
}

// keepPolicy runs a policy if it is time, by its schedule, by a watermark or by an event, and announces before what it will do.
func (s *Service) keepPolicy(ctx context.Context, p *policy.Program) error {
	name := string(p.Policy.Metadata.Name)
	var last *pb.Run
	err := s.ledger.View(func(tx *ledger.Tx) (err error) { last, err = lastRun(tx, name); return err })
	if err != nil || last != nil && run.Active(last.GetState()) {
		return err // overlap: forbid
	}
	if p.Policy.Spec.Schedule != nil {
		at, due, next := p.Due(s.since(last), s.now())
		if due {
			return s.runs(ctx, p, bySchedule, at)
		}
		if err := s.announce(ctx, p, next); err != nil {
			return err
		}
	}
	if need, is := s.crossed(p, last); is {
		return s.runs(ctx, p.Enough(need), byWatermark, time.Time{})
	}
	at, err := s.happened(p)
	if err != nil || at.IsZero() {
		return err
	}
	return s.runs(ctx, p, byEvent, at)
}

// announced is what the next run of a policy will do; nil where it was not announced, or the policy is another one by now.
func (s *Service) announced(p *policy.Program) (*pb.Plan, error) {
	s.announcing.Lock()
	defer s.announcing.Unlock()
	head := s.announcedAs[string(p.Policy.Metadata.Name)]
	if head.GetPolicyDigest() != p.Policy.Digest() {
		return nil, nil
	}
	return head, nil
}

// announce plans a run some time before, so that owners can see what it will do to their files.
func (s *Service) announce(ctx context.Context, p *policy.Program, next time.Time) error {
	preview := time.Duration(p.Policy.Spec.Report.Preview)
	if preview == 0 || next.IsZero() || next.Sub(s.now()) > preview {
		return nil
	}
	if head, err := s.announced(p); head != nil || err != nil {
		return err
	}
	head, err := s.plan(ctx, p)
	if err != nil {
		return err
	}
	s.announcing.Lock()
	defer s.announcing.Unlock()
	if s.announcedAs == nil {
		s.announcedAs = map[string]*pb.Plan{}
	}
	s.announcedAs[head.GetPolicy()] = head
	return nil
}

// runs runs a policy by itself. What was announced is what is done; otherwise it is planned now. Of what is refused the record says why.
func (s *Service) runs(ctx context.Context, p *policy.Program, by string, at time.Time) error {
	areas, err := s.areas(p)
	if err != nil {
		return err
	}
	oldest, err := s.stalest(areas)
	if err != nil {
		return err
	}
	if s.now().Sub(oldest) > staleness(p) || by == byEvent && oldest.Before(at) {
		end := p.Ends(at)
		if p.Policy.Spec.Source.OnStale != policy.Refuse && (at.IsZero() || end.IsZero() || s.now().Before(end)) {
			for _, a := range areas { // it begins when they are there
				if _, err := s.treeTask(ctx, pb.TaskKind_TASK_KIND_SCAN, a.Tree.Tier, a.Tree.Node, ""); err != nil {
					return err
				}
			}
			return nil
		}
		return s.leftOut(ctx, p, by, at, "what is known of its files is too old (source.maxStaleness)")
	}
	head, err := s.announced(p)
	if err != nil {
		return err
	}
	if head == nil || by != bySchedule {
		if head, err = s.plan(ctx, p); err != nil {
			return err
		}
	}
	s.announcing.Lock()
	delete(s.announcedAs, head.GetPolicy())
	s.announcing.Unlock()
	switch {
	case modeOf(p) == string(policy.ModePlan):
		return s.recordOnly(ctx, head, by, at, run.Done, "its mode is plan: nothing was done")
	case needsApproval(p, head):
		return s.recordOnly(ctx, head, by, at, run.Stopped, "it would take away more than safety.approval lets it; to approve: datamove policy run --plan "+head.GetId())
	}
	if _, err = s.beginRun(ctx, head, by, at); refused(err) {
		err = s.recordOnly(ctx, head, by, at, run.Stopped, err.Error())
	}
	return err
}

// leftOut notes that a run was left out, with an id of its own.
func (s *Service) leftOut(ctx context.Context, p *policy.Program, by string, at time.Time, why string) error {
	head := &pb.Plan{Id: task.NewID(s.now()), Policy: string(p.Policy.Metadata.Name), PolicyDigest: p.Policy.Digest(), Total: &pb.RunTotals{}}
	return s.recordOnly(ctx, head, by, at, run.Stopped, why)
}

// recordOnly notes a run that does nothing. One that waits for somebody's approval is not recorded under the id of its plan, which may still be run.
func (s *Service) recordOnly(ctx context.Context, head *pb.Plan, by string, at time.Time, state pb.RunState, why string) error {
	now := timestamppb.New(s.now())
	r := &pb.Run{Id: task.NewID(s.now()), Policy: head.GetPolicy(), PolicyDigest: head.GetPolicyDigest(), PlanDigest: head.GetDigest(), By: by, StartTime: now, EndTime: now, State: state, Why: why,
		Planned: head.GetTotal(), Done: &pb.RunTotals{}}
	if state == run.Done {
		r.Id = head.GetId()
	}
	if !at.IsZero() {
		r.DueTime = timestamppb.New(at)
	}
	s.log.Info("a policy did not run", "policy", r.GetPolicy(), "why", why)
	s.o.Metrics.PolicyRan(state == run.Stopped, 0, 0, 0)
	return s.ledger.Update(ctx, ledger.Durable, func(tx *ledger.Tx) error {
		last, err := lastRun(tx, r.GetPolicy())
		if err != nil || last.GetWhy() == why && last.GetDueTime().AsTime().Equal(at) && !at.IsZero() {
			return err
		}
		return ledger.Runs.Put(tx, r)
	})
}

// crossed reports whether a watermark says that a policy has to run: what it looks at is above it for as long as it has to be; need is what has to go until it is at the low
// mark. After a run nothing is begun by it until it has been below, or is above for as long again.
func (s *Service) crossed(p *policy.Program, last *pb.Run) (need policy.Tally, is bool) {
	name, now := string(p.Policy.Metadata.Name), s.now()
	for i := range p.Policy.Spec.Trigger {
		t := &p.Policy.Spec.Trigger[i]
		if t.Event != "" || t.High == 0 {
			continue
		}
		key := fmt.Sprintf("%s\x00%d", name, i)
		over, above := s.above(t)
		if !above {
			delete(s.aboveSince, key)
			continue
		}
		if s.aboveSince == nil {
			s.aboveSince = map[string]time.Time{}
		}
		first, was := s.aboveSince[key]
		if !was {
			s.aboveSince[key], first = now, now
		}
		if end := last.GetEndTime(); end != nil && now.Sub(end.AsTime()) < max(time.Duration(t.HoldFor), watermarkRest) {
			continue
		}
		if now.Sub(first) >= time.Duration(t.HoldFor) {
			need.Bytes, need.Files, is = max(need.Bytes, over.Bytes), max(need.Files, over.Files), true
		}
	}
	return need, is
}

// watermarkRest is how long it is at least between two runs by a watermark.
const watermarkRest = 10 * time.Minute

// above reports whether what a watermark looks at is fuller than that, on some node, and how much has to go from there. What lies on one OST is a part of each file: so
// that much has to go for each of them.
func (s *Service) above(t *policy.Trigger) (need policy.Tally, is bool) {
	for _, room := range s.rooms(t.Tier, s.conf().Tiers[t.Tier].NodeLocal) {
		osts := int64(0)
		for _, part := range room.GetParts() {
			if part.GetKind() == "ost" {
				osts++
			}
		}
		look := func(total, free, times int64) {
			used := total - free
			if total <= 0 || float64(used)*100 <= float64(t.High)*float64(total) {
				return
			}
			low := cmp.Or(t.Low, t.High)
			over := (used - int64(float64(low)/100*float64(total))) * max(1, times)
			if is = true; t.Measure == policy.OfInodes {
				need.Files = max(need.Files, over)
			} else {
				need.Bytes = max(need.Bytes, over)
			}
		}
		if t.Pool+t.OST+t.Project == "" {
			look(measured(t, room.GetTotalBytes(), room.GetTotalFiles()), measured(t, room.GetFreeBytes(), room.GetFreeFiles()), 1)
		}
		for _, part := range room.GetParts() {
			total, free := measured(t, part.GetTotalBytes(), part.GetTotalFiles()), measured(t, part.GetFreeBytes(), part.GetFreeFiles())
			switch {
			case part.GetKind() == "ost" && t.OST != "" && (t.OST == anyOST || t.OST == part.GetName()):
				look(total, free, osts)
			case part.GetKind() == "pool" && t.Pool == part.GetName(), part.GetKind() == "project" && t.Project == part.GetName():
				look(total, free, 1)
			}
		}
	}
	return need, is
}

// anyOST is the word for the fullest one.
const anyOST = "any"

// measured is what a watermark measures.
func measured(t *policy.Trigger, bytes, files int64) int64 {
	if t.Measure == policy.OfInodes {
		return files
	}
	return bytes
}

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

func (s *Service) closeReading() {
	for id := range s.reading {
		s.endReading(id)
	}
}

func (s *Service) endReading(id string) {
	if r := s.reading[id]; r != nil {
		r.close()
		delete(s.reading, id)
	}
}

// readOn goes to an item of a plan.
func (s *Service) readOn(id string, at int64) (*planReading, error) {
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
func (s *Service) goOn(ctx context.Context, id string) error {
	var begun []*pb.Task
	ended := false
	err := s.ledger.Update(ctx, ledger.Durable, func(tx *ledger.Tx) error {
		begun, ended = nil, false
		one, err := ledger.Runs.Get(tx, id)
		if err != nil || !run.Active(one.GetState()) {
			return ignoreGone(err)
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
			if err := ledger.Tasks.Put(tx, t); err != nil {
				return err
			}
		}
		if stopping && len(one.GetParts()) == 0 {
			s.endRun(one)
			ended = true
		}
		return ledger.Runs.Put(tx, one)
	})
	if err != nil || ended {
		s.endReading(id) // it may have read on
	}
	if err != nil {
		return err
	}
	for _, t := range begun {
		s.submitted(ctx, t)
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
func (s *Service) endRun(one *pb.Run) {
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

// partTask is the task of a part, whose items are like the first one; nil when there is nothing to do for it.
func (s *Service) partTask(one *pb.Run, p *policy.Program, first *pb.PlanItem, count int64) *pb.Task {
	action := &p.Policy.Spec.Rules[first.GetRuleIndex()].Action
	if run.Together(action) || first.GetWhole() != "" {
		return nil // they come after all others
	}
	spec := &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_TIER, Source: first.GetTier() + ":", Target: targetOf(first.GetTarget()), Node: first.GetNode(),
		Labels:  map[string]string{runLabel: one.GetId(), policyLabel: one.GetPolicy()},
		Options: &pb.Options{Verify: levelFor(action.Verify)},
		Tiering: &pb.Tiering{Run: one.GetId(), First: one.GetNext(), Count: count, Remove: run.Removes(action), Layout: action.Layout, Release: action.HSM, OneFileSystem: p.Policy.Spec.Scope.OneFilesystem}}
	if ops := int64(p.Policy.Spec.Limits.OpsPerSec); ops > 0 {
		spec.Tiering.OpsPerSecond = max(1, ops/run.PartsMost)
	}
	if rate := int64(p.Policy.Spec.Limits.Rate); rate > 0 {
		spec.Options.BytesPerSecond = max(1, rate/run.PartsMost)
	}
	if spec.GetTiering().GetRemove() {
		s.willKeep(one, p, first, spec)
	}
	if one.GetState() == run.Undoing {
		if spec.Kind = pb.TaskKind_TASK_KIND_UNDO; !spec.GetTiering().GetRemove() {
			return nil
		}
	}
	spec.Class = classFor(action, spec)
	return s.newTask(self(), spec)
}

// classFor is the class of a task: as its action says, or as its kind has it.
func classFor(a *policy.Action, spec *pb.TaskSpec) pb.TaskClass {
	if a.Class != "" {
		return pb.TaskClass(pb.TaskClass_value["TASK_CLASS_"+strings.ToUpper(string(a.Class))])
	}
	return task.ClassOf(spec)
}

// willKeep says where what is taken away is kept: what has a copy is there, and else it is moved aside, where the place can.
func (s *Service) willKeep(one *pb.Run, p *policy.Program, first *pb.PlanItem, spec *pb.TaskSpec) {
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

// targetOf is a place of a policy as a location.
func targetOf(to string) string {
	if to == "" || strings.Contains(to, ":") {
		return to
	}
	return to + ":"
}

func levelFor(v policy.Verify) pb.Level {
	if v == policy.ByReading {
		return pb.Level_LEVEL_READ
	}
	return pb.Level_LEVEL_SERVER
}
