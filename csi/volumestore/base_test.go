package volumestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/csi/volume"
	"datamove.dev/lustre"
	"datamove.dev/lustre/localfs"
	"datamove.dev/mover"
	"datamove.dev/test/loopfs"
	"datamove.dev/test/must"
)

const mib = 1 << 20

// onBtrfs is a file system with quotas that hold.
func onBtrfs(t *testing.T) Spec {
	t.Helper()
	return onBtrfsOf(t, 0)
}

// onBtrfsOf is onBtrfs with a size; 0 is 512 MiB.
func onBtrfsOf(t *testing.T, bytes int64) Spec {
	t.Helper()
	point := loopfs.Mount(t, loopfs.Spec{Type: "btrfs", Bytes: bytes})
	fd := must.Get(unix.Open(point, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0))(t)
	defer unix.Close(fd)
	must.Do(t, (&localfs.Subvolumes{}).Enable(t.Context(), fd, true))
	return Spec{Name: "lab", Kind: lustre.IsBtrfs, Root: point, Volumes: "k8s/volumes"}
}

// inMemory is a file system without quotas.
func inMemory(t *testing.T) Spec {
	t.Helper()
	root := must.Get(os.MkdirTemp("/dev/shm", "base-"))(t)
	t.Cleanup(func() { must.Do(t, os.RemoveAll(root)) })
	return Spec{Name: "lab", Kind: lustre.IsOther, Root: root, Volumes: "volumes", Unenforced: true}
}

func opened(t *testing.T, s Spec) *Base {
	t.Helper()
	b := must.Get(Open(t.Context(), s))(t)
	t.Cleanup(func() { must.Do(t, b.Close()) })
	return b
}

func wish(t *testing.T, b *Base, name string, bytes int64, more ...string) Wish {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: volumes are given to their owners")
	}
	given := map[string]string{"type": "project"}
	for i := 0; i < len(more); i += 2 {
		given[more[i]] = more[i+1]
	}
	p := must.Get(volume.ParseParameters(given))(t)
	return Wish{ID: volume.ID{Kind: volume.Project, FileSystem: "lab", Key: volume.KeyOf(b.Identity, volume.Project, name)}, Name: name, Bytes: bytes, Parameters: p}
}

func found(t *testing.T, b *Base, id volume.ID) *Found {
	t.Helper()
	f := must.Get(b.Find(t.Context(), id))(t)
	t.Cleanup(f.Close)
	return f
}

// pathOf is where a volume is. It is not left open: that would keep a file system from cleaning up behind it.
func pathOf(t *testing.T, b *Base, id volume.ID) string {
	t.Helper()
	f := must.Get(b.Find(t.Context(), id))(t)
	defer f.Close()
	return f.data.name()
}

func TestMake(t *testing.T) {
	for _, spec := range []func(*testing.T) Spec{inMemory, onBtrfs} {
		b := opened(t, spec(t))
		w := wish(t, b, "pvc-1", 20*mib, "mode", "2770", "uid", "1000", "gid", "2000")
		r := must.Get(b.Make(t.Context(), w))(t)
		again := must.Get(b.Make(t.Context(), w))(t)
		if again.Mark != r.Mark || r.Bytes != 20*mib || r.ID != w.ID.String() {
			t.Errorf("%+v, and then %+v", r, again)
		}
		var st unix.Stat_t
		must.Do(t, unix.Fstat(found(t, b, w.ID).Data(), &st))
		if st.Uid != 1000 || st.Gid != 2000 || st.Mode&0o7777 != 0o2770 {
			t.Errorf("%o of %d:%d", st.Mode, st.Uid, st.Gid)
		}
		larger := w
		larger.Bytes = 30 * mib
		if _, err := b.Make(t.Context(), larger); !errors.Is(err, mover.ErrConflict) || !strings.Contains(err.Error(), "capacity") {
			t.Errorf("another size under the same name: %v", err)
		}
	}
}

// TestQuotaHolds: a volume takes no more than its capacity, root or not, and more as soon as it has more.
//
//safety:8 a pod that writes beyond its capacity, also into subvolumes that it makes; groups that are left over
func TestQuotaHolds(t *testing.T) {
	b := opened(t, onBtrfs(t))
	w := wish(t, b, "pvc-1", 20*mib)
	r, err := b.Make(t.Context(), w)
	must.Do(t, err)
	if !r.Enforced {
		t.Fatalf("%+v", r)
	}
	file := filepath.Join(pathOf(t, b, w.ID), "file")
	if n, err := fill(file, 40*mib); !errors.Is(err, unix.EDQUOT) || n > 20*mib {
		t.Errorf("%d bytes, %v", n, err)
	}
	s, err := b.Stats(t.Context(), found(t, b, w.ID))
	if err != nil || s.TotalBytes != 20*mib || s.UsedBytes < 15*mib || s.LeftBytes > 5*mib {
		t.Errorf("%+v, %v", s, err)
	}
	_, err = b.Expand(t.Context(), w.ID, 60*mib)
	must.Do(t, err)
	must.Do(t, os.Remove(file))
	if n, err := fill(file, 40*mib); err != nil || n != 40*mib {
		t.Errorf("%d bytes, %v", n, err)
	}
	if r, err := b.Expand(t.Context(), w.ID, mib); err != nil || r.Bytes != 60*mib {
		t.Errorf("it became smaller: %+v, %v", r, err)
	}
	if r, err := b.Make(t.Context(), w); err != nil || r.Bytes != 60*mib { // the same wish is the same volume
		t.Errorf("%+v, %v", r, err)
	}
}

// fill writes to a file until it has n bytes, or is refused.
func fill(path string, n int64) (int64, error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	return fillFile(f, n)
}

// fillFile is fill for a file that is open, which it closes.
func fillFile(f *os.File, n int64) (int64, error) {
	defer f.Close()
	block := make([]byte, 64<<10)
	for i := range block {
		block[i] = byte(i * 7)
	}
	for off := int64(0); off < n; off += int64(len(block)) {
		if _, err := f.WriteAt(block, off); err != nil {
			return off, err
		}
		if err := f.Sync(); err != nil {
			return off, err
		}
	}
	return n, nil
}

// TestUnenforcedIsSaid: nobody is given a capacity that nothing holds, unless the operator says so.
func TestUnenforcedIsSaid(t *testing.T) {
	s := inMemory(t)
	r, err := opened(t, s).Make(t.Context(), wish(t, opened(t, s), "pvc-1", mib))
	if err != nil || r.Enforced || r.Unenforced == "" {
		t.Errorf("%+v, %v", r, err)
	}
	s.Unenforced = false
	b := opened(t, s)
	if _, err := b.Make(t.Context(), wish(t, b, "pvc-2", mib)); !errors.Is(err, mover.ErrUnsupported) || !strings.Contains(err.Error(), "unenforced") {
		t.Errorf("%v", err)
	}
}

// TestRemove: what is removed is not found, lies in the trash for its time, and is gone with everything then.
//
//safety:5/volumes links that lead out, trees deeper than a path may be long, a removal that is stopped
func TestRemove(t *testing.T) {
	for _, spec := range []func(*testing.T) Spec{inMemory, onBtrfs} {
		b := opened(t, spec(t))
		w := wish(t, b, "pvc-1", 20*mib, "trash", "1h")
		_, err := b.Make(t.Context(), w)
		must.Do(t, err)
		plant(t, pathOf(t, b, w.ID))
		outside := filepath.Join(b.spec.Root, "outside")
		must.Do(t, os.WriteFile(outside, []byte("stays"), 0o600))
		must.Do(t, os.Symlink(outside, filepath.Join(pathOf(t, b, w.ID), "link")))
		must.Do(t, os.Symlink(b.spec.Root, filepath.Join(pathOf(t, b, w.ID), "top")))
		must.Do(t, b.Remove(t.Context(), w.ID, "test"))
		must.Do(t, b.Remove(t.Context(), w.ID, "test"))
		if _, err := b.Find(t.Context(), w.ID); !errors.Is(err, mover.ErrNotExist) {
			t.Errorf("%v", err)
		}
		if gone, left, err := b.Reap(t.Context(), time.Now()); gone != 0 || left != 0 || err != nil {
			t.Errorf("before its time: %d, %d, %v", gone, left, err)
		}
		_, err = b.Make(t.Context(), w) // the name is free
		must.Do(t, err)
		if gone, left, err := b.Reap(t.Context(), time.Now().Add(2*time.Hour)); gone != 1 || left != 0 || err != nil {
			t.Errorf("%d, %d, %v", gone, left, err)
		}
		names, err := os.ReadDir(filepath.Join(b.top.name(), trashDir))
		if err != nil || len(names) != 0 {
			t.Errorf("%v, %v", names, err)
		}
		if got, err := os.ReadFile(outside); string(got) != "stays" {
			t.Errorf("%q, %v", got, err)
		}
		found(t, b, w.ID)
	}
}

// plant puts a tree into a directory: wide, and deeper than any path may be long.
func plant(t *testing.T, top string) {
	t.Helper()
	for i := range 3000 {
		must.Do(t, os.WriteFile(filepath.Join(top, fmt.Sprintf("wide%d", i)), nil, 0o600))
	}
	at := must.Get(unix.Open(top, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0))(t)
	for range 2500 {
		must.Do(t, unix.Mkdirat(at, "deep", 0o700))
		next := must.Get(unix.Openat(at, "deep", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0))(t)
		unix.Close(at)
		at = next
	}
	unix.Close(at)
}

// TestReapGoesOn: a removal that is stopped goes on, and what it has not removed is found again.
//
//safety:5/volumes with TestRemove
func TestReapGoesOn(t *testing.T) {
	b := opened(t, inMemory(t))
	w := wish(t, b, "pvc-1", mib, "trash", "0s")
	_, err := b.Make(t.Context(), w)
	must.Do(t, err)
	plant(t, pathOf(t, b, w.ID))
	must.Do(t, b.Remove(t.Context(), w.ID, "test"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if gone, left, err := b.Reap(ctx, time.Now()); gone != 0 || left != 1 || err != nil {
		t.Errorf("%d, %d, %v", gone, left, err)
	}
	if gone, left, err := b.Reap(t.Context(), time.Now()); gone != 1 || left != 0 || err != nil {
		t.Errorf("%d, %d, %v", gone, left, err)
	}
}

// TestNotOurs: what does not carry our mark is never removed, and never mounted.
//
//safety:5/volumes a directory that was there before, or was put in the place of a volume, carries no mark: it is not removed
func TestNotOurs(t *testing.T) {
	b := opened(t, onBtrfs(t))
	w := wish(t, b, "pvc-1", 20*mib)
	_, err := b.Make(t.Context(), w)
	must.Do(t, err)
	data := pathOf(t, b, w.ID)
	must.Do(t, os.Rename(data, data+".away"))
	must.Do(t, os.Mkdir(data, 0o700))
	must.Do(t, os.WriteFile(filepath.Join(data, "precious"), nil, 0o600))
	for _, what := range []func() error{
		func() error { return b.Remove(t.Context(), w.ID, "test") },
		func() error { _, err := b.Find(t.Context(), w.ID); return err },
		func() error { _, err := b.Make(t.Context(), w); return err },
	} {
		if err := what(); !errors.Is(err, mover.ErrConflict) {
			t.Errorf("%v", err)
		}
	}
	must.Do(t, os.Remove(filepath.Join(data, "precious")))
	must.Do(t, os.Remove(data))
	must.Do(t, os.Symlink("/etc", data))
	if _, err := b.Find(t.Context(), w.ID); !errors.Is(err, mover.ErrPermission) {
		t.Errorf("a link was followed: %v", err)
	}
	for _, id := range []string{"v1:static:lab:x", "v1:project:other:" + w.ID.Key} {
		parsed := must.Get(volume.ParseID(id))(t)
		if err := b.Remove(t.Context(), parsed, "test"); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// TestTwoMakeOne: requests for one volume that come at once make one.
//
//safety:5/volumes with TestKill
func TestTwoMakeOne(t *testing.T) {
	s := onBtrfs(t)
	first := opened(t, s)
	w := wish(t, first, "pvc-1", 20*mib)
	var makers sync.WaitGroup
	marks := make([]string, 16)
	for i := range marks {
		makers.Go(func() {
			b, err := Open(t.Context(), s)
			if err != nil {
				t.Error(err)
				return
			}
			defer b.Close()
			// Who lost a race is told so, and asks again after a while, as a provisioner does, until the winner is done.
			for give := time.Now().Add(time.Minute); time.Now().Before(give); time.Sleep(time.Millisecond) {
				r, err := b.Make(t.Context(), w)
				if err == nil {
					marks[i] = r.Mark
					return
				}
			}
			t.Error("it was never made")
		})
	}
	makers.Wait()
	for _, m := range marks {
		if m != marks[0] || m == "" {
			t.Errorf("%q", marks)
		}
	}
}

//safety:6 a file system that is not mounted, on a machine with a disk of the same kind
func TestWrongFileSystem(t *testing.T) {
	s := inMemory(t)
	s.Kind = lustre.IsLustre
	if _, err := Open(t.Context(), s); !errors.Is(err, mover.ErrUnreachable) || !strings.Contains(err.Error(), "is it mounted") {
		t.Errorf("%v", err)
	}
	if names, err := os.ReadDir(s.Root); err != nil || len(names) != 0 {
		t.Errorf("something was made where nothing is mounted: %v, %v", names, err)
	}
}

// TestMereDirectory: the disk of the machine may be of the same kind as the one that is not mounted. What is taken is where a file
// system is mounted, as the machine sees it or a pod, and no directory of one.
//
//safety:6 with TestWrongFileSystem
func TestMereDirectory(t *testing.T) {
	s := onBtrfs(t)
	top := s.Root
	fd, err := unix.Open(top, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must.Do(t, err)
	defer unix.Close(fd)
	_, err = (&localfs.Subvolumes{}).MakeProject(t.Context(), fd, "@lab", 0o755)
	must.Do(t, err)
	must.Do(t, os.Mkdir(filepath.Join(top, "mnt"), 0o755))
	bound := func(path string) string {
		t.Helper()
		point := t.TempDir()
		must.Do(t, unix.Mount(path, point, "", unix.MS_BIND, ""))
		t.Cleanup(func() { must.Do(t, unix.Unmount(point, unix.MNT_DETACH)) })
		return point
	}
	for what, row := range map[string]struct {
		root string
		ok   bool
	}{
		"a mount":                            {top, true},
		"a mount, as a pod sees it":          {bound(top), true},
		"a subvolume, as a pod sees it":      {bound(filepath.Join(top, "@lab")), true},
		"a mere directory":                   {filepath.Join(top, "mnt"), false},
		"a mere directory, as a pod sees it": {bound(filepath.Join(top, "mnt")), false},
		"a subvolume that is not mounted":    {filepath.Join(top, "@lab"), false},
	} {
		s.Root, s.Volumes = row.root, "volumes"
		b, err := Open(t.Context(), s)
		if err == nil {
			must.Do(t, b.Close())
		}
		if (err == nil) != row.ok || err != nil && (!errors.Is(err, mover.ErrUnreachable) || !strings.Contains(err.Error(), "is it mounted")) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if names, err := os.ReadDir(filepath.Join(top, "mnt")); err != nil || len(names) != 0 {
		t.Errorf("something was made where nothing is mounted: %v, %v", names, err)
	}
}

// TestHoldReadOnly: a node that can not write to the volumes says so, and that it can hold none.
func TestHoldReadOnly(t *testing.T) {
	root := onBtrfs(t)
	b := opened(t, root)
	r := must.Get(b.Make(t.Context(), wish(t, b, "pvc-1", 20*mib)))(t)
	id := must.Get(volume.ParseID(r.ID))(t)
	must.Do(t, unix.Mount("", root.Root, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	_, err := b.Hold(t.Context(), "n1", id, "/target")
	must.Do(t, unix.Mount("", root.Root, "", unix.MS_REMOUNT, ""))
	if !errors.Is(err, mover.ErrUnsupported) || !strings.Contains(err.Error(), "can not write to the volumes") {
		t.Errorf("held where nothing can be written: %v", err)
	}
}
