package fairshare

import (
	"time"

	datamovev1 "datamove.dev/api/datamove/v1"
)

// Use is what was wanted of a node and given.
type Use struct {
	Waiting int           // turns that wait now
	Running int           // turns that run now
	Turns   int64         // that have ended
	Waited  time.Duration // for turns, also those that still wait, summed
	Served  Cost          // of the turns that have ended
	Price   int64         // of these: bytes, and OpBytes for each operation; at least one per turn
}

func (u *Use) count(c Cost, price int64) {
	u.Turns++
	u.Served.Bytes += max(c.Bytes, 0)
	u.Served.Ops += max(c.Ops, 0)
	u.Price += price
}

// Snapshot is a scheduler at one moment.
type Snapshot struct {
	Slots   int
	Total   Use
	Classes map[datamovev1.TaskClass]Use // each of the six, from the beginning
	// Flows are those that want something, and of the others those that did so last,
	// 4,096 at most. A flow that was forgotten begins again at zero.
	Flows map[Flow]Use
}

// Snapshot returns what waits, what runs, and what was served.
func (s *Scheduler) Snapshot() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := Snapshot{Slots: s.slots, Total: s.root.use,
		Classes: make(map[datamovev1.TaskClass]Use, len(s.classes)), Flows: make(map[Flow]Use, len(s.tasks))}
	for c, p := range s.classes {
		all.Classes[c] = p.use
	}
	now := time.Now()
	for f, p := range s.tasks {
		all.Flows[f] = p.use
		all.add(f, p.waitingFor(now))
	}
	return all
}

// add adds a wait that goes on to all sums that it belongs to.
func (all *Snapshot) add(f Flow, d time.Duration) {
	if d == 0 {
		return
	}
	flow, class := all.Flows[f], all.Classes[f.Class]
	flow.Waited += d
	class.Waited += d
	all.Flows[f], all.Classes[f.Class] = flow, class
	all.Total.Waited += d
}

// waitingFor is how long the turns of a task that wait have done so by now.
func (p *group) waitingFor(now time.Time) (d time.Duration) {
	for e := p.queue.Front(); e != nil; e = e.Next() {
		d += now.Sub(e.Value.(*turn).since)
	}
	return d
}
