package hostile

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/test/crash/rig"
	"datamove.dev/test/must"
)

// small is a target with little room, and what takes that room from us.
type small struct {
	dir  string
	free func(t *testing.T) // makes room
}

// filler takes bytes with one file.
func filler(t *testing.T, dir string, bytes int64) func(*testing.T) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f := must.Get(os.Create(path))(t)
	block := make([]byte, 1<<20)
	for left := bytes; left > 0; left -= int64(len(block)) {
		_, err := f.Write(block[:min(left, int64(len(block)))])
		must.Do(t, err)
	}
	must.Do(t, f.Sync())
	must.Do(t, f.Close())
	return func(t *testing.T) { must.Do(t, os.Remove(path)) }
}

func smallMemory(t *testing.T) small {
	dir := rig.Tmpfs(t, "size=24m")
	return small{dir, filler(t, dir, 20<<20)}
}

func smallDisk(t *testing.T) small {
	dir := rig.Disk(t, "ext4", 48<<20)
	var st unix.Statfs_t
	must.Do(t, unix.Statfs(dir, &st))
	return small{dir, filler(t, dir, int64(st.Bavail)*st.Bsize-4<<20)}
}

func fewInodes(t *testing.T) small {
	dir := rig.Tmpfs(t, "size=64m,nr_inodes=400")
	for i := range 300 {
		write(t, dir, filepath.Join("fillers", string(rune('a'+i/26))+string(rune('a'+i%26))), "")
	}
	return small{dir, func(t *testing.T) { must.Do(t, os.RemoveAll(filepath.Join(dir, "fillers"))) }}
}

func quota(t *testing.T) small {
	mount := rig.Disk(t, "btrfs", 256<<20)
	run := func(args ...string) error {
		out, err := exec.Command("btrfs", args...).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("btrfs %s: %w: %s", strings.Join(args, " "), err, out)
		}
		return err
	}
	if err := run("quota", "enable", mount); err != nil {
		t.Skip(err)
	}
	dir := filepath.Join(mount, "volume")
	must.Do(t, run("subvolume", "create", dir))
	// The first subvolume of a btrfs is 256. Linux 6.18 takes the room for a change of a limit from
	// the subvolume of the path, which is full.
	limit := func(size string) error { return run("qgroup", "limit", size, "0/256", mount) }
	must.Do(t, limit("6M"))
	return small{dir, func(t *testing.T) { must.Do(t, limit("none")) }}
}

// A target without room pauses the run, which says why and goes on when there is
// room, or ends with exit code 7 when that is wanted. What was published stays whole.
//
//safety:3 no bytes, no quota, no inodes: the task waits, or ends with 7, and what it has finished is there
func TestFullTarget(t *testing.T) {
	for name, make := range map[string]func(*testing.T) small{
		"memory": smallMemory, "disk": smallDisk, "inodes": fewInodes, "quota": quota,
	} {
		t.Run(name, func(t *testing.T) {
			rig.Root(t)
			source := rig.Memory(t)
			rig.Make(t, source, rig.Shape{Seed: 1, Small: 250, Large: 2, LargeBytes: 5 << 20})
			s := make(t)
			target := filepath.Join(s.dir, "target")
			p := rig.New(t)
			p.Do(t, 7, "copy", "-q", "--full=fail", source, target)
			want, _ := rig.Look(t, source)
			allWhole(t, want, target)
			r := p.Start(t, "copy", "--full=wait", source, target)
			r.Until("it pauses and says why", func() bool { return strings.Contains(r.Complained(), "paused") })
			allWhole(t, want, target)
			s.free(t)
			r.Want(0)
			rig.SameTrees(t, source, target, true)
		})
	}
}

// allWhole says that every name in dir is what it should be.
func allWhole(t *testing.T, want rig.Tree, dir string) {
	t.Helper()
	if _, err := os.Lstat(dir); err != nil {
		return
	}
	seen, _ := rig.Look(t, dir)
	for name, n := range seen {
		if n.Type != os.ModeDir && n.Content() != want[name].Content() {
			t.Errorf("%q is %v, want %v", name, n, want[name])
		}
	}
}
