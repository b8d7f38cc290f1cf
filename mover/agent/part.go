package agent

import (
	"cmp"

	agentv1 "datamove.dev/api/datamove/agent/v1"
)

// part is told what the process of a task may read from now on, of the limit that holds
// for all processes of the task. It is told again and again, until this agent has said
// that its process has heard of it.
func (a *Agent) part(task string, leadEpoch uint64, bytesPerSecond int64) {
	a.mu.Lock()
	p := a.procs[task]
	a.mu.Unlock()
	if p == nil || p.epoch != leadEpoch || bytesPerSecond <= 0 {
		return
	}
	if p.part.Load() != bytesPerSecond {
		p.send(&agentv1.WorkerOrder{What: &agentv1.WorkerOrder_Part{Part: &agentv1.WorkerPart{BytesPerSecond: bytesPerSecond}}})
		p.part.Store(bytesPerSecond)
		a.hurry() // other processes wait until the coordinator knows what this one gives away
	}
}

// limit is what a process may read as it begins.
func (p *process) limit(bytesPerSecond int64) {
	p.job.BytesPerSecond = bytesPerSecond
	p.part.Store(cmp.Or(bytesPerSecond, p.task.GetSpec().GetOptions().GetBytesPerSecond()))
}
