package localfs

import (
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/test/must"
)

// TestSubvolumesSimple: simple quotas hold, and say what they do not count.
func TestSubvolumesSimple(t *testing.T) {
	dir, fd, s := volumes(t)
	before := made(t, s, fd, "before")
	must.Do(t, write(dir+"/before/f", 2*mib))
	if err := s.Enable(t.Context(), fd, true); err != nil {
		refused(t, err, unix.EINVAL, "Linux 6.7")
		t.Skip("this kernel has no simple quotas")
	}
	if q := quotaOf(t, s, fd, before); q.UsedBytes >= 2*mib || q.Doubt == "" {
		t.Errorf("what was there before is told as %+v", q)
	}
	p := made(t, s, fd, "p")
	holdLimit(t, s, dir+"/p", p, true, unix.EDQUOT)
}

// TestSubvolumesSharedBytes: what is shared counts in each, and a limit holds clones, too.
func TestSubvolumesSharedBytes(t *testing.T) {
	dir, fd, s := volumes(t)
	counted(t, s, fd)
	made(t, s, fd, "from")
	to := made(t, s, fd, "to")
	must.Do(t, s.SetQuota(t.Context(), fd, to, lustre.Limits{HardBytes: 6 * mib}))
	must.Do(t, write(dir+"/from/f", 5*mib))
	source := opened(t, dir+"/from/f")
	clone := func(name string) error {
		f, err := os.Create(dir + "/to/" + name)
		if err != nil {
			return err
		}
		defer f.Close()
		return errors.Join(unix.IoctlFileClone(int(f.Fd()), source), f.Sync())
	}
	must.Do(t, clone("one"))
	eventually(t, "its accounting", func() bool {
		must.Do(t, unix.Syncfs(fd))
		return quotaOf(t, s, fd, to).UsedBytes >= 5*mib
	})
	if err := write(dir+"/to/more", 3*mib); !errors.Is(err, unix.EDQUOT) {
		t.Errorf("3 MiB beside 5 that are shared, where 6 may be: %v", err)
	}
	must.Do(t, s.SetQuota(t.Context(), fd, to, lustre.Limits{HardBytes: mib}))
	if err := clone("two"); !errors.Is(err, unix.EDQUOT) {
		t.Errorf("a clone beyond the limit: %v", err)
	}
}

// TestSubvolumesInDoubt: btrfs loses count when a group with shared bytes is put into
// another one, and finds it again.
func TestSubvolumesInDoubt(t *testing.T) {
	dir, fd, s := volumes(t)
	counted(t, s, fd)
	p := made(t, s, fd, "p")
	must.Do(t, s.SetQuota(t.Context(), fd, p, lustre.Limits{HardBytes: 8 * mib}))
	must.Do(t, write(dir+"/p/f", mib))
	clone := must.Get(os.Create(dir + "/clone"))(t)
	must.Do(t, unix.IoctlFileClone(int(clone.Fd()), opened(t, dir+"/p/f")))
	must.Do(t, clone.Close())
	must.Do(t, unix.Syncfs(fd))
	const around = 1<<48 | 7 // 1/7
	b := make([]byte, 24)
	binary.NativeEndian.PutUint64(b, 1)
	binary.NativeEndian.PutUint64(b[8:], around)
	must.Do(t, ioctl(fd, qgroupCreate, b[:16]))
	binary.NativeEndian.PutUint64(b[8:], uint64(p.ID))
	binary.NativeEndian.PutUint64(b[16:], around)
	must.Do(t, ioctl(fd, 0x40189429, b)) // BTRFS_IOC_QGROUP_ASSIGN
	if q := quotaOf(t, s, fd, p); q.Doubt == "" || q.Enforced || q.HardBytes != 8*mib {
		t.Errorf("inconsistent counts are %+v", q)
	}
	must.Do(t, s.Rescan(t.Context(), fd))
	rescanned(t, s, fd)
	if q := quotaOf(t, s, fd, p); q.Doubt != "" || !q.Enforced || q.UsedBytes < mib {
		t.Errorf("after a scan it is %+v", q)
	}

	// A limit of the outer one holds, whatever is left of the inner one.
	must.Do(t, limitGroup(fd, around, 3*mib))
	if q := quotaOf(t, s, fd, p); !strings.Contains(q.Doubt, "level 1") || q.HardBytes != 8*mib {
		t.Errorf("with a limit around it, it is %+v", q)
	}
	if err := write(dir+"/p/more", 4*mib); !errors.Is(err, unix.EDQUOT) {
		t.Errorf("4 MiB more where the group around has 3: %v", err)
	}
	must.Do(t, limitGroup(fd, around, 0))
	if q := quotaOf(t, s, fd, p); q.Doubt != "" {
		t.Errorf("without a limit around it, it is %+v", q)
	}
}

// TestSubvolumesExclusive: a limit of another kind, which somebody else set, is not forgotten.
func TestSubvolumesExclusive(t *testing.T) {
	_, fd, s := volumes(t)
	counted(t, s, fd)
	p := made(t, s, fd, "p")
	b := make([]byte, 48)
	binary.NativeEndian.PutUint64(b, uint64(p.ID))
	binary.NativeEndian.PutUint64(b[8:], limitExclusive)
	binary.NativeEndian.PutUint64(b[24:], mib)
	must.Do(t, ioctl(fd, qgroupLimit, b))
	for _, s := range []*Subvolumes{s, {sysfs: t.TempDir()}} {
		if q := quotaOf(t, s, fd, p); q.HardBytes != 0 || !strings.Contains(q.Doubt, "shares with nobody") || !q.Enforced {
			t.Errorf("it is %+v", q)
		}
	}
	must.Do(t, s.SetQuota(t.Context(), fd, p, lustre.Limits{HardBytes: 3 * mib}))
	if q := quotaOf(t, s, fd, p); q.HardBytes != 3*mib || !strings.Contains(q.Doubt, "shares with nobody") {
		t.Errorf("after a limit beside it, it is %+v", q)
	}
}
