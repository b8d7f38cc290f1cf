package run

import (
	"fmt"
	"slices"
	"time"

	pb "datamove.dev/api/datamove/v1"
)

// next are the states that follow each one.
var next = map[pb.RunState][]pb.RunState{
	Running: {Done, Stopped},
	Done:    {Undoing},
	Stopped: {Undoing},
	Undoing: {Undone, Stopped, Done},
	Undone:  {},
}

// The states of a run.
const (
	Running = pb.RunState_RUN_STATE_RUNNING
	Done    = pb.RunState_RUN_STATE_DONE
	Stopped = pb.RunState_RUN_STATE_STOPPED
	Undoing = pb.RunState_RUN_STATE_UNDOING
	Undone  = pb.RunState_RUN_STATE_UNDONE
)

// May reports whether a run may go from one state to another.
func May(from, to pb.RunState) bool { return slices.Contains(next[from], to) }

// Active reports whether there is something to do for a run.
func Active(s pb.RunState) bool { return s == Running || s == Undoing }

// Sizes of parts: about half a minute of work, and not so many names that one that fails holds up others.
const (
	PartItems = 2000
	PartBytes = 100 << 30
	PartsMost = 1 // that are under way at one time: two would wait for the lock of one target
	// WholesMost are those of replicas and checkpoints, each of which has a target of its own.
	WholesMost = 4
)

// errorsLeast are failures that do not stop a run yet, however few files there were.
const errorsLeast = 10

// Over says why a run has to stop, before it begins anything more; "" is not. errorPct is how many of a hundred files may fail.
func Over(r *pb.Run, errorPct float64, now time.Time) (why string) {
	tried := r.GetDone().GetFiles() + r.GetFailed()
	switch {
	case r.GetFailed() >= errorsLeast && float64(r.GetFailed())*100 > errorPct*float64(tried):
		return fmt.Sprintf("%d of %d files failed, and the policy lets %g %% (limits.errorPct)", r.GetFailed(), tried, errorPct)
	case r.GetBeginUntil() != nil && now.After(r.GetBeginUntil().AsTime()):
		return "its window has ended"
	}
	return ""
}

// Part is how many of the items that come next are done by one task: of one rule, in one tree.
type Part struct {
	count, bytes int64
	rule         int32
	tier, node   string
	target       string
	whole        bool
}

// Takes reports whether an item belongs to the part, and adds it then.
func (p *Part) Takes(item *pb.PlanItem) bool {
	if p.count == 0 {
		p.rule, p.tier, p.node, p.target = item.GetRuleIndex(), item.GetTier(), item.GetNode(), item.GetTarget()
		p.whole = item.GetWhole() != ""
	}
	if p.count == PartItems || p.bytes >= PartBytes || p.rule != item.GetRuleIndex() || p.tier != item.GetTier() || p.node != item.GetNode() || p.target != item.GetTarget() || p.whole != (item.GetWhole() != "") {
		return false
	}
	p.count, p.bytes = p.count+1, p.bytes+item.GetBytes()
	return true
}

// Count is how many items the part has.
func (p *Part) Count() int64 { return p.count }
