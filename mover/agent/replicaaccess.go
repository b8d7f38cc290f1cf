package agent

import (
	"context"
	"sync"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/agent/replicadir"
	"datamove.dev/mover/server/osaccount"
)

// accessLists remembers the accounts that were let in for the time of a task only.
type accessLists struct {
	mu  sync.Mutex
	all map[string]*accessList // that are being set, or have temporary entries; guarded by mu
}

type accessList struct {
	replica   replicadir.Path
	mu        sync.Mutex                 // held while it is set: where a file system hangs, others do not
	uses      int                        // guarded by accessLists.mu
	temporary map[uint32]*temporaryEntry // by UID; guarded by mu
}

// temporaryEntry is an entry of a UID that is to go again.
type temporaryEntry struct {
	tasks int // that need it; none is left where the entry could not be removed
}

// at returns the ACL of a replica to be set; it may be forgotten after done.
func (g *accessLists) at(folder replicadir.Path) (x *accessList, done func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := folder.String()
	if x = g.all[name]; x == nil {
		x = &accessList{replica: folder, temporary: map[uint32]*temporaryEntry{}}
		if g.all == nil {
			g.all = map[string]*accessList{}
		}
		g.all[name] = x
	}
	x.uses++
	return x, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if x.uses--; x.uses == 0 && len(x.temporary) == 0 {
			delete(g.all, name)
		}
	}
}

// set runs do with the ACL of a replica, which no other task sets meanwhile. Entries that could not be removed when their tasks ended are removed first.
func (g *accessLists) set(folder replicadir.Path, do func(x *accessList) error) error {
	x, done := g.at(folder)
	defer done()
	x.mu.Lock()
	defer x.mu.Unlock()
	for uid, l := range x.temporary {
		if l.tasks == 0 {
			_ = x.remove(uid) // that it can not be done was logged when the task ended
		}
	}
	return do(x)
}

// addPermanent runs do, which lets a UID in for good: no task shuts it out again when it ends.
func (g *accessLists) addPermanent(folder replicadir.Path, uid uint32, do func() error) error {
	return g.set(folder, func(x *accessList) error {
		err := do()
		if err == nil {
			delete(x.temporary, uid)
		}
		return err
	})
}

// remove shuts a UID out, also one that tasks need.
func (g *accessLists) remove(folder replicadir.Path, uid uint32) error {
	return g.set(folder, func(x *accessList) error { return x.remove(uid) })
}

// remove takes the entry of a UID away, and forgets that it was temporary when that is done. The caller holds mu.
func (x *accessList) remove(uid uint32) error {
	if err := x.replica.ShutOut(uid); err != nil {
		return err
	}
	delete(x.temporary, uid)
	return nil
}

// addTemporary lets a UID in until leave; leave is nil if it was in before.
func (g *accessLists) addTemporary(folder replicadir.Path, uid uint32) (leave func() error, err error) {
	err = g.set(folder, func(x *accessList) error {
		l := x.temporary[uid]
		if l == nil || l.tasks == 0 {
			added, err := folder.Admit(uid)
			if err != nil || !added && l == nil {
				return err
			}
			l = &temporaryEntry{}
			x.temporary[uid] = l
		}
		l.tasks++
		leave = func() error { return g.removeTemporary(folder, uid, l) }
		return nil
	})
	return leave, err
}

// removeTemporary ends the need of a task. An entry that is not temporary any more, because the UID was let in for good or shut out meanwhile, is not touched.
func (g *accessLists) removeTemporary(folder replicadir.Path, uid uint32, l *temporaryEntry) error {
	return g.set(folder, func(x *accessList) error {
		if l.tasks--; l.tasks > 0 || x.temporary[uid] != l {
			return nil
		}
		return x.remove(uid)
	})
}

// grantTemporary lets the owner of a task in for as long as it lasts.
func (a *Agent) grantTemporary(p *process, at string, who osaccount.Account) error {
	folder, ok := a.replicaAt(at)
	if !ok {
		return nil
	}
	leave, err := a.accessLists.addTemporary(folder, who.UID)
	if leave != nil {
		p.revocations = append(p.revocations, func() {
			if err := leave(); err != nil {
				a.log.Warn("an account can still enter a replica; the next task that sets its gate shuts it out", "uid", who.UID, "replica", folder.String(), "err", err)
			}
		})
	}
	if powerless(err) {
		return nil
	}
	return err
}

// leaveReplicas takes back the access that was given to a process that has ended, or has not begun.
func (p *process) leaveReplicas() {
	p.sealing.Lock() // what it has us do ends with it
	defer p.sealing.Unlock()
	for _, leave := range p.revocations {
		leave()
	}
}

// grantPermanent lets an account in for good, if this node has it with the same UID.
func (a *Agent) grantPermanent(folder replicadir.Path, o *pb.Account) error {
	who, err := a.accountOf(context.Background(), o)
	if err != nil {
		return err
	}
	err = a.accessLists.addPermanent(folder, who.UID, func() error { _, _, err := folder.LetIn(who.UID); return err })
	if powerless(err) {
		return nil
	}
	return err
}
