package service

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/task"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
	"datamove.dev/test/patience"
)

// TestForeignJournals: a user without a worker can not write to the directory of its journals. What it has there the agent of root measures: an account with
// too much gets no worker until something is removed; others do, and what is mounted there is not looked at.
//
//safety:8 with test/cluster TestJournalsQuota
func TestForeignJournals(t *testing.T) {
	c := newTown(t, "n1")
	conf := *c.Conf.Load()
	conf.Quotas.Default.Journals = 64 << 20
	c.Conf.Store(&conf)
	c.Tree("shared/source", 5, 1, 1<<20)
	for name := range rig.People {
		must.Do(t, os.Mkdir(filepath.Join(c.Dir, "shared", name), 0o755))
		c.giveTo(name, filepath.Join(c.Dir, "shared", name))
	}
	n := 0
	copies := func(name string) *pb.Task {
		t.Helper()
		n++
		spec := &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "shared:source", Target: fmt.Sprintf("shared:%s/%d", name, n)}
		x := must.Get(c.SubmitTask(rig.As(name), &pb.SubmitTaskRequest{Spec: spec}))(t)
		return must.Get(c.Wait(t.Context(), x.GetId(), nil))(t)
	}
	is := func(x *pb.Task, want pb.TaskState, kind string) {
		t.Helper()
		if x.GetState() != want || x.GetErrorKind() != kind {
			t.Errorf("it is %s: %s %s", task.Word(x.GetState()), x.GetErrorKind(), x.GetError())
		}
	}
	is(copies("alice"), task.Done, "")
	journals := filepath.Join(c.Dir, "agents/n1/users", fmt.Sprint(rig.People["alice"]))
	lent := func() bool {
		var st unix.Stat_t
		must.Do(t, unix.Lstat(journals, &st))
		return st.Uid != 0
	}
	patience.Until(t, "the worker has ended", func() string { return "" }, func() bool { return !lent() })
	if out, err := c.doAs("alice", "mkdir", journals+"/mine"); err == nil {
		t.Errorf("a user without a worker can write there: %s", out)
	}
	must.Do(t, os.Mkdir(journals+"/mine", 0o755)) // by a process that was let in while there was a worker
	must.Do(t, os.WriteFile(journals+"/mine/film", make([]byte, 80<<20), 0o644))
	c.giveTo("alice", journals+"/mine/film")
	x := copies("alice")
	is(x, task.Failed, "REFUSED")
	if !strings.Contains(x.GetError(), journals) || !strings.Contains(x.GetError(), "quotas.users.alice.journals") {
		t.Errorf("it says %s", x.GetError())
	}
	is(copies("bob"), task.Done, "")
	must.Do(t, os.Remove(journals+"/mine/film"))
	must.Do(t, unix.Mount("tmpfs", journals+"/mine", "tmpfs", 0, "size=100m"))
	defer func() { must.Tell(t, unix.Unmount(journals+"/mine", unix.MNT_DETACH)) }()
	must.Do(t, os.WriteFile(journals+"/mine/film", make([]byte, 80<<20), 0o644))
	is(copies("alice"), task.Done, "")
}
