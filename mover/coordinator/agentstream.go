package coordinator

import (
	"context"
	"errors"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
)

func durationOf(d time.Duration) *durationpb.Duration { return durationpb.New(d) }

// ordersMost is how many orders may wait for an agent to read them.
const ordersMost = 4096

// Attend implements agentv1.LinkServiceServer.
func (s *agentServer) Attend(stream grpc.BidiStreamingServer[agentv1.Status, agentv1.Order]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	name := authz.From(stream.Context()).Agent
	h := first.GetHello()
	if h == nil || h.GetName() != name {
		return mover.Usagef("an agent that begins with %q is %q", h.GetName(), name)
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	orders := make(chan *agentv1.Order, ordersMost)
	if err := s.connect(ctx, name, first, orders, cancel); err != nil {
		return err
	}
	heard := make(chan error, 1)
	go func() { heard <- s.receive(ctx, name, orders, stream) }()
	defer s.disconnect(name, orders)
	for {
		select {
		case o := <-orders:
			if err := stream.Send(o); err != nil {
				return err
			}
		case err := <-heard:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// receive takes what an agent says.
func (s *agentServer) receive(ctx context.Context, name string, orders chan *agentv1.Order, stream grpc.BidiStreamingServer[agentv1.Status, agentv1.Order]) error {
	for {
		st, err := stream.Recv()
		if err != nil {
			return err
		}
		s.c.scheduler.mu.Lock()
		n := s.c.scheduler.agents[name]
		if n == nil || n.orders != orders {
			s.c.scheduler.mu.Unlock()
			return &mover.Error{Op: "attend", Location: "agent " + name, Err: mover.ErrHeld} // another conversation has begun
		}
		freed := s.note(n, st)
		s.c.scheduler.mu.Unlock()
		if freed {
			s.c.hurry()
		}
	}
}

// connect begins the conversation of an agent in the place of an older one, and compares
// what it has with what we think that it has.
func (s *agentServer) connect(ctx context.Context, name string, st *agentv1.Status, orders chan *agentv1.Order, end context.CancelFunc) error {
	h := st.GetHello()
	now := s.now()
	if err := s.recordAgent(ctx, name, h, now); err != nil {
		return err
	}
	s.c.scheduler.mu.Lock()
	if err := s.c.enroll.Trusts(authz.From(ctx)); err != nil { // it may have been forgotten just now
		s.c.scheduler.mu.Unlock()
		return err
	}
	n := s.c.scheduler.agents[name]
	if n == nil {
		n = &node{name: name, joined: now}
		s.c.scheduler.agents[name] = n
	}
	if n.orders != nil {
		n.end()
	}
	n.address = addressOf(ctx)
	n.hello, n.orders, n.end, n.room = h, orders, end, map[string]*agentv1.Room{}
	n.letGoBut(st.GetSessions())
	has := map[string]uint64{}
	for _, ses := range st.GetSessions() {
		has[ses.GetTask()+"/"+ses.GetBatch()] = ses.GetEpoch()
		s.tellLost(n, ses)
	}
	var lost []*lead
	for id, l := range s.c.scheduler.leads {
		if l.agent == name && has[id+"/"] != l.epoch {
			lost = append(lost, l)
		}
		for _, b := range l.batches {
			if b.meta.GetState() == ledgerv1.BatchState_BATCH_STATE_TAKEN && b.meta.GetAgent() == name && has[id+"/"+b.meta.GetId()] != b.meta.GetEpoch() {
				s.c.scheduler.takeBack(ctx, l, b)
			}
		}
	}
	s.c.scheduler.heardParts(n, st)
	s.c.scheduler.tellSwarms(name)
	s.c.scheduler.tellLents(name)
	s.c.scheduler.sendLimits() // before it is given anything that they are about
	s.tellLacks(n)
	s.note(n, st)
	s.c.scheduler.mu.Unlock()
	for _, l := range lost {
		s.c.scheduler.lose(ctx, l, "agent "+name+" has begun anew without it")
	}
	s.c.hurry()
	return nil
}

// addressOf is the host that an agent calls from; "" is this one.
func addressOf(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	host, _, err := net.SplitHostPort(p.Addr.String())
	if err != nil {
		return ""
	}
	return host
}

// tellLost tells an agent that it has lost what it says that it has, if so. scheduler.mu is held.
func (s *agentServer) tellLost(n *node, ses *agentv1.Session) {
	l := s.c.scheduler.leads[ses.GetTask()]
	switch {
	case l != nil && ses.GetBatch() == "" && l.agent == n.name && l.epoch == ses.GetEpoch():
		if l.want != 0 { // it may not have heard of it
			s.c.steering.tellWant(l)
		}
		return
	case l != nil && ses.GetBatch() != "" && l.batches[ses.GetBatch()] != nil && l.batches[ses.GetBatch()].meta.GetEpoch() == ses.GetEpoch():
		return
	}
	s.c.scheduler.endOrphans(n, ses)
	s.c.scheduler.send(n.name, &agentv1.Order{What: &agentv1.Order_Stop{Stop: &agentv1.Stop{Task: ses.GetTask(), Batch: ses.GetBatch(), Epoch: ses.GetEpoch(), How: agentv1.How_HOW_LOST}}})
}

// disconnect ends a conversation. What the agent has it keeps, for a lease.
func (s *agentServer) disconnect(name string, orders chan *agentv1.Order) {
	s.c.scheduler.mu.Lock()
	defer s.c.scheduler.mu.Unlock()
	if n := s.c.scheduler.agents[name]; n != nil && n.orders == orders {
		n.orders = nil
	}
}

// note takes over what an agent says of itself. It reports whether there is more room
// for work. scheduler.mu is held.
func (s *agentServer) note(n *node, st *agentv1.Status) (freed bool) {
	freed = int(st.GetLeadSlots()) > n.leads || int(st.GetBatchSlots()) > n.batches || st.GetLeaving() != n.leaving
	n.seen, n.leads, n.batches, n.leaving = s.now(), int(st.GetLeadSlots()), int(st.GetBatchSlots()), st.GetLeaving()
	if h := st.GetHello(); h.GetName() == n.name && h != n.hello { // what it reaches is something else
		n.hello, n.room, freed = h, map[string]*agentv1.Room{}, true
	}
	for _, r := range st.GetRoom() {
		n.room[r.GetTier()] = r
	}
	n.rate, n.full = st.GetBytesPerSecond(), st.GetFull()
	if n.journals == nil || st.GetSeq() == 1 {
		n.journals = map[string]*agentv1.Journals{}
	}
	for _, j := range st.GetJournals() {
		n.journals[state.User(j.GetOwner())] = j
	}
	s.c.scheduler.heardParts(n, st)
	n.slots = n.leads
	for _, ses := range st.GetSessions() {
		l := s.c.scheduler.leads[ses.GetTask()]
		if ses.GetBatch() == "" && (l == nil || !task.Of(l.task.GetSpec()).Standing) {
			n.slots++
		}
		if l != nil && ses.GetBatch() == "" && l.agent == n.name && l.epoch == ses.GetEpoch() {
			if !l.heard {
				l.heard, freed = true, true
			}
			s.progress(l, ses)
		}
	}
	s.c.scheduler.send(n.name, &agentv1.Order{Seen: st.GetSeq()})
	return freed
}

// progress takes over how a lead does. scheduler.mu is held.
func (s *agentServer) progress(l *lead, ses *agentv1.Session) {
	t := l.task
	if l.closing {
		return
	}
	if l.want == 0 {
		t.Phase, t.Why = ses.GetPhase(), ses.GetWhy()
	}
	t.Progress = ses.GetProgress()
	s.firstByte(t, ses.GetFirstByteTime())
	s.c.scheduler.changed(t)
}

// firstByte notes when the first byte of a task has passed, once.
func (s *agentServer) firstByte(t *pb.Task, at *timestamppb.Timestamp) {
	if t.GetFirstByteTime() == nil && at != nil {
		t.FirstByteTime = at
		s.o.Metrics.TaskFirstByte(t.GetSpec().GetClass(), at.AsTime().Sub(t.GetCreateTime().AsTime()))
	}
}

// held returns the lead that the caller has. scheduler.mu is held.
func (s *agentServer) held(ctx context.Context, id string, epoch uint64) (*lead, error) {
	l := s.c.scheduler.leads[id]
	agent := authz.From(ctx).Agent
	n := s.c.scheduler.agents[agent]
	if l == nil || l.epoch != epoch || l.agent != agent || n == nil {
		return nil, &mover.Error{Op: "lead", Location: "task " + mover.Printable(id), Err: errLost}
	}
	n.seen = s.now()
	return l, nil
}

// errLost is the answer to an agent that acts for a lead or a batch that it does not have any more.
var errLost = errors.Join(mover.ErrHeld)

// Confirm implements agentv1.LinkServiceServer.
func (s *agentServer) Confirm(ctx context.Context, r *agentv1.ConfirmRequest) (*agentv1.ConfirmResponse, error) {
	t, err := s.confirm(ctx, r)
	if err != nil || t == nil || r.GetHolder() == 0 {
		return &agentv1.ConfirmResponse{}, err
	}
	over, err := s.c.scheduler.isOver(t, r.GetHolder())
	return &agentv1.ConfirmResponse{Over: over}, err
}

// isOver reports whether an epoch was that of a lead at the target of a task, and none has it now: its worker may live, and publishes nothing.
func (s *scheduler) isOver(t *pb.Task, epoch uint64) (bool, error) {
	ours, err := s.order.Led(t, epoch)
	if err != nil || !ours {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.leads {
		if l.epoch == epoch {
			return false, nil
		}
	}
	return true, nil
}

// confirm returns the task of the lead; nil where a batch is asked for.
func (s *agentServer) confirm(ctx context.Context, r *agentv1.ConfirmRequest) (*pb.Task, error) {
	s.c.scheduler.mu.Lock()
	defer s.c.scheduler.mu.Unlock()
	if r.GetBatch() == "" {
		l, err := s.held(ctx, r.GetTask(), r.GetEpoch())
		if err != nil {
			return nil, err
		}
		return l.task, nil
	}
	_, _, err := s.c.scheduler.heldBatch(ctx, r.GetTask(), r.GetBatch(), r.GetEpoch())
	return nil, err
}

// pieceMost bounds a piece of a draft, which has some thousand receipts.
const pieceMost = 256 << 10

// Keep implements agentv1.LinkServiceServer.
func (s *agentServer) Keep(ctx context.Context, r *agentv1.KeepRequest) (*agentv1.KeepResponse, error) {
	s.c.scheduler.mu.Lock()
	_, err := s.held(ctx, r.GetTask(), r.GetEpoch())
	s.c.scheduler.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if len(r.GetDraft()) > 8<<10 {
		return nil, mover.Usagef("a draft's name of %d bytes", len(r.GetDraft()))
	}
	if len(r.GetPiece()) > pieceMost {
		return nil, mover.Usagef("a piece of a draft of %d bytes; at most %d are possible", len(r.GetPiece()), pieceMost)
	}
	return &agentv1.KeepResponse{}, s.ledger.Update(ctx, state.Soon, func(tx *state.Tx) error {
		switch {
		case !r.GetOn():
			return dropDraft(tx, r.GetTask(), r.GetDraft())
		case r.GetPiece() != nil:
			return state.Pieces.Put(tx, &ledgerv1.Piece{Task: r.GetTask(), Draft: r.GetDraft(), Number: r.GetNumber(), Data: r.GetPiece()})
		}
		return state.Drafts.Put(tx, &ledgerv1.Draft{Task: r.GetTask(), Name: r.GetDraft(), Epoch: r.GetEpoch()})
	})
}
