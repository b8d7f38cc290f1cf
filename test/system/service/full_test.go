package service

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/task"
	"datamove.dev/test/cluster/rig"
	crash "datamove.dev/test/crash/rig"
	"datamove.dev/test/must"
)

// onDisk is a cluster with some of its folders on a small disk of their own.
func onDisk(t *testing.T, disk, folder string, agents ...string) *cluster {
	t.Helper()
	self, err := os.Executable()
	dir := t.TempDir()
	at := filepath.Join(dir, folder)
	must.Do(t, errors.Join(err, os.MkdirAll(filepath.Dir(at), 0o755), os.Symlink(disk, at)))
	return &cluster{rig.Open(t, rig.Options{Dir: dir, Program: []string{self, "worker"}, Real: true}, agents...), t}
}

// occupy takes what is free on a disk. What it returns gives it back.
func occupy(t *testing.T, dir string) (free func()) {
	t.Helper()
	f := must.Get(os.Create(filepath.Join(dir, "filler")))(t)
	defer f.Close()
	for chunk, size := int64(16<<20), int64(0); chunk >= 4096; {
		switch err := unix.Fallocate(int(f.Fd()), 0, size, chunk); err {
		case nil:
			size += chunk
		case unix.ENOSPC:
			chunk /= 2
		default:
			t.Fatal(err)
		}
	}
	return func() {
		must.Tell(t, os.Remove(f.Name()))
	}
}

// TestFullDisk: while the disk of the coordinator is full, requests are refused with the reason, and what runs loses nothing, also when no agent is heard of for
// longer than a lease. When there is room again it goes on by itself.
//
//safety:3 the disk of the coordinator is full: submits are refused as with a full disk, tasks wait, and go on by themselves
func TestFullDisk(t *testing.T) {
	disk := crash.Tmpfs(t, "size=512m,mode=755")
	c := onDisk(t, disk, "data", "n1", "n2")
	source := c.Tree("shared/source", 200, 4, 4<<20)
	id := c.Slow("shared:source", "shared:target", 8<<20).GetId()
	c.Passed(id, 4<<20)
	free := occupy(t, disk)
	other := &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "shared:source", Target: "shared:other"}}
	if _, err := c.SubmitTask(t.Context(), other); !errors.Is(err, mover.ErrFull) {
		t.Errorf("a submit: %v", err)
	}
	c.Now(id) // to look needs no room
	for name := range c.Agents {
		c.Cut(name)
	}
	c.Until("no agent is ready", func() bool {
		l, err := c.ListAgents(t.Context(), &pb.ListAgentsRequest{})
		for _, a := range l.GetAgents() {
			if a.GetState() == pb.AgentState_AGENT_STATE_READY {
				return false
			}
		}
		return err == nil
	})
	for name := range c.Agents {
		c.Mend(name) // they come back while nothing can be written
	}
	free()
	c.Done(id)
	c.Same(source, filepath.Join(c.Dir, "shared/target"))
	x, err := c.SubmitTask(t.Context(), other)
	if end := c.Ends(x, err); end.GetState() != task.Done {
		t.Errorf("%v", end)
	}
	c.Restart()
	if now := c.Now(id); now.GetState() != task.Done {
		t.Errorf("after a restart: %v", now)
	}
}

// TestManifestWaitsForRoom: a manifest that has no room on the coordinator's disk waits for it, and says so. Here it has a disk of its own.
func TestManifestWaitsForRoom(t *testing.T) {
	disk := crash.Tmpfs(t, "size=4m,mode=700")
	free := occupy(t, disk)
	c := onDisk(t, disk, "data/manifests", "n1")
	c.Tree("shared/vision", 50, 0, 0)
	x := must.Get(c.AddDataset(t.Context(), &pb.AddDatasetRequest{Name: "vision", Location: "shared:vision"}))(t)
	c.Until("it waits for room", func() bool { return strings.Contains(c.Now(x.GetId()).GetWhy(), "no room for the manifest") })
	free()
	c.Done(x.GetId())
	if _, err := c.GetDataset(t.Context(), &pb.GetDatasetRequest{Name: "vision"}); err != nil {
		t.Error(err)
	}
}
