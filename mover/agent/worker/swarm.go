package worker

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/p2p"
	"datamove.dev/mover/p2p/peer"
)

// member is this process among those that bring the same dataset to their nodes. A nil one is none.
type member struct {
	*p2p.Swarm
	agent  agent
	self   string
	client *peer.Client
	log    *slog.Logger
	ctx    context.Context // of what is given to others

	mu     sync.Mutex
	left   bool           // nothing is given any more; guarded by mu
	giving sync.WaitGroup // added to with mu held, before left
	cancel context.CancelFunc
}

// joinSwarm makes this process the member that its job says that it is.
func (w *worker) joinSwarm(ctx context.Context) (*member, error) {
	o := w.order.GetSwarm()
	if o == nil {
		return nil, nil
	}
	client, err := w.PeerClient(o.GetTicket())
	if err != nil {
		return nil, err
	}
	m := &member{agent: w.agent, self: w.order.GetSelf(), client: client, log: w.log}
	m.ctx, m.cancel = context.WithCancel(ctx)
	m.Swarm = p2p.New(p2p.Options{PieceBytes: o.GetPieceBytes(), Peers: m, View: m.view(o), Pay: w.agent.pay, Logger: w.log})
	return m, nil
}

func (m *member) view(o *agentv1.Swarm) p2p.View {
	v := p2p.View{Self: m.self, Since: o.GetOlderHomes()}
	for _, x := range o.GetMembers() {
		v.Members = append(v.Members, p2p.Member{Name: x.GetAgent(), Address: x.GetAddress(), Seed: x.GetSeed()})
	}
	for _, h := range o.GetHomes() {
		v.Homes = append(v.Homes, h.GetAgents())
	}
	return v
}

// leave ends the membership. A node that waits for a piece of this one has to ask another one.
func (m *member) leave() {
	if m == nil {
		return
	}
	m.mu.Lock()
	m.left = true
	m.mu.Unlock()
	m.cancel()
	m.giving.Wait()
	m.Close()
	if n := m.Counts(); n.Fetched > 0 {
		m.log.Info("it came from other nodes, too", "fetched", n.Fetched, "read for all", n.Read, "of these unsure", n.Unsure, "read alone", n.Direct)
	}
	m.client.Close()
}

// receive says whether an order is about the swarm, and does it.
func (m *member) receive(o *agentv1.WorkerOrder) bool {
	switch {
	case m == nil:
		return false
	case o.GetSwarm() != nil:
		m.client.Present(o.GetSwarm().GetTicket())
		m.Update(m.view(o.GetSwarm()))
	case o.GetWant() != nil:
		m.wanted(o.GetWant())
	default:
		return false
	}
	return true
}

// fetched is how many bytes came from other nodes.
func (m *member) fetched() int64 {
	if m == nil {
		return 0
	}
	return m.Counts().Fetched
}

// notes is what a report says of it.
func (m *member) notes() []string {
	if m == nil || m.fetched() == 0 {
		return nil
	}
	n := m.Counts()
	return []string{fmt.Sprintf("%d bytes came from other nodes, and %d from the source", n.Fetched, n.Read+n.Direct)}
}

// wanted begins to give a piece, or says that nothing is given any more.
func (m *member) wanted(want *agentv1.WantPiece) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left {
		return // the agent knows when this process has gone
	}
	m.giving.Go(func() { m.give(want) })
}

// give answers an agent that wants a piece for another node.
func (m *member) give(want *agentv1.WantPiece) {
	p, err := peer.Decode(want.GetPiece())
	var data []byte
	done := func() {}
	if err == nil {
		data, done, err = m.Give(m.ctx, p, want.GetAtHome())
	}
	if err == nil {
		err = m.send(m.ctx, &agentv1.GiveRequestPart{Id: want.GetId()}, data)
		done()
	}
	if err != nil {
		_ = m.send(m.ctx, &agentv1.GiveRequestPart{Id: want.GetId(), ErrorKind: mover.KindName(err), Error: err.Error()}, nil) // else it is gone
	}
}

// messageBytes is how much of a piece goes in one message.
const messageBytes = 1 << 20

// send gives the agent a piece, or says why not.
func (m *member) send(ctx context.Context, first *agentv1.GiveRequestPart, data []byte) error {
	stream, err := m.agent.WorkerServiceClient.Give(ctx)
	if err != nil {
		return FromAgent(ctx, err)
	}
	for part := first; ; part = new(agentv1.GiveRequestPart) {
		n := min(len(data), messageBytes)
		part.Data, data = data[:n], data[n:]
		if stream.Send(part) != nil || len(data) == 0 {
			break // CloseAndRecv says why
		}
	}
	_, err = stream.CloseAndRecv()
	return FromAgent(ctx, err)
}

// Get implements p2p.Peers.
func (m *member) Get(ctx context.Context, to p2p.Member, p *p2p.Piece, atHome bool, into []byte) error {
	return m.client.Get(ctx, to, p, atHome, into)
}

// Put implements p2p.Peers.
func (m *member) Put(ctx context.Context, p *p2p.Piece, data []byte) error {
	return m.send(ctx, &agentv1.GiveRequestPart{Piece: peer.Encode(p)}, data)
}
