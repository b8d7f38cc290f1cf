package localfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/test/loopfs"
	"datamove.dev/test/must"
)

var _ lustre.ProjectMaker = (*Subvolumes)(nil)

// wakeCleaner is BTRFS_IOC_SYNC, after which the kernel cleans up at once instead of
// within half a minute.
const wakeCleaner = 0x9408

// volumes mounts a btrfs. Its top directory is open to everybody.
func volumes(t *testing.T) (string, int, *Subvolumes) {
	dir := loopfs.Mount(t, loopfs.Spec{Type: "btrfs", Make: []string{"-q"}})
	must.Do(t, os.Chmod(dir, 0o777))
	return dir, opened(t, dir), &Subvolumes{}
}

// counted switches quotas on, and waits until what is there is counted.
func counted(t *testing.T, s *Subvolumes, fd int) {
	t.Helper()
	must.Do(t, s.Enable(t.Context(), fd, false))
	rescanned(t, s, fd)
}

func rescanned(t *testing.T, s *Subvolumes, fd int) {
	t.Helper()
	eventually(t, "the end of the count", func() bool {
		running, _, err := s.Rescanning(t.Context(), fd)
		must.Do(t, err)
		return !running
	})
}

func made(t *testing.T, s *Subvolumes, dir int, base string) lustre.Project {
	t.Helper()
	p := must.Get(s.MakeProject(t.Context(), dir, base, 0o750))(t)
	return p
}

func TestSubvolumesHoldLimits(t *testing.T) {
	dir, fd, s := volumes(t)
	before := made(t, s, fd, "before")
	_, err := s.Quota(t.Context(), fd, before)
	refused(t, err, errors.ErrUnsupported, "btrfs quota enable", dir)
	refused(t, s.SetQuota(t.Context(), fd, before, lustre.Limits{HardBytes: mib}), errors.ErrUnsupported, "btrfs quota enable")
	counted(t, s, fd)
	p := made(t, s, fd, "project")
	if st, err := os.Stat(dir + "/project"); err != nil || st.Mode() != fs.ModeDir|0o750 {
		t.Errorf("it is %v, %v", st, err)
	}
	for _, p := range []lustre.Project{before, p} {
		if q := quotaOf(t, s, fd, p); q.HardBytes != 0 || q.Doubt != "" || q.CountsFiles || q.HasSoft || !q.Enforced || q.Project != p {
			t.Errorf("an empty subvolume: %+v", q)
		}
	}
	holdLimit(t, s, dir+"/project", p, true, unix.EDQUOT)
}

// TestSubvolumesAreProjects: what is made in one is in it.
func TestSubvolumesAreProjects(t *testing.T) {
	dir, fd, s := volumes(t)
	p := made(t, s, fd, "a")
	must.Do(t, os.Mkdir(dir+"/a/deeper", 0o755))
	must.Do(t, os.WriteFile(dir+"/a/deeper/f", nil, 0o644))
	if top := projectOf(t, s, dir); top.ID != 5 || p.ID < firstInode {
		t.Errorf("the top is %d, a new one is %d", top.ID, p.ID)
	}
	for _, name := range []string{"/a", "/a/deeper", "/a/deeper/f"} {
		if got := projectOf(t, s, dir+name); got != p {
			t.Errorf("%s is in %+v instead of %+v", name, got, p)
		}
	}
	inner := opened(t, dir+"/a/deeper")
	must.Do(t, s.SetProject(t.Context(), inner, p))
	refused(t, s.SetProject(t.Context(), inner, lustre.Project{ID: 5, Inherit: true}), errors.ErrUnsupported, "make it as a subvolume")
	for _, base := range []string{"", ".", "..", "a/b", "a\x00b", string(make([]byte, 256))} {
		if _, err := s.MakeProject(t.Context(), fd, base, 0o755); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("subvolume %q: %v", base, err)
		}
	}
	if _, err := s.MakeProject(t.Context(), fd, "a", 0o755); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second one of that name: %v", err)
	}
	none := opened(t, t.TempDir())
	_, err := s.Project(t.Context(), none)
	refused(t, err, errors.ErrUnsupported)
	_, err = s.Quota(t.Context(), none, p)
	refused(t, err, errors.ErrUnsupported)
	_, err = s.MakeProject(t.Context(), none, "a", 0o755)
	refused(t, err, errors.ErrUnsupported)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("it is over"))
	if _, err := s.Quota(ctx, fd, p); err == nil || err.Error() != "it is over" {
		t.Errorf("for nobody: %v", err)
	}
}

// TestSubvolumesRemoved: with all that is in them, the right one only, and their group goes, too.
func TestSubvolumesRemoved(t *testing.T) {
	dir, fd, s := volumes(t)
	counted(t, s, fd)
	kept, gone := made(t, s, fd, "kept"), made(t, s, fd, "gone")
	must.Do(t, s.SetQuota(t.Context(), fd, gone, lustre.Limits{HardBytes: 8 * mib}))
	must.Do(t, os.Mkdir(dir+"/gone/folder", 0o755))
	must.Do(t, write(dir+"/gone/folder/f", mib))
	must.Do(t, os.Symlink("kept", dir+"/link"))
	for base, p := range map[string]lustre.Project{"kept": gone, "gone/folder": gone, "link": kept, "..": kept} {
		if err := s.RemoveProject(t.Context(), fd, base, p); err == nil {
			t.Errorf("%s was removed as %d", base, p.ID)
		}
	}
	inside := must.Get(unix.Open(dir+"/gone", unix.O_RDONLY, 0))(t)
	if err := s.RemoveProject(t.Context(), inside, "folder", gone); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("a directory in it: %v", err)
	}
	must.Do(t, unix.Close(inside)) // what is open is not cleaned up
	if err := s.RemoveProject(t.Context(), fd, "none", gone); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("one that is not there: %v", err)
	}
	must.Do(t, s.RemoveProject(t.Context(), fd, "gone", gone))
	if _, err := os.Stat(dir + "/gone"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is there still: %v", err)
	}
	if _, err := os.Stat(dir + "/kept"); err != nil {
		t.Error(err)
	}
	// The kernel cleans up at its next commit, and then its group can go.
	eventually(t, "the end of its group", func() bool {
		must.Do(t, ioctl(fd, wakeCleaner, nil))
		_ = removeGroup(fd, uint64(gone.ID))
		return !quotaOf(t, s, fd, gone).Enforced
	})
	refused(t, s.SetQuota(t.Context(), fd, gone, lustre.Limits{HardBytes: mib}), fs.ErrNotExist, "no subvolume")
}

// TestSubvolumesTellTheSame: sysfs and the tree of quotas, when all is written.
func TestSubvolumesTellTheSame(t *testing.T) {
	dir, fd, s := volumes(t)
	counted(t, s, fd)
	p := made(t, s, fd, "p")
	must.Do(t, s.SetQuota(t.Context(), fd, p, lustre.Limits{HardBytes: 30 * mib}))
	must.Do(t, os.WriteFile(dir+"/p/f", make([]byte, 3*mib), 0o644))
	if q := quotaOf(t, s, fd, p); q.UsedBytes < 3*mib {
		t.Errorf("what was written and is on its way is not told: %d", q.UsedBytes)
	}
	other := &Subvolumes{sysfs: t.TempDir()} // nothing is there
	eventually(t, "the accounting", func() bool {
		must.Do(t, unix.Syncfs(fd))
		a, b := quotaOf(t, s, fd, p), quotaOf(t, other, fd, p)
		if a.HardBytes != 30*mib || a.Doubt != "" || !strings.Contains(b.Doubt, "/sys/fs/btrfs") || a.Limits != b.Limits {
			t.Fatalf("sysfs tells %+v, the tree %+v", a, b)
		}
		return a.UsedBytes == b.UsedBytes && a.UsedBytes >= 3*mib
	})
	must.Do(t, s.Disable(t.Context(), fd))
	_, err := s.Quota(t.Context(), fd, p)
	refused(t, err, errors.ErrUnsupported, "btrfs quota enable")
}

// TestSubvolumesFull: a descriptor in a full subvolume is enough to raise its limit, also
// where nothing else of the file system can be seen.
func TestSubvolumesFull(t *testing.T) {
	dir, fd, s := volumes(t)
	counted(t, s, fd)
	p := made(t, s, fd, "full")
	must.Do(t, os.Mkdir(dir+"/full/folder", 0o755))
	must.Do(t, write(dir+"/full/folder/f", 3*mib))
	alone := t.TempDir()
	must.Do(t, unix.Mount(dir+"/full", alone, "", unix.MS_BIND, ""))
	defer func() { must.Do(t, unix.Unmount(alone, unix.MNT_DETACH)) }()
	for i, path := range []string{dir + "/full", dir + "/full/folder", dir + "/full/folder/f", alone, alone + "/folder/f"} {
		inside := must.Get(unix.Open(path, unix.O_RDONLY, 0))(t)
		must.Do(t, s.SetQuota(t.Context(), inside, p, lustre.Limits{HardBytes: mib}))
		if err := write(dir+"/full/more", mib); !errors.Is(err, unix.EDQUOT) {
			t.Errorf("%s: over its limit: %v", path, err)
		}
		group := fenceOf(uint64(p.ID)) + 1
		must.Do(t, createGroup(inside, group))
		must.Do(t, removeGroup(inside, group))
		must.Do(t, s.SetQuota(t.Context(), inside, p, lustre.Limits{HardBytes: int64(10+i) * mib}))
		must.Do(t, unix.Close(inside))
	}
}

// TestSubvolumesAndUsers: everybody may look, and who may not change is told why.
func TestSubvolumesAndUsers(t *testing.T) {
	dir, fd, s := volumes(t)
	counted(t, s, fd)
	p := made(t, s, fd, "p")
	must.Do(t, s.SetQuota(t.Context(), fd, p, lustre.Limits{HardBytes: mib}))
	asNobody(t, func() {
		if q := quotaOf(t, s, fd, p); q.HardBytes != mib || !q.Enforced {
			t.Errorf("a user is told %+v", q)
		}
		refused(t, s.SetQuota(t.Context(), fd, p, lustre.Limits{}), fs.ErrPermission, "CAP_SYS_ADMIN")
		refused(t, s.Enable(t.Context(), fd, false), fs.ErrPermission, "CAP_SYS_ADMIN")
		_, err := (&Subvolumes{sysfs: dir}).Quota(t.Context(), fd, p)
		if err == nil {
			t.Error("a user reads the tree of quotas")
		}
		mine := made(t, s, fd, "mine")
		refused(t, s.RemoveProject(t.Context(), fd, "mine", mine), fs.ErrPermission, "user_subvol_rm_allowed")
	})
	refused(t, s.SetQuota(t.Context(), fd, p, lustre.Limits{HardFiles: 1}), errors.ErrUnsupported, "bytes only")
	refused(t, s.SetQuota(t.Context(), fd, p, lustre.Limits{SoftBytes: 1}), errors.ErrUnsupported, "bytes only")
	must.Do(t, s.SetQuota(t.Context(), fd, p, lustre.Limits{HardBytes: math.MaxInt64}))
	if q := quotaOf(t, s, fd, p); q.HardBytes != math.MaxInt64 {
		t.Errorf("the largest limit is %d", q.HardBytes)
	}
	refused(t, s.SetQuota(t.Context(), fd, lustre.Project{}, lustre.Limits{HardBytes: mib}), fs.ErrInvalid)
	last := lustre.Project{ID: math.MaxUint32}
	if q := quotaOf(t, s, fd, last); q.Enforced || q.Doubt == "" {
		t.Errorf("a subvolume that is not there: %+v", q)
	}
	refused(t, s.SetQuota(t.Context(), fd, last, lustre.Limits{HardBytes: mib}), fs.ErrNotExist)
}

// TestSubvolumesTogether: many change limits at once; each has its own in the end, and
// one of several is what the others' is.
func TestSubvolumesTogether(t *testing.T) {
	_, fd, s := volumes(t)
	counted(t, s, fd)
	shared := made(t, s, fd, "shared")
	var all sync.WaitGroup
	for i := range 8 {
		own := made(t, s, fd, fmt.Sprint(i))
		all.Go(func() {
			for n := range 25 {
				must.Tell(t, s.SetQuota(t.Context(), fd, own, lustre.Limits{HardBytes: int64(i*100+n+1) * mib}))
				err := s.SetQuota(t.Context(), fd, shared, lustre.Limits{HardBytes: int64(i+1) * mib})
				if err != nil && !errors.Is(err, lustre.ErrNotApplied) {
					t.Error(err)
				}
			}
			if q, err := s.Quota(t.Context(), fd, own); err != nil || q.HardBytes != int64(i*100+25)*mib {
				t.Errorf("%d has %+v, %v", i, q, err)
			}
		})
	}
	all.Wait()
	if q := quotaOf(t, s, fd, shared); q.HardBytes < mib || q.HardBytes > 8*mib || q.HardBytes%mib != 0 {
		t.Errorf("the shared one has %d", q.HardBytes)
	}
}
