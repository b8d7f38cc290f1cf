package power

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/test/crash/rig"
	"datamove.dev/test/must"
)

// TestLostDisk: the program is killed, and then its disk is gone with all that was not
// flushed, and comes back: a cable, a controller, a volume on the network. The kernel has not
// booted since, and the journal, on another disk, remembers every part and every file. The
// same command ends with equal trees.
//
//safety:3 the run is killed, its disk loses what was not flushed and is mounted again, and the kernel has not booted since: what no sync has confirmed does not count
func TestLostDisk(t *testing.T) {
	rig.Root(t)
	for _, row := range []struct {
		name, limit string
		shape       rig.Shape
		early, late int64           // bytes when the names go to the disk, and when the program is killed
		sync        func(int) error // of the target
	}{
		{"parts", "12M", rig.Shape{Large: 1, LargeBytes: 64 << 20}, 8 << 20, 40 << 20, unix.Syncfs},
		{"files", "1M", rig.Shape{Small: 900}, 5 << 19, 5 << 19, unix.Fsync}, // of the directory: contents are not synced with it
	} {
		source := rig.Memory(t)
		rig.Make(t, source, row.shape)
		for system, options := range map[string]string{"ext4": "", "xfs": "nouuid"} {
			t.Run(row.name+"/"+system, func(t *testing.T) {
				image, mount := filepath.Join(rig.Memory(t), "image"), t.TempDir()
				rig.Image(t, image, system, diskBytes)
				loop := put(t, image, mount, options)
				p, target := rig.New(t), filepath.Join(mount, "target")
				folders(t, source, target)
				args := []string{"copy", "--bwlimit", row.limit, source, target}
				r := p.Start(t, args...)
				grows(t, r, target, row.early)
				f := must.Get(os.Open(target))(t)
				must.Do(t, errors.Join(row.sync(int(f.Fd())), f.Close()))
				grows(t, r, target, row.late)
				if !r.Kill() {
					t.Fatalf("it has ended with %d: %s", r.Exit, r.Stderr())
				}
				shutdown(t, mount)
				rig.Unmount(t, mount)
				rig.Unmount(t, loop)
				// Another namespace may keep the dead file system. What is on the disk is in the image.
				if out, err := exec.Command("cp", image, image+"-back").CombinedOutput(); err != nil {
					t.Fatalf("cp: %v\n%s", err, out)
				}
				put(t, image+"-back", mount, options)
				p.Do(t, 0, "copy", source, target)
				rig.SameTrees(t, source, target, false)
			})
		}
	}
}

// folders makes the directories of a tree, so that none is built under a temporary name.
func folders(t *testing.T, source, target string) {
	t.Helper()
	tree, _ := rig.Look(t, source)
	for name, n := range tree {
		if n.Type != fs.ModeDir {
			continue
		}
		must.Do(t, os.MkdirAll(filepath.Join(target, name), 0o755))
	}
}

// grows waits until so many bytes of a tree are written, or the run ends.
func grows(t *testing.T, r *rig.Run, dir string, bytes int64) {
	t.Helper()
	for written(t, dir) < bytes {
		select {
		case <-r.Ended():
			t.Fatalf("it ended with %d: %s", r.Exit, r.Stderr())
		case <-time.After(20 * time.Millisecond): // a look is at hundreds of names
		}
	}
}

// written is how much is below a directory, under any name.
func written(t *testing.T, dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		var st unix.Stat_t
		if err == nil && unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
			bytes += st.Size
		}
		return nil // names come and go
	})
	return bytes
}

// put mounts the file system in an image at a place of the test's choice, too.
func put(t *testing.T, image, mount, options string) (loop string) {
	t.Helper()
	loop = rig.Loop(t, image, options)
	must.Do(t, unix.Mount(loop, mount, "", unix.MS_BIND, ""))
	t.Cleanup(func() { rig.Unmount(t, mount) })
	return loop
}

// shutdown ends a file system as the loss of its disk does: what is not on the disk never
// comes there. It is FS_IOC_SHUTDOWN with FS_SHUTDOWN_FLAGS_NOLOGFLUSH, which began as
// XFS_IOC_GOINGDOWN.
func shutdown(t *testing.T, mount string) {
	t.Helper()
	f := must.Get(os.Open(mount))(t)
	defer f.Close()
	const request, noLogFlush = 0x8004587d, 2
	if err := unix.IoctlSetPointerInt(int(f.Fd()), request, noLogFlush); err != nil {
		t.Fatal("shutdown: ", err)
	}
}
