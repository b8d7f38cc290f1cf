package agent

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/fairshare"
	"datamove.dev/mover/task/convert"
	"datamove.dev/mover/telemetry"
)

// counted tells metrics what a process has done since it told last. What a process
// says of tiers that there are not counts as "other": telemetry sees to that.
func (p *process) counted(now *agentv1.Counts) {
	p.counts.Lock()
	defer p.counts.Unlock()
	was := p.told
	if now.GetNumber() <= was.GetNumber() { // it was overtaken on its way
		return
	}
	p.told = now
	m, spec := p.agent.o.Metrics, p.task.GetSpec()
	m.Moved(p.moves, now.GetFiles()-was.GetFiles(), now.GetBytes()-was.GetBytes())
	m.FromPeers(spec.GetClass(), now.GetPeerBytes()-was.GetPeerBytes())
	m.MovedFor(spec.GetClass(), spec.GetProject(), now.GetBytes()-was.GetBytes())
	for kind, n := range now.GetErrors() {
		m.FailedKind(kind, n-was.GetErrors()[kind])
	}
	before := map[string]*agentv1.TierCounts{}
	for _, t := range was.GetTiers() {
		before[t.GetTier()] = t
	}
	read, written := int64(0), int64(0)
	for _, t := range now.GetTiers() {
		was := before[t.GetTier()]
		countTier(m, t, was)
		read += t.GetReadBytes() - was.GetReadBytes()
		written += t.GetWrittenBytes() - was.GetWrittenBytes()
	}
	p.agent.passed.Add(max(read, written)) // what is compared is not written
}

func countTier(m *telemetry.Metrics, now, was *agentv1.TierCounts) {
	tier := now.GetTier()
	m.Transferred(tier, telemetry.Read, now.GetReadBytes()-was.GetReadBytes())
	m.Transferred(tier, telemetry.Write, now.GetWrittenBytes()-was.GetWrittenBytes())
	for op, n := range now.GetOperations() {
		m.Operations(tier, telemetry.Op(op), n-was.GetOperations()[op])
	}
	m.Retried(tier, now.GetRetries()-was.GetRetries())
	m.Mismatched(tier, now.GetMismatches()-was.GetMismatches())
	m.Removed(tier, now.GetRemoved()-was.GetRemoved())
	for range min(now.GetRoomPauses()-was.GetRoomPauses(), pausesMost) {
		m.PausedForRoom(tier)
	}
}

// pausesMost is more pauses than there are between two words of a process.
const pausesMost = 1000

// limitWaited tells metrics that a transfer waited for the limits of its ends.
func (a *Agent) limitWaited(ends []fairshare.Charge, d time.Duration) {
	if d <= 0 {
		return
	}
	for _, c := range ends {
		if !a.turns.limits(fairshare.Direction{Endpoint: c.Endpoint, Write: c.Write}) {
			continue
		}
		direction := telemetry.Read
		if c.Write {
			direction = telemetry.Write
		}
		a.o.Metrics.LimitWaited(c.Endpoint, direction, d)
	}
}

// movesOf is from where to where a task moves; of several sources, it is the first.
func (a *Agent) movesOf(spec *pb.TaskSpec) telemetry.Flow {
	from := spec.GetSource()
	if from == "" && len(spec.GetSources()) > 0 {
		from = spec.GetSources()[0]
	}
	return telemetry.Flow{Source: a.tierOf(from), Target: a.tierOf(spec.GetTarget()), Class: spec.GetClass()}
}

func (a *Agent) tierOf(text string) string {
	l, err := convert.Locate(text)
	if err != nil { // it is empty, and in no tier
		return ""
	}
	return convert.TierOf(l, a.tierPaths())
}

// mounts are the kinds of file systems that have to be at paths.
func (a *Agent) mounts() map[string]string {
	kinds := map[string]string{}
	for _, t := range a.conf().Tiers {
		if t.Kind != "" {
			kinds[t.Path] = t.Kind
		}
	}
	return kinds
}

// keepFree says how much of which tier nothing is written into.
func (a *Agent) keepFree() map[string]int32 {
	percents := map[string]int32{}
	for _, t := range a.conf().Tiers {
		if t.KeepFree > 0 {
			percents[t.Path] = int32(t.KeepFree)
		}
	}
	return percents
}

// tierPaths is where tiers are on this node.
func (a *Agent) tierPaths() map[string]string {
	paths := map[string]string{}
	for name, t := range a.conf().Tiers {
		if t.Path != "" {
			paths[name] = t.Path
		}
	}
	return paths
}

// sample tells a scrape of the processes that there are.
func (a *Agent) sample(s *telemetry.Sample) {
	a.mu.Lock()
	pids := make([]int, 0, len(a.procs))
	for _, p := range a.procs {
		pids = append(pids, p.acting.PID())
	}
	a.mu.Unlock()
	memory := int64(0)
	for _, pid := range pids {
		memory += resident(pid)
	}
	s.Workers(len(pids), memory)
}

// resident is the memory of a process; 0 when it is gone.
func resident(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	fields := bytes.Fields(text)
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
