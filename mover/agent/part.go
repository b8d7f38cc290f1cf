package agent

import agentv1 "datamove.dev/api/datamove/agent/v1"

// part is told what the process of a task may read from now on, of the limit that holds
// for all processes of the task. It is told again and again, so who is not there yet
// hears of it later.
func (a *Agent) part(task string, leadEpoch uint64, bytesPerSecond int64) {
	a.mu.Lock()
	p := a.procs[task]
	a.mu.Unlock()
	if p == nil || p.epoch != leadEpoch || bytesPerSecond <= 0 {
		return
	}
	p.mu.Lock()
	same := p.part == bytesPerSecond
	p.part = bytesPerSecond
	p.mu.Unlock()
	if !same {
		p.send(&agentv1.WorkerOrder{What: &agentv1.WorkerOrder_Part{Part: &agentv1.WorkerPart{BytesPerSecond: bytesPerSecond}}})
	}
}
