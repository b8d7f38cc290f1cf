package localfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/test/loopfs"
	"datamove.dev/test/must"
)

var _ lustre.ProjectTender = (*Subvolumes)(nil)

// limited is a subvolume with a limit of 4 MiB, open to everybody, on a btrfs with simple quotas.
func limited(t *testing.T) (dir string, fd int, s *Subvolumes, p lustre.Project) {
	t.Helper()
	dir, fd, s = volumes(t)
	if err := s.Enable(t.Context(), fd, true); err != nil {
		t.Skip("this kernel has no simple quotas")
	}
	return dir, fd, s, open4(t, s, dir, fd)
}

// open4 is a subvolume with a limit of 4 MiB, open to everybody.
func open4(t *testing.T, s *Subvolumes, dir string, fd int) lustre.Project {
	t.Helper()
	p := made(t, s, fd, "p")
	must.Do(t, os.Chmod(dir+"/p", 0o777))
	must.Do(t, s.SetQuota(t.Context(), fd, p, lustre.Limits{HardBytes: 4 * mib}))
	return p
}

// TestNestedIsHeld: what somebody makes in a subvolume is held together with it, however deep.
//
//safety:8 with csi/volumestore TestQuotaHolds
func TestNestedIsHeld(t *testing.T) {
	dir, fd, s, p := limited(t)
	asNobody(t, func() {
		made(t, s, opened(t, dir+"/p"), "inner")
		made(t, s, opened(t, dir+"/p/inner"), "deep")
		must.Do(t, write(dir+"/p/inner/f", 2*mib))
		if err := write(dir+"/p/inner/deep/f", 3*mib); !errors.Is(err, unix.EDQUOT) {
			t.Errorf("5 MiB where 4 may be: %v", err)
		}
	})
	if q := quotaOf(t, s, fd, p); q.HardBytes != 4*mib || q.UsedBytes < 3*mib || !q.Enforced {
		t.Errorf("%+v", q)
	}
	must.Do(t, s.SetQuota(t.Context(), opened(t, dir+"/p"), p, lustre.Limits{HardBytes: 8 * mib}))
	must.Do(t, write(dir+"/p/inner/deep/more", 2*mib))
	told := &Subvolumes{sysfs: t.TempDir()} // the tree tells the same
	must.Do(t, unix.Syncfs(fd))
	if a, b := quotaOf(t, s, fd, p), quotaOf(t, told, fd, p); a.Limits != b.Limits || a.UsedBytes != b.UsedBytes || a.Escape != b.Escape {
		t.Errorf("%+v, and %+v", a, b)
	}
	asNobody(t, func() {
		if q := quotaOf(t, s, fd, p); q.HardBytes != 8*mib {
			t.Errorf("an ordinary user is told %+v", q)
		}
	})
}

// TestGrouplessIsGathered: the kernel lets everybody make a subvolume outside of all groups. It is found, and held from then on.
//
//safety:8 with csi/volumestore TestQuotaHolds
func TestGrouplessIsGathered(t *testing.T) {
	dir, fd, s, p := limited(t)
	asNobody(t, func() {
		made(t, s, opened(t, dir+"/p"), "inner")
		must.Do(t, loopfs.Groupless(dir+"/p/inner", "stray"))
		must.Do(t, write(dir+"/p/inner/stray/f", 3*mib))
		must.Do(t, write(dir+"/p/f", 2*mib))
	})
	if q := quotaOf(t, s, fd, p); q.Escape == "" {
		t.Errorf("it is not said: %+v", q)
	}
	for range 2 {
		must.Do(t, s.Gather(t.Context(), fd, p))
	}
	if q := quotaOf(t, s, fd, p); q.UsedBytes < 5*mib {
		t.Errorf("%+v", q)
	}
	asNobody(t, func() {
		if err := write(dir+"/p/inner/stray/f", mib); !errors.Is(err, unix.EDQUOT) {
			t.Errorf("it writes on: %v", err)
		}
		if err := loopfs.Groupless(dir+"/p", "another"); !errors.Is(err, unix.EDQUOT) {
			t.Errorf("another one: %v", err)
		}
	})
}

// TestFenceOfOld: a limit from before there was a group around a subvolume holds, and the next one holds what is nested, too.
func TestFenceOfOld(t *testing.T) {
	dir, fd, s, _ := limited(t)
	old := made(t, s, fd, "old")
	must.Do(t, os.Chmod(dir+"/old", 0o777))
	must.Do(t, limitGroup(fd, uint64(old.ID), 4*mib))
	asNobody(t, func() {
		made(t, s, opened(t, dir+"/old"), "inner")
		must.Do(t, write(dir+"/old/inner/f", 6*mib))
		must.Do(t, write(dir+"/old/f", 2*mib))
	})
	if q := quotaOf(t, s, fd, old); q.HardBytes != 4*mib || q.UsedBytes > 3*mib || q.Escape == "" || !q.Enforced {
		t.Errorf("%+v", q)
	}
	must.Do(t, s.SetQuota(t.Context(), fd, old, lustre.Limits{HardBytes: 10 * mib}))
	if q := quotaOf(t, s, fd, old); q.HardBytes != 10*mib || q.UsedBytes < 8*mib {
		t.Errorf("%+v", q)
	}
	asNobody(t, func() {
		if err := write(dir+"/old/inner/f", 4*mib); !errors.Is(err, unix.EDQUOT) {
			t.Errorf("%v", err)
		}
	})
	// A group of that number which is somebody else's stays as it is.
	other := made(t, s, fd, "other")
	must.Do(t, createGroup(fd, fenceOf(uint64(other.ID))))
	must.Do(t, assignGroup(fd, uint64(old.ID), fenceOf(uint64(other.ID))))
	must.Do(t, s.SetQuota(t.Context(), fd, other, lustre.Limits{HardBytes: mib}))
	if g, err := s.group(fd, fenceOf(uint64(other.ID))); err != nil || g.limits != 0 {
		t.Errorf("%+v, %v", g, err)
	}
	if q := quotaOf(t, s, fd, other); q.HardBytes != mib {
		t.Errorf("%+v", q)
	}
}

// TestFullQuotasAreNoFence: with full quotas a subvolume that is made in another one has a group of its own, without a limit. Who
// relies on limits is told that.
func TestFullQuotasAreNoFence(t *testing.T) {
	dir, fd, s := volumes(t)
	counted(t, s, fd)
	p := made(t, s, fd, "p")
	must.Do(t, os.Chmod(dir+"/p", 0o777))
	must.Do(t, s.SetQuota(t.Context(), fd, p, lustre.Limits{HardBytes: 2 * mib}))
	asNobody(t, func() {
		inner := made(t, s, opened(t, dir+"/p"), "inner")
		must.Do(t, write(dir+"/p/inner/f", 4*mib))
		if q := quotaOf(t, s, fd, inner); q.HardBytes != 0 || q.UsedBytes < 4*mib {
			t.Errorf("the inner one has %+v", q)
		}
	})
	if q := quotaOf(t, s, fd, p); q.UsedBytes > mib || q.Escape == "" {
		t.Errorf("the outer one has %+v", q)
	}
}

// TestNestedRemoved: subvolumes go with the one that they lie in, also those that their owner made read-only, and with simple quotas in
// the end so do their groups.
//
//safety:5/volumes with csi/volumestore TestNestedSubvolumes
func TestNestedRemoved(t *testing.T) {
	t.Run("simple", func(t *testing.T) {
		dir, fd, s, p := limited(t)
		removedWithNested(t, dir, fd, s, p)
		forgotten(t, s, fd, p)
		if left, err := filepath.Glob(groupsOf(t, fd) + "/[01]_*"); err != nil || len(left) != 1 || filepath.Base(left[0]) != "0_5" {
			t.Errorf("groups %v are left, %v", left, err)
		}
	})
	t.Run("full", func(t *testing.T) {
		dir, fd, s := volumes(t)
		counted(t, s, fd)
		removedWithNested(t, dir, fd, s, open4(t, s, dir, fd))
	})
}

func removedWithNested(t *testing.T, dir string, fd int, s *Subvolumes, p lustre.Project) {
	t.Helper()
	asNobody(t, func() {
		at := dir + "/p"
		for i := range 20 { // one in the other
			in(t, at, func(fd int) {
				made(t, s, fd, "inner")
				made(t, s, fd, fmt.Sprint("beside", i))
			})
			at += "/inner"
		}
		must.Do(t, loopfs.Groupless(at, "stray"))
		for ; at != dir+"/p"; at = filepath.Dir(at) {
			in(t, at, func(fd int) { must.Do(t, s.Freeze(t.Context(), fd, true)) })
		}
	})
	in(t, dir+"/p", func(fd int) { must.Do(t, s.Freeze(t.Context(), fd, true)) })
	must.Do(t, s.RemoveProject(t.Context(), fd, "p", p))
	if _, err := os.Stat(dir + "/p"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is there still: %v", err)
	}
}

// TestForget: a group stays as long as a snapshot has bytes that were written in it, and no longer.
//
//safety:8 with csi/volumestore TestQuotaHolds
func TestForget(t *testing.T) {
	dir, fd, s, p := limited(t)
	must.Do(t, write(dir+"/p/f", 2*mib))
	var kept lustre.Project
	in(t, dir+"/p", func(source int) {
		var err error
		kept, err = s.CloneProject(t.Context(), source, fd, "kept")
		must.Do(t, err)
	})
	if gone, err := s.Forget(t.Context(), fd, p); gone || err != nil {
		t.Errorf("of one that is there: %v, %v", gone, err)
	}
	must.Do(t, s.RemoveProject(t.Context(), fd, "p", p))
	eventually(t, "the end of the subvolume", func() bool {
		must.Do(t, ioctl(fd, wakeCleaner, nil))
		item, _, err := search(fd, key{rootTree, uint64(p.ID), rootItem, 0}, 1<<62)
		must.Do(t, err)
		return item == nil
	})
	if gone, err := s.Forget(t.Context(), fd, p); gone || err != nil {
		t.Errorf("its bytes are in a snapshot: %v, %v", gone, err)
	}
	must.Do(t, s.RemoveProject(t.Context(), fd, "kept", kept))
	forgotten(t, s, fd, p)
	must.Do(t, s.Disable(t.Context(), fd))
	forgotten(t, s, fd, p) // where nothing is known of it
}

// forgotten waits until nothing is known of a project that was removed.
func forgotten(t *testing.T, s *Subvolumes, fd int, p lustre.Project) {
	t.Helper()
	eventually(t, "the end of its groups", func() bool {
		must.Do(t, ioctl(fd, wakeCleaner, nil))
		gone := must.Get(s.Forget(t.Context(), fd, p))(t)
		return gone
	})
}

// in opens a directory for as long as something takes: what is open is not cleaned up.
func in(t *testing.T, path string, do func(fd int)) {
	t.Helper()
	fd := must.Get(unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0))(t)
	defer unix.Close(fd)
	do(fd)
}

// groupsOf is where the kernel tells of the groups of a btrfs.
func groupsOf(t *testing.T, fd int) string {
	t.Helper()
	id := must.Get(systemID(fd))(t)
	return sysfs + "/" + id + "/qgroups"
}
