package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"datamove.dev/mover/agent/sandbox"
	"datamove.dev/mover/engine"
	"datamove.dev/test/must"
)

// idler is a process that waits for ever.
func idler(env string) sandbox.Options {
	return sandbox.Options{
		Path: "/bin/sleep", Args: []string{"600"}, Env: []string{"X=" + env}, Root: true,
		Account: sandbox.Account{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())},
	}
}

//safety:7 with mover/agent/sandbox TestReady
func TestSpares(t *testing.T) {
	const prestartedMost = 4
	most := prestartedMost
	s := prestarter{ready: readyProcess, most: func() int { return most }}
	t.Cleanup(s.close)
	for range 2 {
		s.prepare(idler("a"))
	}
	if len(s.waiting) != 1 {
		t.Fatalf("%d processes wait for one account", len(s.waiting))
	}
	if s.take(prestartKey(idler("b"))) != nil {
		t.Error("a process of somebody else was taken")
	}
	first := s.take(prestartKey(idler("a")))
	if first == nil || s.take(prestartKey(idler("a"))) != nil {
		t.Fatal("a process is not taken once")
	}
	must.Tell(t, first.Stop())

	for i := range prestartedMost + 2 {
		s.prepare(idler(fmt.Sprint(i)))
	}
	if len(s.waiting) != prestartedMost || s.waiting[0].key != prestartKey(idler("2")) {
		t.Errorf("%d wait, the first is %s", len(s.waiting), s.waiting[0].key)
	}
	s.expire(time.Now().Add(prestartedLast / 2))
	if len(s.waiting) != prestartedMost {
		t.Error("one has ended too early")
	}
	s.expire(time.Now().Add(prestartedLast))
	if len(s.waiting) != 0 {
		t.Errorf("%d wait for too long", len(s.waiting))
	}
	for _, env := range []string{"x", "y", "z"} {
		s.prepare(idler(env))
	}
	most = 1
	s.expire(time.Now())
	if len(s.waiting) != 1 || s.waiting[0].key != prestartKey(idler("z")) {
		t.Errorf("of one that may wait, %d do", len(s.waiting))
	}
	most = 0
	s.expire(time.Now())
	s.prepare(idler("none"))
	if len(s.waiting) != 0 {
		t.Errorf("of none that may wait, %d do", len(s.waiting))
	}
	most = prestartedMost
	s.prepare(idler("last"))
	s.close()
	s.prepare(idler("late"))
	if len(s.waiting) != 0 {
		t.Error("a process was started at the end")
	}
}

// silent is a process whose roots do not answer.
type silent struct{ Waiting }

func (silent) Confine(_ context.Context, _ sandbox.Confinement, waits func(string)) (Worker, error) {
	waits("/dead/mnt")
	return nil, &sandbox.Unanswered{Path: "/dead/mnt"}
}

// TestUnansweredOnce: where a file system did not answer a process that waited, no other one is started to wait for it as long; its lead says meanwhile what for.
func TestUnansweredOnce(t *testing.T) {
	a := &Agent{changed: make(chan struct{}, 1)}
	p := &process{agent: a, lead: newSession(7)}
	o := sandbox.Options{Path: "worker"}
	s := prestarter{waiting: []prestarted{{key: prestartKey(o), process: silent{}}}, ready: func(sandbox.Options) (Waiting, error) {
		t.Error("a second one is started")
		return silent{}, nil
	}}
	var none *sandbox.Unanswered
	if _, err := s.begin(t.Context(), o, p.waitsAt); !errors.As(err, &none) {
		t.Error(err)
	}
	v := p.lead.view(sessionKey{})
	if v.GetPhase() != string(engine.Waiting) || v.GetWhy() != "open /dead/mnt: no answer yet; is its server there?" || len(a.changed) != 1 {
		t.Errorf("it says %s: %q, at once: %v", v.GetPhase(), v.GetWhy(), len(a.changed) == 1)
	}
}
