package siege

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/task"
	"datamove.dev/test/crash/rig"
)

// fill takes what is free on a disk. What it returns gives it back.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f, err := os.Create(path)
	check(t, err)
	defer f.Close()
	for chunk := int64(16 << 20); chunk >= 4096; {
		st, err := f.Stat()
		check(t, err)
		switch err := unix.Fallocate(int(f.Fd()), 0, st.Size(), chunk); err {
		case nil:
		case unix.ENOSPC:
			chunk /= 2
		default:
			check(t, err)
		}
	}
	return func() { check(t, os.Remove(path)) }
}

// The disk of the coordinator's data is full: what is asked for is refused with the
// reason, what runs loses nothing, and when there is room again all goes on by itself.
//
//safety:3 the disk of the coordinator is full: submits end with 7, tasks wait, and go on by themselves
func TestFullDisk(t *testing.T) {
	t.Parallel()
	rig.Root(t)
	disk := rig.Tmpfs(t, "size=512m,mode=755")
	s := newSite(t, plan{nodes: []string{"n1", "n2"}, data: filepath.Join(disk, "data"), store: true})
	p := s.both()
	free := fill(t, disk)
	refused := s.tool.Do(t, 7, "copy", "shared:source", "shared:other")
	if said := refused.Stderr(); !strings.Contains(said, "no space") && !strings.Contains(said, "room") || !strings.Contains(said, "try: ") {
		t.Errorf("the refusal says %s", said)
	}
	s.tool.Do(t, 0, "task", "show", p.copy.id) // to look needs no room
	time.Sleep(lease)                          // work goes on as far as nothing has to be written down for it
	for _, n := range s.nodes {
		n.wire.sever() // they come back while nothing can be written
	}
	free()
	p.done()
	s.order("copy", "shared:source", "shared:other").done()
	s.coordinator.Signal(syscall.SIGTERM)
	s.coordinator.Want(0)
	s.start()
	for _, o := range []*order{p.copy, p.upload} {
		if now := o.now(); now.GetState() != task.Done {
			t.Errorf("after a restart: %v", now)
		}
	}
}

// A coordinator that is killed while its disk is full starts when there is room, and
// has everything that it had.
//
//safety:3 with TestFullDisk
func TestKilledWhileFull(t *testing.T) {
	long(t)
	t.Parallel()
	rig.Root(t)
	disk := rig.Tmpfs(t, "size=512m,mode=755")
	s := newSite(t, plan{nodes: []string{"n1"}, data: filepath.Join(disk, "data"), store: true})
	p := s.both()
	free := fill(t, disk)
	s.crash()
	s.begin()
	s.coordinator.Want(7)
	free()
	s.start()
	p.done()
}

// A manifest that has no room on the coordinator's disk waits for it, and says so. Here
// it has a disk of its own.
func TestManifestWaitsForRoom(t *testing.T) {
	t.Parallel()
	rig.Root(t)
	disk, data := rig.Tmpfs(t, "size=4m,mode=700"), t.TempDir()
	check(t, os.Symlink(disk, filepath.Join(data, "manifests")))
	free := fill(t, disk)
	s := newSite(t, plan{nodes: []string{"n1"}, data: data})
	o := s.order("dataset", "add", "vision", "shared:"+s.tree())
	o.until("it waits for room", func(now *pb.Task) bool { return strings.Contains(now.GetWhy(), "no room for the manifest") })
	free()
	o.done()
	s.tool.Do(t, 0, "dataset", "show", "vision")
}
