package policyserver

import (
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/location"
	"datamove.dev/mover/task"
	"datamove.dev/tiering/policy"
	"datamove.dev/tiering/policy/treecontext"
)

// Between runs for one event, of which some files failed each time, or were skipped, it is longer each time.
const (
	eventRest     = 10 * time.Second
	eventRestMost = time.Hour
)

// happened is when something has happened last that a policy is triggered by, and that no run of it was for to the end; zero is nothing.
func (s *Server) happened(p *policy.Program) (at time.Time, err error) {
	events := map[policy.Event]bool{}
	for _, t := range p.Policy.Spec.Trigger {
		if t.Event != "" {
			events[t.Event] = true
		}
	}
	if len(events) == 0 {
		return at, nil
	}
	return at, s.ledger.View(func(tx *state.Tx) error {
		since, failed, err := lastEvent(tx, string(p.Policy.Metadata.Name))
		if err != nil {
			return err
		}
		if n := len(failed); n > 0 && s.now().Sub(failed[0].GetEndTime().AsTime()) >= min(eventRestMost, eventRest<<min(n-1, 20)) {
			at = since
		}
		later := func(t *timestamppb.Timestamp) {
			if t != nil && t.AsTime().After(since) && t.AsTime().After(at) {
				at = t.AsTime()
			}
		}
		for _, root := range p.Policy.Spec.Scope.Roots {
			tier, dir, _ := strings.Cut(root, ":")
			if events[policy.TaskDone] {
				later(s.broughtTo(tier))
			}
			if s.conf().Tiers[tier].Checkpoints == nil {
				continue
			}
			if err := checkpointTimes(tx, tier, strings.Trim(dir, "/"), events, later); err != nil {
				return err
			}
		}
		return nil
	})
}

// lastEvent is the latest event that runs of a policy were for, and those of its runs since the last that did all, the last first. It asks all runs: their order is
// that of the clock, which may have been set back.
func lastEvent(tx *state.Tx, name string) (since time.Time, failed []*pb.Run, _ error) {
	over := false // with the runs for this event that count
	for r, err := range state.RunsByPolicy.All(tx, state.Range{Prefix: []string{name}, Reverse: true}) {
		if err != nil {
			return since, nil, err
		}
		due := r.GetDueTime().AsTime()
		if r.GetBy() != byEvent || due.Before(since) {
			continue
		}
		if due.After(since) {
			since, failed, over = due, nil, false
		}
		if over = over || r.GetFailed()+r.GetSkipped() == 0; !over {
			failed = append(failed, r)
		}
	}
	return since, failed, nil
}

// checkpointTimes tells when checkpoints below a directory of a tier have become what a policy waits for.
func checkpointTimes(tx *state.Tx, tier, dir string, events map[policy.Event]bool, tell func(*timestamppb.Timestamp)) error {
	for c, err := range state.Checkpoints.All(tx, state.Range{Prefix: []string{tier}}) {
		if err != nil {
			return err
		}
		if !mover.Within(string(c.GetFolder()), dir) {
			continue
		}
		if events[policy.CheckpointComplete] && c.GetState() != verified { // that is a copy, which was brought here
			tell(c.GetCompleteTime())
		}
		if !events[policy.CheckpointVerified] {
			continue
		}
		copies, err := treecontext.CopiesOf(tx, c)
		if err != nil {
			return err
		}
		for _, o := range append(copies, c) {
			tell(o.GetVerifiedTime())
		}
	}
	return nil
}

// brought records that a task has brought data to a tier, and wakes the policies.
func (s *Server) brought(t *pb.Task) {
	if !task.Of(t.GetSpec()).Brings() {
		return
	}
	l, err := location.Parse(t.GetSpec().GetTarget())
	if err != nil || !l.InTier() || t.GetState() != task.Done {
		return
	}
	s.broughtMu.Lock()
	defer s.broughtMu.Unlock()
	if s.broughtAt == nil {
		s.broughtAt = map[string]time.Time{}
	}
	s.broughtAt[l.Tier] = s.now()
	s.wake()
}

// broughtTo is when a task last brought data to a tier; nil is not since this service began.
func (s *Server) broughtTo(tier string) *timestamppb.Timestamp {
	s.broughtMu.Lock()
	defer s.broughtMu.Unlock()
	if at, known := s.broughtAt[tier]; known {
		return timestamppb.New(at)
	}
	return nil
}
