package agent

import (
	"context"
	"sync"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/replicadir"
	"datamove.dev/mover/server/osaccount"
)

// gates remembers the accounts that were let in for the time of a task only.
type gates struct {
	mu  sync.Mutex
	all map[string]*gate // that are being set, or are lent; guarded by mu
}

type gate struct {
	mu   sync.Mutex     // held while it is set: where a file system hangs, others do not
	uses int            // guarded by gates.mu
	lent map[uint32]int // tasks for which a UID is in; guarded by mu
}

// at returns a gate to be set; it may be forgotten after done.
func (g *gates) at(spot replicadir.Path) (x *gate, done func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := spot.String()
	if x = g.all[name]; x == nil {
		x = &gate{lent: map[uint32]int{}}
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

// keep runs do, which lets a UID in for good: no task shuts it out again when it ends.
func (g *gates) keep(spot replicadir.Path, uid uint32, do func()) {
	x, done := g.at(spot)
	defer done()
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.lent, uid)
	do()
}

// lend lets a UID in until leave; leave is nil if it was in before.
func (g *gates) lend(spot replicadir.Path, uid uint32) (leave func() error, err error) {
	x, done := g.at(spot)
	defer done()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.lent[uid] == 0 {
		if added, err := spot.Lend(uid); !added {
			return nil, err
		}
	}
	x.lent[uid]++
	return func() error { return g.leave(spot, uid) }, nil
}

func (g *gates) leave(spot replicadir.Path, uid uint32) error {
	x, done := g.at(spot)
	defer done()
	x.mu.Lock()
	defer x.mu.Unlock()
	switch x.lent[uid] {
	case 0: // in for good
		return nil
	case 1:
		delete(x.lent, uid)
		return spot.ShutOut(uid)
	}
	x.lent[uid]--
	return nil
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
				a.log.Warn("somebody can still enter a replica", "uid", who.UID, "replica", spot.String(), "err", err)
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
	a.gates.keep(spot, who.UID, func() { _, _, err = spot.LetIn(who.UID) })
	if powerless(err) {
		return nil
	}
	return err
}
