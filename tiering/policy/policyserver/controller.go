package policyserver

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/task"
	"datamove.dev/tiering/policy"
	"datamove.dev/tiering/policy/run"
)

// controller is what is remembered of policies beside the ledger. All of it can be made again.
type controller struct {
	stirred chan struct{} // something has changed

	broughtMu sync.Mutex
	broughtAt map[string]time.Time // by tier: when a task last brought data there; guarded by broughtMu

	telling map[string]string // by policy: the plan of which owners are told; of steward alone

	reading    map[string]*planReading // of runs; of steward alone
	aboveSince map[string]time.Time    // by policy and trigger: of steward alone
}

// stewardEvery is how often schedules are looked at.
const stewardEvery = 5 * time.Second

func (s *Server) wake() {
	select {
	case s.stirred <- struct{}{}:
	default:
	}
}

// control runs policies when it is time, and goes on with runs, until ctx ends.
func (s *Server) control(ctx context.Context) {
	tick := time.NewTicker(stewardEvery)
	defer tick.Stop()
	defer s.closeReading()
	for {
		if err := s.Tend(ctx); err != nil && ctx.Err() == nil {
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

// Tend is one round.
func (s *Server) Tend(ctx context.Context) (err error) {
	for _, p := range s.policies() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if perr := s.keepPolicy(ctx, p); perr != nil {
			err = errors.Join(err, &mover.Error{Op: "run", Location: "policy " + string(p.Policy.Metadata.Name), Err: perr})
		}
	}
	var runs []*pb.Run
	err = errors.Join(err, s.ledger.View(func(tx *state.Tx) error {
		for _, of := range []pb.RunState{run.Running, run.Undoing} {
			more, err := state.Collect(state.RunsByState.All(tx, state.Range{Prefix: []string{of.String()}}))
			if err != nil {
				return err
			}
			runs = append(runs, more...)
		}
		return nil
	}))
	for _, r := range runs {
		if rerr := s.goOn(ctx, r.GetId()); rerr != nil {
			err = errors.Join(err, &mover.Error{Op: "go on with", Location: "run " + r.GetId(), Err: rerr})
		}
	}
	return err
}

// since is from when on runs by schedule count: the last one, or the beginning of this service.
func (s *Server) since(last *pb.Run) time.Time {
	if due := last.GetDueTime(); due != nil {
		return due.AsTime()
	}
	return s.started
}

// nextRun is when a policy runs by itself; zero is never.
func (s *Server) nextRun(p *policy.Program, last *pb.Run) time.Time {
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
func (s *Server) keepPolicy(ctx context.Context, p *policy.Program) error {
	name := string(p.Policy.Metadata.Name)
	var last *pb.Run
	err := s.ledger.View(func(tx *state.Tx) (err error) { last, err = lastRun(tx, name); return err })
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

// runs runs a policy by itself. What was announced is what is done; otherwise it is planned now. Of what is refused the record says why.
func (s *Server) runs(ctx context.Context, p *policy.Program, by string, at time.Time) error {
	areas, err := s.areas(p)
	if err == nil && by == byEvent {
		areas, err = s.withCheckpoints(p, areas)
	}
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
				if err := s.o.Server.Scan(ctx, a.Tree); err != nil {
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
	if err := s.beginsBy(ctx, p, head, by, at); err != nil {
		return err
	}
	return s.overAnnounced(ctx, head.GetPolicy())
}

// beginsBy begins a run that needs no approval. Otherwise it records why the run did not begin.
func (s *Server) beginsBy(ctx context.Context, p *policy.Program, head *pb.Plan, by string, at time.Time) error {
	switch {
	case modeOf(p) == string(policy.ModePlan):
		return s.recordOnly(ctx, head, by, at, run.Done, "its mode is plan: nothing was done")
	case needsApproval(p, head):
		return s.recordOnly(ctx, head, by, at, run.Stopped, "it would take away more than safety.approval lets it; to approve: datamove policy run --plan "+head.GetId())
	}
	_, err := s.beginRun(ctx, head, by, at)
	if refused(err) {
		err = s.recordOnly(ctx, head, by, at, run.Stopped, err.Error())
	}
	return err
}

// leftOut notes that a run was left out, with an id of its own.
func (s *Server) leftOut(ctx context.Context, p *policy.Program, by string, at time.Time, why string) error {
	head := &pb.Plan{Id: task.NewID(s.now()), Policy: string(p.Policy.Metadata.Name), PolicyDigest: p.Policy.Digest(), Total: &pb.RunTotals{}}
	return s.recordOnly(ctx, head, by, at, run.Stopped, why)
}

// recordOnly records a run that does nothing. A stopped run gets an id of its own, because its plan may still be run.
func (s *Server) recordOnly(ctx context.Context, head *pb.Plan, by string, at time.Time, ended pb.RunState, why string) error {
	now := timestamppb.New(s.now())
	r := &pb.Run{Id: task.NewID(s.now()), Policy: head.GetPolicy(), PolicyDigest: head.GetPolicyDigest(), PlanDigest: head.GetDigest(), By: by, StartTime: now, EndTime: now, State: ended, Why: why,
		Planned: head.GetTotal(), Done: &pb.RunTotals{}}
	if ended == run.Done {
		r.Id = head.GetId()
	}
	if !at.IsZero() {
		r.DueTime = timestamppb.New(at)
	}
	s.log.Info("a policy did not run", "policy", r.GetPolicy(), "why", why)
	s.o.Metrics.PolicyRan(ended == run.Stopped, 0, 0, 0)
	news := false
	err := s.ledger.Update(ctx, state.Durable, func(tx *state.Tx) error {
		last, err := lastRun(tx, r.GetPolicy())
		if news = err == nil && (last.GetWhy() != why || !last.GetDueTime().AsTime().Equal(at) || at.IsZero()); !news {
			return err
		}
		return state.Runs.Put(tx, r)
	})
	if err == nil && news && ended == run.Stopped {
		s.postStopped(r)
	}
	return err
}
