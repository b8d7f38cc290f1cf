package agent

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/server/osaccount"
)

// TestUnbegun: a task that can not begin fails, but where its owner has no name here and only has to call again, or the agent leaves.
func TestUnbegun(t *testing.T) {
	_, unseen := osaccount.New().Lookup(t.Context(), "", 54399)
	for _, row := range []struct {
		name string
		kind pb.TaskKind
		err  error
		back bool
	}{
		{"a uid that has to call again", pb.TaskKind_TASK_KIND_COPY, unseen, true},
		{"an access probe of it", pb.TaskKind_TASK_KIND_LOOK, unseen, false},
		{"an account that is not here", pb.TaskKind_TASK_KIND_COPY, fmt.Errorf("alice has no account: %w", mover.ErrPermission), false},
		{"an agent that leaves", pb.TaskKind_TASK_KIND_COPY, fmt.Errorf("begin: %w", errLeaving), true},
		{"an access probe of it, too", pb.TaskKind_TASK_KIND_LOOK, errLeaving, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := unbegun(&agentv1.Lead{Spec: &pb.TaskSpec{Kind: row.kind}, Epoch: 1}, row.err)
			if got.GetPutBack() != row.back || got.GetErrorKind() != mover.KindName(row.err) {
				t.Errorf("it ends as %v", got)
			}
		})
	}
}

// TestStopsWhileStarted: a lead that is to be let go of while its process is started is let go of when that is there, in the way that was said last; what was taken back stays so.
func TestStopsWhileStarted(t *testing.T) {
	const none, pause, cancel, lost = agentv1.How_HOW_UNSPECIFIED, agentv1.How_HOW_PAUSE, agentv1.How_HOW_CANCEL, agentv1.How_HOW_LOST
	for _, row := range []struct {
		said []agentv1.How
		want agentv1.How
	}{{nil, none}, {[]agentv1.How{pause}, pause}, {[]agentv1.How{cancel}, cancel}, {[]agentv1.How{pause, cancel}, cancel}, {[]agentv1.How{lost}, lost}, {[]agentv1.How{lost, cancel}, lost}} {
		synctest.Test(t, func(t *testing.T) {
			a := &Agent{log: slog.New(slog.DiscardHandler), turns: newTurns(), sessions: map[sessionKey]*session{}, procs: map[string]*process{}, changed: make(chan struct{}, 1)}
			p, s := newProcess(a, &pb.Task{Id: "t", Spec: &pb.TaskSpec{}}, &agentv1.Job{}), newSession(7)
			a.add(sessionKey{"t", ""}, s)
			for _, how := range row.said {
				a.stopSession(&agentv1.Stop{Task: "t", Epoch: 7, How: how})
			}
			got := none
			go func() { got = (<-p.orders).GetStop().GetHow(); close(p.ended) }()
			a.catchUp(p, s)
			if row.want == none {
				p.orders <- &agentv1.WorkerOrder{}
				<-p.ended
			}
			if got != row.want {
				t.Errorf("%v were said, and it heard %v", row.said, got)
			}
			p.cancel()
		})
	}
}
