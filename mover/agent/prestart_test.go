package agent

import (
	"fmt"
	"os"
	"testing"
	"time"

	"datamove.dev/mover/agent/sandbox"
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
	const sparesMost = 4
	most := sparesMost
	s := spares{ready: readyProcess, most: func() int { return most }}
	t.Cleanup(s.close)
	for range 2 {
		s.prepare(idler("a"))
	}
	if len(s.waiting) != 1 {
		t.Fatalf("%d processes wait for one account", len(s.waiting))
	}
	if s.take(spareKey(idler("b"))) != nil {
		t.Error("a process of somebody else was taken")
	}
	first := s.take(spareKey(idler("a")))
	if first == nil || s.take(spareKey(idler("a"))) != nil {
		t.Fatal("a process is not taken once")
	}
	must.Tell(t, first.Stop())

	for i := range sparesMost + 2 {
		s.prepare(idler(fmt.Sprint(i)))
	}
	if len(s.waiting) != sparesMost || s.waiting[0].key != spareKey(idler("2")) {
		t.Errorf("%d wait, the first is %s", len(s.waiting), s.waiting[0].key)
	}
	s.expire(time.Now().Add(sparesLast / 2))
	if len(s.waiting) != sparesMost {
		t.Error("one has ended too early")
	}
	s.expire(time.Now().Add(sparesLast))
	if len(s.waiting) != 0 {
		t.Errorf("%d wait for too long", len(s.waiting))
	}
	for _, env := range []string{"x", "y", "z"} {
		s.prepare(idler(env))
	}
	most = 1
	s.expire(time.Now())
	if len(s.waiting) != 1 || s.waiting[0].key != spareKey(idler("z")) {
		t.Errorf("of one that may wait, %d do", len(s.waiting))
	}
	most = 0
	s.expire(time.Now())
	s.prepare(idler("none"))
	if len(s.waiting) != 0 {
		t.Errorf("of none that may wait, %d do", len(s.waiting))
	}
	most = sparesMost
	s.prepare(idler("last"))
	s.close()
	s.prepare(idler("late"))
	if len(s.waiting) != 0 {
		t.Error("a process was started at the end")
	}
}
