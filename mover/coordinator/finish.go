package coordinator

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
)

// crashesMost is how often the process of a task may end by itself.
const crashesMost = 5

// Finish implements agentv1.LinkServiceServer.
func (s *scheduler) Finish(ctx context.Context, r *agentv1.FinishRequest) (*agentv1.FinishResponse, error) {
	s.mu.Lock()
	if n := s.agents[authz.From(ctx).Agent]; n != nil { // it has ended, though it counts no more
		delete(n.lingers, claim{r.GetTask(), "", r.GetEpoch()})
	}
	l, err := s.c.agents.held(ctx, r.GetTask(), r.GetEpoch())
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	nameless := namelessTo(l.task, r)
	if nameless {
		s.c.unbegin(l)
	}
	t := s.closes(l)
	l.proof.Unlike, l.proof.Unguarded = r.GetUnlike(), r.GetUnguarded()
	l.proof.Untouched = r.GetUntouched() && t.GetTries() == 1 // earlier tries are unknown
	s.mu.Unlock()
	ctx = context.WithoutCancel(ctx)
	if r.GetPutBack() && (nameless || l.want != 0 || t.GetTries() < crashesMost || r.GetReport() != nil) {
		s.letGo(ctx, l, cmp.Or(r.GetError(), "put back by agent "+l.agent))
		return &agentv1.FinishResponse{}, nil
	}
	if s.staysAsked(l, t, r) {
		s.letGo(ctx, l, "begun again after: "+r.GetError())
		return &agentv1.FinishResponse{}, nil
	}
	t.Revision++
	t.Report = r.GetReport()
	s.c.agents.firstByte(t, r.GetFirstByteTime())
	if r.GetError() != "" {
		s.ended(t, task.Failed, r.GetErrorKind(), r.GetError())
	} else if err := s.c.judge(l, t, r); err != nil {
		s.ended(t, task.Failed, mover.KindName(err), err.Error())
	} else {
		s.ended(t, task.Done, "", "")
	}
	t.Progress = finalProgress(t)
	s.close(ctx, l, t)
	return &agentv1.FinishResponse{}, nil
}

// steadyLead is how long a lead has lasted that counts as one that works.
const steadyLead = time.Minute

// staysAsked says of a task that the service has set itself whether it waits for the next agent at once, because what has ended it may
// pass: the coordinator or an agent that stops, a connection that breaks. One that ends so again and again, at once, has failed.
func (s *scheduler) staysAsked(l *lead, t *pb.Task, r *agentv1.FinishRequest) bool {
	if r.GetError() == "" || l.want != 0 || !unasked(t.GetSpec()) {
		return false
	}
	switch kind := mover.KindNamed(r.GetErrorKind()); kind {
	case nil, mover.ErrTransient, mover.ErrUnreachable, mover.ErrTimeout, mover.ErrFull: // nil is of a stop, too
		return t.GetTries() < crashesMost || s.now().Sub(l.since) >= steadyLead
	}
	return false
}

// closes ends a lead: later reports about it do not count, and it has no helpers any more.
// It returns a copy of the task. scheduler.mu is held.
func (s *scheduler) closes(l *lead) *pb.Task {
	l.closing = true
	if len(l.task.GetHelpers()) > 0 { // storing its end may take long
		l.task.Helpers = nil
		s.changed(l.task)
	}
	return copyOf(l.task)
}

// restingProgress clears the rates and the estimate of a task without a lead. What is done stays.
func restingProgress(t *pb.Task) {
	if p := t.GetProgress(); p != nil {
		p.InFlight, p.Slowest, p.BytesPerSecond, p.FilesPerSecond, p.Remaining = 0, nil, 0, 0, nil
	}
}

// finalProgress is the progress of a task that has ended: what its report says.
func finalProgress(t *pb.Task) *pb.Progress {
	p := t.GetProgress()
	if p == nil {
		p = &pb.Progress{}
	}
	r, looks := t.GetReport(), p.GetFilesDone()
	p.Planned, p.FilesDone, p.Failed, p.InFlight, p.Slowest, p.BytesPerSecond, p.FilesPerSecond, p.Remaining = r.GetPlanned(), r.GetFiles(), r.GetFailed(), 0, nil, 0, 0, nil
	p.BytesDone, p.PlanComplete, p.Time = max(r.GetBytes(), 0), true, timestamppb.Now()
	looked(p, looks, t.GetState() == task.Done)
	return p
}

// looked counts what was compared and found to need nothing, which a report has no word for:
// of a task that is done, all of it, and else what its worker has told of.
func looked(p *pb.Progress, told int64, whole bool) {
	planned := p.GetPlanned()
	all := planned.GetFiles() + planned.GetCompares()
	switch {
	case planned.GetCompares() == 0:
	case whole:
		p.FilesDone, p.BytesDone = all, max(p.GetBytesDone(), planned.GetBytes()+planned.GetCompareBytes())
	default:
		p.FilesDone = min(max(p.GetFilesDone(), told), all)
	}
}
