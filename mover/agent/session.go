package agent

import (
	"context"
	"errors"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/agent/worker"
	"datamove.dev/mover/remedy"
	"datamove.dev/mover/server/osaccount"
	"datamove.dev/mover/task"
)

// session is a lead or a batch.
type session struct {
	epoch uint64
	stays bool        // its task goes on until it is cancelled
	span  string      // what it is part of, of a batch; "" is no trace
	proc  *process    // nil while it is started; guarded by Agent.mu, as stop
	stop  agentv1.How // how it is to be let go of, told while it was started

	mu       sync.Mutex
	status   *agentv1.WorkerStatus // the last one of the process, which its other sessions read too; guarded by mu, as all below
	progress *pb.Progress          // of status, with what the agent knows; a new one each time, for the last one may be on its way
	limited  float64               // bytes per second that the process reads within the limit of its task
	wanted   int                   // batches that others would take
	others   int32                 // agents that take them
	more     chan struct{}         // closed when wanted grows
}

func newSession(epoch uint64) *session { return &session{epoch: epoch, more: make(chan struct{})} }

// sessionOf is that of a lead.
func sessionOf(l *agentv1.Lead) *session {
	s := newSession(l.GetEpoch())
	s.stays = task.Of(l.GetSpec()).Standing
	return s
}

// view is the session on the wire. Agent.mu is held.
func (s *session) view(key sessionKey) *agentv1.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := &agentv1.Session{Task: key.task, Batch: key.batch, Epoch: s.epoch}
	if s.proc != nil {
		v.PartBytesPerSecond = s.proc.part.Load()
	}
	if st := s.status; st != nil {
		v.Progress, v.Phase, v.Why, v.FirstByteTime = s.progress, st.GetPhase(), st.GetWhy(), st.GetFirstByteTime()
		v.LimitedBytesPerSecond = s.limited
	}
	return v
}

// update takes over what the process says, with the waits that it does not know.
func (s *session) update(st *agentv1.WorkerStatus, waits waits, limited float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := proto.CloneOf(st.GetProgress())
	if p != nil {
		p.QueueWait, p.LimitWait = durationpb.New(waits.queue), durationpb.New(waits.limit+p.GetLimitWait().AsDuration())
	}
	s.status, s.progress, s.limited = st, p, limited
}

// waitsFor takes over what another process, which works for the lead, waits for.
func (s *session) waitsFor(phase, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := &agentv1.WorkerStatus{}
	if s.status != nil {
		st = proto.CloneOf(s.status)
	}
	st.Phase, st.Why = phase, why
	s.status = st
}

// countHelpers is told how many batches of a lead others would take.
func (a *Agent) countHelpers(c *agentv1.Crew) {
	a.mu.Lock()
	s := a.sessions[sessionKey{c.GetTask(), ""}]
	a.mu.Unlock()
	if s == nil || s.epoch != c.GetLeadEpoch() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.others = c.GetAgents()
	if s.wanted = int(c.GetWanted()); s.wanted > 0 {
		close(s.more)
		s.more = make(chan struct{})
	}
}

// want waits until other agents have room for a batch, and returns how many such agents there are.
func (s *session) want(ctx context.Context) (others int32, err error) {
	for {
		s.mu.Lock()
		if s.wanted > 0 {
			s.wanted--
			defer s.mu.Unlock()
			return s.others, nil
		}
		more := s.more
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-more:
		}
	}
}

// add notes a session; false when there is one of a higher epoch already, or we leave.
func (a *Agent) add(key sessionKey, s *session) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.sessions[key]
	if a.leaving || was != nil && was.epoch >= s.epoch {
		return false
	}
	if was != nil && was.proc != nil && key.batch == "" {
		was.proc.lost = true
	}
	a.sessions[key] = s
	return true
}

// drop forgets a session.
func (a *Agent) drop(key sessionKey, epoch uint64) {
	a.mu.Lock()
	if s := a.sessions[key]; s != nil && s.epoch == epoch {
		delete(a.sessions, key)
	}
	a.mu.Unlock()
	a.hurry()
}

// beginLead starts a process for a task.
func (a *Agent) beginLead(ctx context.Context, l *agentv1.Lead, s *session) {
	job := a.job(l.GetTask().GetId(), l.GetSpec(), l.GetRoots())
	job.Lead, job.Epoch, job.MayCrew, job.Before, job.Owner = true, l.GetEpoch(), true, l.GetTask().GetEpochs(), l.GetTask().GetOwner().GetName()
	job.Expects = l.GetExpects()
	pieces := map[string][][]byte{}
	for _, p := range l.GetPieces() {
		pieces[p.GetDraft()] = p.GetPieces()
	}
	for _, d := range l.GetOver() {
		if kept, err := worker.ParseDraft(d); err == nil {
			kept.Pieces = pieces[d]
			job.Over = append(job.Over, kept)
		}
	}
	p := newProcess(a, l.GetTask(), job)
	p.lead, p.epoch = s, l.GetEpoch()
	a.importFrom(p, l.GetLent())
	p.limit(l.GetBytesPerSecond())
	p.trace(l.GetTraceParent())
	if spec := l.GetSpec(); task.Of(spec).Probe && spec.GetSource() == "" { // it takes no process
		p.untrace(nil)
		a.finish(p, &agentv1.FinishRequest{Task: l.GetTask().GetId(), Epoch: l.GetEpoch()})
		a.drop(sessionKey{l.GetTask().GetId(), ""}, l.GetEpoch())
		return
	}
	if err := a.start(ctx, p); err != nil {
		p.leaveReplicas()
		p.untrace(err)
		a.log.Warn("a lead can not begin", "task", l.GetTask().GetId(), "err", err)
		a.finish(p, unbegun(l, err))
		a.drop(sessionKey{l.GetTask().GetId(), ""}, l.GetEpoch())
		return
	}
	a.catchUp(p, s)
}

// catchUp has a process let go of its lead at once, if that was said while it was started.
func (a *Agent) catchUp(p *process, s *session) {
	a.mu.Lock()
	stop := s.stop
	a.mu.Unlock()
	if stop != agentv1.How_HOW_UNSPECIFIED {
		p.halt(stop, stopGrace)
	}
}

// unbegun is the end of a lead that can not begin. Where its owner has no name and only has to call again, the agent leaves, or the worker was killed, the task is put
// back, but for an access probe: its caller waits.
func unbegun(l *agentv1.Lead, err error) *agentv1.FinishRequest {
	var unseen osaccount.Unseen
	r := &agentv1.FinishRequest{
		Task: l.GetTask().GetId(), Epoch: l.GetEpoch(), Error: err.Error(), ErrorKind: mover.KindName(err), Untouched: true,
		PutBack: (errors.As(err, &unseen) || errors.Is(err, errLeaving) || errors.Is(err, mover.ErrTransient)) && !task.Of(l.GetSpec()).Probe,
	}
	if try := remedy.About(err); try != "" && !r.GetPutBack() { // with a report it would count as one that has begun
		r.Report = &pb.Report{Remedy: try}
	}
	return r
}

// stopSession lets go of a session in the way that is said.
func (a *Agent) stopSession(stop *agentv1.Stop) {
	key := sessionKey{stop.GetTask(), stop.GetBatch()}
	a.mu.Lock()
	s := a.sessions[key]
	if s == nil || s.epoch != stop.GetEpoch() {
		a.mu.Unlock()
		return
	}
	p := s.proc
	if p == nil && s.stop != agentv1.How_HOW_LOST {
		s.stop = stop.GetHow()
	}
	if p != nil && key.batch == "" {
		p.lost = p.lost || stop.GetHow() == agentv1.How_HOW_LOST
	}
	a.mu.Unlock()
	switch {
	case p == nil: // its start finds out
	case key.batch != "":
		p.stopBatch(key.batch, stop.GetHow())
	default:
		go p.halt(stop.GetHow(), stopGrace)
	}
}
