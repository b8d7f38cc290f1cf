package agent

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
)

// lostSite is an agent with a process of a lead of alice that is lost.
func lostSite() (a *Agent, lost *process, leads func(task, owner string) *process) {
	a = &Agent{log: slog.New(slog.DiscardHandler), changed: make(chan struct{}, 1), sessions: map[sessionKey]*session{}, procs: map[string]*process{}}
	leads = func(id, owner string) *process {
		p := newProcess(a, &pb.Task{Id: id, Spec: &pb.TaskSpec{}, Owner: &pb.Account{Name: owner}}, nil)
		p.lead, p.epoch = newSession(1), 1
		a.sessions[sessionKey{id, ""}] = p.lead
		return p
	}
	lost = leads("old", "alice")
	lost.lead.proc, a.procs["old"] = lost, lost
	return a, lost, leads
}

// TestLostWorkerEndsFirst: the worker of the next lead of an owner begins when that of one that was lost has ended, or has had its time; other
// owners do not wait, nor does the next lead of what goes on. A later lead of the task makes the one before a lost one, too.
func TestLostWorkerEndsFirst(t *testing.T) {
	stop := func(a *Agent) {
		a.stopSession(&agentv1.Stop{Task: "old", Epoch: 1, How: agentv1.How_HOW_LOST})
	}
	for _, row := range []struct {
		name, owner string
		lose        func(*Agent)
		ends        time.Duration // of the lost worker
		want        time.Duration
	}{
		{"told to stop", "alice", stop, 3 * time.Second, 3 * time.Second},
		{"a later lead", "alice", func(a *Agent) { a.add(sessionKey{"old", ""}, newSession(2)) }, 3 * time.Second, 3 * time.Second},
		{"it hangs", "alice", func(a *Agent) { a.add(sessionKey{"old", ""}, newSession(2)) }, time.Hour, 2 * lostGrace},
		{"another owner", "bob", stop, 3 * time.Second, 0},
		{"it is not lost", "alice", func(*Agent) {}, 3 * time.Second, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, lost, leads := lostSite()
				row.lose(a)
				time.AfterFunc(row.ends, func() { close(lost.ended) })
				begun := time.Now()
				a.awaitLost(context.Background(), leads("new", row.owner))
				if got := time.Since(begun); got != row.want {
					t.Errorf("it waits for %v, want %v", got, row.want)
				}
				<-lost.ended
			})
		})
	}
}

// TestLostBeforeItBegins: a lead that was lost while its process was made gets no worker.
func TestLostBeforeItBegins(t *testing.T) {
	a, _, leads := lostSite()
	p := leads("new", "alice")
	if err := a.unwanted(p); err != nil {
		t.Errorf("it may not begin: %v", err)
	}
	a.stopSession(&agentv1.Stop{Task: "new", Epoch: 1, How: agentv1.How_HOW_LOST})
	if err := a.unwanted(p); !errors.Is(err, mover.ErrHeld) {
		t.Errorf("it begins, though its lead is over: %v", err)
	}
}
