package service

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/task"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
)

// A task waits for another one whose path leads to its place over links; where links lead that its owner can not see, it neither learns nor claims.
//
//safety:7 a path over a link in a closed folder of another person: where it leads is not followed
func TestLinksOfOthers(t *testing.T) {
	c := newTown(t, "n1")
	c.Tree("shared/src", 20, 1, 8<<20)
	shared := filepath.Join(c.Dir, "shared")
	for _, dir := range []string{"open", "alice"} {
		must.Do(t, os.MkdirAll(filepath.Join(shared, dir), 0o777))
		must.Do(t, os.Chmod(filepath.Join(shared, dir), 0o777))
	}
	must.Do(t, os.Symlink("open", filepath.Join(shared, "lnk")))
	must.Do(t, os.Symlink("../open", filepath.Join(shared, "alice/lnk")))
	c.giveTo("alice", filepath.Join(shared, "alice"))
	must.Do(t, os.Chmod(filepath.Join(shared, "alice"), 0o700))
	submit := func(who, source, target string, slowly int64) *pb.Task {
		return must.Get(c.SubmitTask(rig.As(who), &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{
			Kind: pb.TaskKind_TASK_KIND_COPY, Source: source, Target: target, Options: &pb.Options{BytesPerSecond: slowly},
		}}))(t)
	}
	writer := submit("alice", "shared:src", "shared:lnk/out", 64<<10)
	c.Passed(writer.GetId(), 0)
	hers := submit("alice", "shared:alice/lnk/out", "shared:alice/copy", 0)
	his := submit("bob", "shared:alice/lnk/out", "shared:open/copy", 0)
	c.Until("alice's reader waits", func() bool { return strings.Contains(c.Now(hers.GetId()).GetWhy(), writer.GetId()) })
	c.Until("bob's reader has ended", func() bool { return task.Ended(c.Now(his.GetId()).GetState()) })
	if got := c.Now(his.GetId()); got.GetState() != task.Failed || len(got.GetRealPaths()) != 0 {
		t.Errorf("bob, who can not look into alice's folder, has %v", got)
	}
	if got := c.Now(hers.GetId()).GetRealPaths(); len(got) != 1 || got[0].GetReal() != "shared:open/out" {
		t.Errorf("alice's source is %v", got)
	}
	must.Get(c.CancelTask(rig.As("alice"), &pb.CancelTaskRequest{Id: writer.GetId()}))(t)
	c.Until("alice's reader has ended", func() bool { return task.Ended(c.Now(hers.GetId()).GetState()) })
	if got := c.Now(hers.GetId()); got.GetState() != task.Failed || !strings.Contains(got.GetError(), "bring the data again") {
		t.Errorf("alice's reader is %v", got)
	}
}
