package coordinator

import (
	"cmp"
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/task"
	"datamove.dev/mover/task/convert"
	"datamove.dev/mover/telemetry"
)

// metricsCollector samples the state of the coordinator for metrics and for the history of rates.
type metricsCollector struct {
	*core
	c *Service
	seen
	rates history
}

// seen is what metrics are told of, beside what happens.
type seen struct {
	tallyMu sync.Mutex
	tally   *state.Tally[taskKind] // nil until the tasks are counted; guarded by tallyMu
}

// taskKind is what tasks are counted by.
type taskKind struct {
	class pb.TaskClass
	state pb.TaskState
}

// countTasks counts the stored tasks by class and state, for the metrics. There may be a
// million of them, so it runs in the background.
func (s *metricsCollector) countTasks(ctx context.Context) {
	tally, err := state.Count(ctx, s.ledger, state.Tasks, func(t *pb.Task) taskKind {
		return taskKind{t.GetSpec().GetClass(), t.GetState()}
	})
	if err != nil {
		if ctx.Err() == nil {
			s.log.Warn("tasks can not be counted", "err", err)
		}
		return
	}
	s.tallyMu.Lock()
	defer s.tallyMu.Unlock()
	s.tally = tally
}

// counted is how many tasks are in a state; false while they are not yet counted.
func (s *metricsCollector) counted(state pb.TaskState) (n int64, ok bool) {
	s.tallyMu.Lock()
	tally := s.tally
	s.tallyMu.Unlock()
	if tally == nil {
		return 0, false
	}
	for k, count := range tally.Counts() {
		if k.state == state {
			n += count
		}
	}
	return n, true
}

// countEnd counts a task that has ended. The log has its end; the failure of one of which no caller waits to hear is a warning.
func (s *metricsCollector) countEnd(t *pb.Task) {
	s.c.paths.realPaths.forget(t.GetId())
	switch failed := t.GetState() == task.Failed; {
	case !failed:
		s.log.Log(context.Background(), levelOf(t), "a task has ended", append(aboutTask(t), aboutEnd(t)...)...)
	case !unasked(t.GetSpec()):
		s.log.Info("a task has failed", append(append(aboutTask(t), aboutEnd(t)...), "err", t.GetError())...)
	default:
		s.log.Warn("a task of the service itself has failed; it is begun again", "task", t.GetId(), "kind", task.KindWord(t.GetSpec().GetKind()), "source", t.GetSpec().GetSource(),
			"node", t.GetSpec().GetNode(), "err", t.GetError())
	}
	took := time.Duration(-1) // it had no lead
	if t.GetStartTime() != nil {
		took = max(t.GetEndTime().AsTime().Sub(t.GetStartTime().AsTime()), 0)
	}
	s.o.Metrics.TaskEnded(t.GetSpec().GetClass(), t.GetState(), took)
}

// countNew counts a task that was submitted, and logs it.
func (s *metricsCollector) countNew(t *pb.Task) {
	s.log.Log(context.Background(), levelOf(t), "a task was submitted", aboutTask(t)...)
	s.o.Metrics.TaskSubmitted(t.GetSpec().GetClass())
}

// levelOf is the level at which the life of a task is logged: what the service sets itself again and again is for debugging.
func levelOf(t *pb.Task) slog.Level {
	if unasked(t.GetSpec()) {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// aboutTask returns the log attributes of a task: its id, kind, owner and locations.
func aboutTask(t *pb.Task) []any {
	spec := t.GetSpec()
	about := []any{"task", t.GetId(), "kind", task.KindWord(spec.GetKind()), "owner", cmp.Or(t.GetOwner().GetName(), strconv.Itoa(int(t.GetOwner().GetUid())))}
	for _, one := range [][2]string{{"source", cmp.Or(spec.GetSource(), strings.Join(spec.GetSources(), " "))}, {"target", spec.GetTarget()}, {"dataset", t.GetDataset()}, {"node", spec.GetNode()}} {
		if one[1] != "" {
			about = append(about, one[0], mover.Printable(one[1]))
		}
	}
	return about
}

// aboutEnd is what a log says of the end of a task.
func aboutEnd(t *pb.Task) []any {
	r := t.GetReport()
	took := time.Duration(0)
	if t.GetStartTime() != nil {
		took = t.GetEndTime().AsTime().Sub(t.GetStartTime().AsTime()).Round(time.Millisecond)
	}
	return []any{"state", task.Word(t.GetState()), "files", r.GetFiles(), "bytes", r.GetBytes(), "failed", r.GetFailed(), "took", took}
}

// unasked reports whether the service has set itself a task.
func unasked(spec *pb.TaskSpec) bool {
	return task.Of(spec).Housekeeping && spec.GetLabels()[task.AskedBy] == ""
}

// sample tells a scrape how things are.
func (s *metricsCollector) sample(m *telemetry.Sample) {
	s.sampleTasks(m)
	s.sampleAgents(m)
	if size, free, err := s.ledger.Size(); err == nil {
		m.Ledger(size, free, s.ledger.Sequence(), s.ledger.Admits() != nil)
	}
}

// sampleTasks tells of tasks, and of those that wait.
func (s *metricsCollector) sampleTasks(m *telemetry.Sample) {
	s.tallyMu.Lock()
	tally := s.tally
	s.tallyMu.Unlock()
	if tally != nil {
		counts := tally.Counts()
		for class := range classes {
			for state := range pb.TaskState_name {
				if k := (taskKind{class, pb.TaskState(state)}); state != 0 {
					m.Tasks(k.class, k.state, int(counts[k]))
				}
			}
		}
	}
	now := s.now()
	_ = s.ledger.View(func(tx *state.Tx) error { // what is not told is not there
		for class := range classes {
			t, err := state.OldestQueued(tx, class)
			if err != nil {
				return err
			}
			waits := time.Duration(0)
			if t != nil {
				waits = max(now.Sub(t.GetCreateTime().AsTime()), 0)
			}
			m.OldestQueued(class, waits)
		}
		return nil
	})
}

// sampleAgents tells of agents, of what they have in hand, and of the room that they see.
func (s *metricsCollector) sampleAgents(m *telemetry.Sample) {
	tiers := s.conf().Tiers
	for name, t := range tiers {
		m.Reached(name, s.readyFor(name))
		m.WaitingForRoom(name, 0)
		for _, room := range s.c.Rooms(name, t.NodeLocal) {
			m.Room(name, room.Node, room.GetTotalBytes(), room.GetFreeBytes())
		}
	}
	s.c.scheduler.mu.Lock()
	defer s.c.scheduler.mu.Unlock()
	leads, taken, queued, held := map[string]int{}, map[string]int{}, 0, 0
	for _, l := range s.c.scheduler.leads {
		leads[l.agent]++
		if l.task.GetPhase() == pausedPhase {
			m.WaitingForRoom(tierAt(l.task.GetSpec().GetTarget(), tiers), 1)
		}
		for _, b := range l.batches {
			switch b.meta.GetState() {
			case ledgerv1.BatchState_BATCH_STATE_WAITING:
				queued++
			case ledgerv1.BatchState_BATCH_STATE_TAKEN:
				taken[b.meta.GetAgent()]++
				held++
			}
		}
	}
	m.Batches(queued, held)
	all := make([]telemetry.Agent, 0, len(s.c.scheduler.agents))
	for name, n := range s.c.scheduler.agents {
		a := telemetry.Agent{Name: name, State: s.c.agents.stateOf(n, leads[name]+taken[name]), Leads: leads[name], Batches: taken[name]}
		if n.ready() {
			a.FreeLeads, a.FreeBatches = max(n.leads, 0), max(n.batches, 0)
		}
		all = append(all, a)
	}
	m.Agents(all)
}

// The phases of a task that waits, as package local has them.
const (
	pausedPhase  = "paused"  // for room
	waitingPhase = "waiting" // for a place
)

// readyFor is how many agents may be given work and reach a tier.
func (s *metricsCollector) readyFor(tier string) (n int) {
	s.c.scheduler.mu.Lock()
	defer s.c.scheduler.mu.Unlock()
	for _, a := range s.c.scheduler.agents {
		for _, r := range a.hello.GetReaches() {
			if r.GetTier() == tier && a.ready() {
				n++
			}
		}
	}
	return n
}

// tierAt is the tier that a location is in; "" is none.
func tierAt(text string, tiers map[string]config.Tier) string {
	l, err := convert.Locate(text)
	if err != nil { // it is empty
		return ""
	}
	paths := map[string]string{}
	for name, t := range tiers {
		if t.Path != "" {
			paths[name] = t.Path
		}
	}
	return convert.TierOf(l, paths)
}
