package localfs

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/test/loopfs"
	"datamove.dev/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const mib = 1 << 20

// nobody is an ordinary user.
const nobody = 4711

// opened opens a file or directory for one test.
func opened(t testing.TB, path string) int {
	t.Helper()
	fd := must.Get(unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0))(t)
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// write appends bytes that do not compress, in small pieces, until an error.
func write(path string, bytes int) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	random, err := os.Open("/dev/urandom")
	if err != nil {
		return err
	}
	defer random.Close()
	if _, err = io.CopyBuffer(onlyWrite{f}, io.LimitReader(random, int64(bytes)), make([]byte, 256<<10)); err != nil {
		return err
	}
	return f.Sync()
}

type onlyWrite struct{ io.Writer }

// asNobody runs do as an ordinary user.
func asNobody(t *testing.T, do func()) {
	t.Helper()
	must.Do(t, loopfs.As(nobody, do))
}

func quotaOf(t *testing.T, q lustre.Quotas, fd int, p lustre.Project) lustre.Quota {
	t.Helper()
	got := must.Get(q.Quota(t.Context(), fd, p))(t)
	return got
}

func projectOf(t *testing.T, q lustre.Quotas, path string) lustre.Project {
	t.Helper()
	p := must.Get(q.Project(t.Context(), opened(t, path)))(t)
	return p
}

// eventually waits for what a kernel does in the background.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not come: ", what)
		}
	}
}

// refused checks that an error says what is missing, and has a kind.
func refused(t *testing.T, err, kind error, words ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%v is not %v", err, kind)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not say %q", err, word)
		}
	}
}

// holdLimit is what every file system with quotas has to do with a project that has the
// directory dir, and that holds almost nothing: it fills it as root and as a user, and
// raises and removes limits. What is too much is the error full.
func holdLimit(t *testing.T, q lustre.Quotas, dir string, p lustre.Project, rootToo bool, full error) {
	fd := opened(t, dir)
	must.Do(t, os.Chmod(dir, 0o777))
	limit := func(bytes int64) {
		t.Helper()
		must.Do(t, q.SetQuota(t.Context(), fd, p, lustre.Limits{HardBytes: bytes}))
		if got := quotaOf(t, q, fd, p); got.HardBytes != bytes || !got.Enforced || got.RootToo != rootToo {
			t.Fatalf("a limit of %d is told as %+v", bytes, got)
		}
	}
	limit(10 * mib)
	asNobody(t, func() {
		if err := write(dir+"/user", 20*mib); !errors.Is(err, full) {
			t.Errorf("a user writes 20 MiB where 10 may be: %v", err)
		}
	})
	got := quotaOf(t, q, fd, p)
	if left, ok := got.LeftBytes(); !ok || left > 2*mib || got.UsedBytes > 10*mib || got.UsedBytes < 8*mib {
		t.Errorf("full is told as %d used, %d left", got.UsedBytes, left)
	}
	err := write(dir+"/root", 4*mib)
	if rootToo && !errors.Is(err, full) {
		t.Errorf("root writes 4 MiB more: %v", err)
	}
	if !rootToo && err != nil {
		t.Errorf("root is not held here, and was: %v", err)
	}
	limit(40 * mib)
	asNobody(t, func() {
		if err := write(dir+"/raised", 4*mib); err != nil {
			t.Errorf("after the limit was raised: %v", err)
		}
	})
	limit(mib) // below what is there
	asNobody(t, func() {
		if err := write(dir+"/below", mib); !errors.Is(err, full) {
			t.Errorf("with a limit below what is there: %v", err)
		}
	})
	if left, ok := func() (int64, bool) { q := quotaOf(t, q, fd, p); return q.LeftBytes() }(); left != 0 || !ok {
		t.Errorf("over the limit %d are left", left)
	}
	limit(0)
	asNobody(t, func() {
		if err := write(dir+"/free", 4*mib); err != nil {
			t.Errorf("after the limit was taken away: %v", err)
		}
	})
	for _, bad := range []lustre.Limits{{HardBytes: -1}, {SoftBytes: 2, HardBytes: 1}, {SoftFiles: -1}} {
		refused(t, q.SetQuota(t.Context(), fd, p, bad), fs.ErrInvalid)
	}
	// What is over a limit for good can be taken away.
	for _, name := range []string{"user", "root", "raised", "below", "free"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
}

// TestAnswers: whoever has no answer says why, and what there is instead.
func TestAnswers(t *testing.T) {
	for kind, want := range map[lustre.Kind]struct {
		quota bool
		words string // of the reason that there is no layout or quota
	}{
		lustre.IsBtrfs:   {true, "by itself"},
		lustre.IsExt4:    {true, "not striped"},
		lustre.IsXFS:     {true, "not striped"},
		lustre.IsNFS:     {false, "no project or directory quotas"},
		lustre.IsBeeGFS:  {false, "beegfs quota"},
		lustre.IsJuiceFS: {false, "juicefs quota"},
		lustre.IsOther:   {false, "ext4, xfs and btrfs have them"},
	} {
		s := &lustre.System{Kind: kind, Mount: "/m", Name: "source"}
		Answer(s, "/dev/none")
		if (s.Quota != nil) != want.quota || s.Usage == nil || s.Layout != nil || s.HSM != nil || s.Change != nil {
			t.Errorf("%s answers %+v", kind, s)
		}
		ask := lustre.AskQuota
		if want.quota {
			ask = lustre.AskLayout
		}
		for _, question := range []lustre.Question{ask, lustre.AskHSM, lustre.AskChange} {
			refused(t, s.Lack(question), errors.ErrUnsupported, "/m", string(kind))
		}
		refused(t, s.Lack(ask), errors.ErrUnsupported, want.words)
	}
}

// TestSpace: the numbers are those of a file system of a known size.
func TestSpace(t *testing.T) {
	if os.Geteuid() != 0 {
		loopfs.Skip(t, "needs root")
	}
	dir := t.TempDir()
	must.Do(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=3m,nr_inodes=20"))
	defer func() { must.Do(t, unix.Unmount(dir, unix.MNT_DETACH)) }()
	must.Do(t, os.WriteFile(dir+"/f", make([]byte, mib), 0o600))
	got := must.Get(Space{Pool: "memory"}.Targets(t.Context(), opened(t, dir)))(t)
	if len(got) != 1 || got[0].Name != "memory" || got[0].Kind != lustre.InPool || got[0].TotalBytes != 3*mib || got[0].FreeBytes != 2*mib || got[0].TotalFiles != 20 || got[0].FreeFiles != 18 {
		t.Errorf("it is %+v", got)
	}
	if used := got[0].Used(); math.Abs(used-1./3) > 0.01 {
		t.Errorf("used: %v", used)
	}
	must.Do(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	got = must.Get(Space{}.Targets(t.Context(), opened(t, dir)))(t)
	if got[0].State != lustre.ReadOnlyState {
		t.Errorf("read-only is %v", got[0].State)
	}
	if _, err := (Space{}).Targets(t.Context(), -1); !errors.Is(err, unix.EBADF) {
		t.Errorf("no descriptor: %v", err)
	}
}
