package agent

import (
	"context"
	"sync"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/agent/replicadir"
	"datamove.dev/mover/server/osaccount"
)

// gates remembers the accounts that were let in for the time of a task only.
type gates struct {
	mu  sync.Mutex
	all map[string]*gate // that are being set, or are lent; guarded by mu
}

type gate struct {
	spot replicadir.Path
	mu   sync.Mutex       // held while it is set: where a file system hangs, others do not
	uses int              // guarded by gates.mu
	lent map[uint32]*loan // by UID; guarded by mu
}

// loan is an entry of a UID that is to go again.
type loan struct {
	tasks int // that need it; none is left where the entry could not be removed
}

// at returns a gate to be set; it may be forgotten after done.
func (g *gates) at(spot replicadir.Path) (x *gate, done func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := spot.String()
	if x = g.all[name]; x == nil {
		x = &gate{spot: spot, lent: map[uint32]*loan{}}
		if g.all == nil {
			g.all = map[string]*gate{}
		}
		g.all[name] = x
	}
	x.uses++
	return x, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if x.uses--; x.uses == 0 && len(x.lent) == 0 {
			delete(g.all, name)
		}
	}
}

// set runs do with the gate of a spot, which no other task sets meanwhile. Entries that could not be removed when their tasks ended are removed first.
func (g *gates) set(spot replicadir.Path, do func(x *gate) error) error {
	x, done := g.at(spot)
	defer done()
	x.mu.Lock()
	defer x.mu.Unlock()
	for uid, l := range x.lent {
		if l.tasks == 0 {
			_ = x.shut(uid) // that it can not be done was logged when the task ended
		}
	}
	return do(x)
}

// keep runs do, which lets a UID in for good: no task shuts it out again when it ends.
func (g *gates) keep(spot replicadir.Path, uid uint32, do func() error) error {
	return g.set(spot, func(x *gate) error {
		err := do()
		if err == nil {
			delete(x.lent, uid)
		}
		return err
	})
}

// shut shuts a UID out, also one that tasks need.
func (g *gates) shut(spot replicadir.Path, uid uint32) error {
	return g.set(spot, func(x *gate) error { return x.shut(uid) })
}

// shut takes the entry of a UID away, and forgets its loan when that is done. The caller holds mu.
func (x *gate) shut(uid uint32) error {
	if err := x.spot.ShutOut(uid); err != nil {
		return err
	}
	delete(x.lent, uid)
	return nil
}

// lend lets a UID in until leave; leave is nil if it was in before.
func (g *gates) lend(spot replicadir.Path, uid uint32) (leave func() error, err error) {
	err = g.set(spot, func(x *gate) error {
		l := x.lent[uid]
		if l == nil || l.tasks == 0 {
			added, err := spot.Admit(uid)
			if err != nil || !added && l == nil {
				return err
			}
			l = &loan{}
			x.lent[uid] = l
		}
		l.tasks++
		leave = func() error { return g.leave(spot, uid, l) }
		return nil
	})
	return leave, err
}

// leave ends the need of a task. A loan that is none any more, because the UID was let in for good or shut out meanwhile, is not touched.
func (g *gates) leave(spot replicadir.Path, uid uint32, l *loan) error {
	return g.set(spot, func(x *gate) error {
		if l.tasks--; l.tasks > 0 || x.lent[uid] != l {
			return nil
		}
		return x.shut(uid)
	})
}

// lend lets the owner of a task in for as long as it lasts.
func (a *Agent) lend(p *process, at string, who osaccount.Account) error {
	spot, ok := a.spotOf(at)
	if !ok {
		return nil
	}
	leave, err := a.gates.lend(spot, who.UID)
	if leave != nil {
		p.lent = append(p.lent, func() {
			if err := leave(); err != nil {
				a.log.Warn("an account can still enter a replica; the next task that sets its gate shuts it out", "uid", who.UID, "replica", spot.String(), "err", err)
			}
		})
	}
	if powerless(err) {
		return nil
	}
	return err
}

// leaveShelf shuts the gates that were opened for a process that has ended, or has not begun.
func (p *process) leaveShelf() {
	p.sealing.Lock() // what it has us do ends with it
	defer p.sealing.Unlock()
	for _, leave := range p.lent {
		leave()
	}
}

// letIn lets an account in for good, if this node has it with the same UID.
func (a *Agent) letIn(spot replicadir.Path, o *pb.Account) error {
	who, err := a.accountOf(context.Background(), o)
	if err != nil {
		return err
	}
	err = a.gates.keep(spot, who.UID, func() error { _, _, err := spot.LetIn(who.UID); return err })
	if powerless(err) {
		return nil
	}
	return err
}
