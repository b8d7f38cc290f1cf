package agent

import (
	"context"
	"sync"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/backend"
	"datamove.dev/mover/config"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/p2p/peer"
	"datamove.dev/mover/task/convert"
)

// nodeExports are the directories that this node exports, by task.
type nodeExports struct {
	places map[string]mover.Backend // used by the goroutine of the orders alone

	mu     sync.Mutex
	orders []*agentv1.Lend // that are not done yet; guarded by mu
	busy   bool            // a goroutine does them; guarded by mu
}

// queueExport has an order done after those before it. It does not wait.
func (a *Agent) queueExport(ctx context.Context, o *agentv1.Lend) {
	l := &a.nodeExports
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.orders = append(l.orders, o); a.o.Peers == nil || l.busy {
		return
	}
	l.busy = true
	go func() {
		for o := l.next(); o != nil; o = l.next() {
			a.export(ctx, o)
		}
	}()
}

// next is the order that is to be done; nil is none.
func (l *nodeExports) next() *agentv1.Lend {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy = len(l.orders) > 0; !l.busy {
		return nil
	}
	o := l.orders[0]
	l.orders = l.orders[1:]
	return o
}

// export lets a task on another node read a directory, or ends that. It may wait for the file system.
func (a *Agent) export(ctx context.Context, o *agentv1.Lend) {
	id := "lent to " + o.GetTask()
	a.o.Peers.Server.Shut(id)
	if old := a.nodeExports.places[id]; old != nil {
		_ = old.Close() // it was only read
		delete(a.nodeExports.places, id)
	}
	if o.GetTicket() == "" {
		return
	}
	place, err := a.openExport(ctx, o.GetLocation())
	if err != nil {
		a.log.Warn("a directory can not be lent to another node", "location", mover.Printable(o.GetLocation()), "task", o.GetTask(), "err", err)
		return
	}
	if a.nodeExports.places == nil {
		a.nodeExports.places = map[string]mover.Backend{}
	}
	a.nodeExports.places[id] = place
	a.o.Peers.Server.Open(id, o.GetTicket(), peer.Export(place))
}

// openExport opens a directory of a tier, from the root of that on, and over no symbolic link.
func (a *Agent) openExport(ctx context.Context, text string) (mover.Backend, error) {
	l, err := convert.Locate(text)
	if err != nil {
		return nil, err
	}
	s := backend.Resolver{Tiers: map[string]config.Tier{l.Tier: a.conf().Tiers[l.Tier]}, Closed: true, Strict: true, Mounts: a.mounts()}
	at, ok := s.Resolve(l)
	if !ok {
		return nil, mover.ErrNotExist
	}
	return s.Open(ctx, at, engine.OpenOptions{Logger: a.log})
}

// importFrom gives a process what another node exports to it.
func (a *Agent) importFrom(p *process, from *agentv1.Lent) {
	if from != nil && a.o.Peers != nil {
		p.job.Lent, p.job.Authorities = from, a.o.Peers.Authorities()
	}
}
