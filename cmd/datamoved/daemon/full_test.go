package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/kvstore"
	"datamove.dev/test/loopfs"
	"datamove.dev/test/must"
)

// fillDisk takes what is free on a disk, to the last byte.
func fillDisk(t *testing.T, dir string) (other string) {
	t.Helper()
	other = filepath.Join(dir, "other")
	f := must.Get(os.Create(other))(t)
	defer f.Close()
	end := int64(0)
	for size := int64(64 << 20); size >= 4<<10; {
		err := unix.Fallocate(int(f.Fd()), 0, end, size)
		switch {
		case err == nil:
			end += size
		case errors.Is(err, unix.ENOSPC):
			size /= 2
		case !errors.Is(err, unix.EINTR):
			t.Fatal(err)
		}
	}
	must.Do(t, f.Sync())
	var st unix.Statfs_t
	must.Do(t, unix.Statfs(dir, &st))
	ballast, err := os.Stat(filepath.Join(dir, "data", kvstore.BallastName))
	if given := err == nil && ballast.Size() == 0; st.Bavail > 0 && !given { // a service that runs sees within a second that the disk is full
		t.Fatalf("%d blocks are free", st.Bavail)
	}
	return other
}

// TestStartsOnFullDisk: a disk that is full to the last byte, before the service starts or while it runs, keeps none from looking, cancelling
// and forgetting; what is new is refused until there is room. A backup is restored there, too.
//
//safety:8 the disk of the ledger is filled to its last byte, before the coordinator starts and while it runs
func TestStartsOnFullDisk(t *testing.T) {
	disk := loopfs.Mount(t, loopfs.Spec{Type: "ext4", Bytes: 1 << 30, Make: []string{"-q", "-m", "0"}})
	data := filepath.Join(disk, "data")
	submission := func(target string) *datamovev1.SubmitTaskRequest {
		return &datamovev1.SubmitTaskRequest{Paused: true, Spec: &datamovev1.TaskSpec{Kind: datamovev1.TaskKind_TASK_KIND_COPY, Source: "/data/in", Target: "/data/out/" + target}}
	}
	begin := func() *program { return launch(t, shortDir(t), "--data", data) }
	p := begin()
	c := p.started()
	var ids []string
	backup := filepath.Join(t.TempDir(), "backup")
	for _, target := range []string{"a", "b", "c", "d"} {
		x := must.Get(c.SubmitTask(t.Context(), submission(target)))(t)
		ids = append(ids, x.GetId())
	}
	for i, full := range []string{"while it runs", "while it runs, again", "before it starts"} {
		if i == 2 {
			p.signal(syscall.SIGTERM)
			if code := p.code(); code != 0 {
				t.Fatalf("it ended with %d", code)
			}
		}
		other := fillDisk(t, disk)
		if i == 2 {
			out, err := command("backup", "--data", data, backup)
			if err != nil {
				t.Errorf("%s: a backup: %v\n%s", full, err, out)
			}
			p = begin()
			c = p.started()
		}
		_, err := c.CancelTask(t.Context(), &datamovev1.CancelTaskRequest{Id: ids[i]})
		must.Tell(t, err)
		if _, err := c.SubmitTask(t.Context(), submission("new")); !errors.Is(err, mover.ErrFull) || !strings.Contains(err.Error(), "make room") {
			t.Errorf("%s: a new task: %v", full, err)
		}
		info := must.Get(c.GetInfo(t.Context(), &datamovev1.GetInfoRequest{}))(t)
		if !strings.Contains(info.GetFull(), data) || !strings.Contains(p.log.String(), "the disk is full") {
			t.Errorf("%s: it says it is full: %q", full, info.GetFull())
		}
		if i == 2 {
			_, err := c.ResumeTask(t.Context(), &datamovev1.ResumeTaskRequest{Id: ids[3]})
			must.Tell(t, err)
			p.eventually("the agent beside it takes no task, and says why", func() bool {
				e, err := c.ExplainTask(t.Context(), &datamovev1.ExplainTaskRequest{Id: ids[3]})
				return err == nil && strings.Contains(e.GetText(), "no agent that reaches both ends takes a task: ") && strings.Contains(e.GetText(), "no room")
			})
		}
		if strings.Contains(p.log.String(), "no room for the catalog") {
			t.Errorf("%s: there is no catalog", full)
		}
		must.Do(t, os.Remove(other))
		must.Do(t, syncDisk(disk))
		x := must.Get(c.SubmitTask(t.Context(), submission("more")))(t)
		_, err = c.CancelTask(t.Context(), &datamovev1.CancelTaskRequest{Id: x.GetId()})
		must.Tell(t, err)
		if info := must.Get(c.GetInfo(t.Context(), &datamovev1.GetInfoRequest{}))(t); info.GetFull() != "" {
			t.Errorf("%s, and there is room again: %s", full, info.GetFull())
		}
	}
	for i, id := range ids {
		x := must.Get(c.GetTask(t.Context(), &datamovev1.GetTaskRequest{Id: id}))(t)
		if cancelled := x.GetState() == datamovev1.TaskState_TASK_STATE_CANCELLED; cancelled != (i < 3) {
			t.Errorf("task %d is %v", i, x.GetState())
		}
	}
	p.signal(syscall.SIGTERM)
	if code := p.code(); code != 0 {
		t.Fatalf("it ended with %d", code)
	}
	must.Do(t, os.Rename(filepath.Join(data, "ledger"), filepath.Join(disk, "damaged")))
	fillDisk(t, disk)
	if out, err := command("restore", backup, "--data", data); err != nil {
		t.Errorf("a backup is not restored on a full disk: %v\n%s", err, out)
	}
}

// TestBeginsWhenThereIsRoom: a service whose ballast was given back, and was taken by others, waits for room, says so, and begins by itself; told to end it ends as with a full
// disk. On a disk that can never have the room it ends at once.
//
//safety:8 the disk of the ledger is full, with what its ballast had, when the coordinator starts: it waits, and begins by itself
func TestBeginsWhenThereIsRoom(t *testing.T) {
	disk := loopfs.Mount(t, loopfs.Spec{Type: "ext4", Bytes: 1 << 30, Make: []string{"-q", "-m", "0"}})
	data := filepath.Join(disk, "data")
	p := launch(t, shortDir(t), "--data", data)
	p.started()
	p.signal(syscall.SIGTERM)
	if code := p.code(); code != 0 {
		t.Fatalf("it ended with %d", code)
	}
	must.Do(t, os.Truncate(filepath.Join(data, "ballast"), 0))
	must.Do(t, syncDisk(disk))
	other := fillDisk(t, disk)
	for _, end := range []string{"told to end", "room"} {
		p = launch(t, shortDir(t), "--data", data)
		p.eventually("it says that it waits", func() bool {
			return strings.Contains(p.log.String(), "begins when there is room") && strings.Contains(p.log.String(), "0 B free on the disk of the service, which needs 192 MiB to begin")
		})
		if end == "room" {
			break
		}
		p.signal(syscall.SIGTERM)
		if code := p.code(); code != 7 {
			t.Errorf("%s: it ended with %d", end, code)
		}
	}
	must.Do(t, errors.Join(os.Remove(other), syncDisk(disk)))
	p.started()
	p.signal(syscall.SIGTERM)
	if code := p.code(); code != 0 {
		t.Errorf("it ended with %d", code)
	}
	small := loopfs.Mount(t, loopfs.Spec{Type: "ext4", Bytes: 64 << 20, Make: []string{"-q"}})
	p = launch(t, shortDir(t), "--data", filepath.Join(small, "data"))
	if code := p.code(); code != 7 || !strings.Contains(p.log.String(), "have its directory on a larger one") {
		t.Errorf("on a small disk it ended with %d: %s", code, p.log)
	}
}

// syncDisk has a file system count as free what was removed.
func syncDisk(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(f.Fd())), f.Close())
}
