package detect

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/test/loopfs"
	"datamove.dev/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// opened opens a path for one test.
func opened(t testing.TB, path string) *Handle {
	t.Helper()
	h := must.Get(Open(path, Options{}))(t)
	t.Cleanup(func() {
		must.Tell(t, h.Close())
	})
	return h
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		loopfs.Skip(t, "needs root")
	}
}

// mounted mounts for one test.
func mounted(t testing.TB, source, point, kind string, flags uintptr, options string) {
	t.Helper()
	if err := unix.Mount(source, point, kind, flags, options); err != nil {
		t.Skipf("this kernel does not mount %s: %v", kind, err)
	}
	t.Cleanup(func() { must.Do(t, unix.Unmount(point, unix.MNT_DETACH)) })
}

// TestOnDisk: what is mounted for real is found, of a directory and of a file.
func TestOnDisk(t *testing.T) {
	for kind, want := range map[string]lustre.Kind{"ext4": lustre.IsExt4, "xfs": lustre.IsXFS, "btrfs": lustre.IsBtrfs} {
		t.Run(kind, func(t *testing.T) {
			dir := loopfs.Mount(t, loopfs.Spec{Type: kind, Make: []string{"-q"}})
			must.Do(t, os.WriteFile(dir+"/f", nil, 0o644))
			for _, path := range []string{dir, dir + "/f"} {
				h := opened(t, path)
				s := h.System
				if s.Kind != want || s.Type != kind || s.Mount != dir || !strings.HasPrefix(s.Name, "/dev/loop") || h.Mount.Point != dir {
					t.Errorf("%s is on %+v, mount %+v", path, s, h.Mount)
				}
				if s.Quota == nil || s.Usage == nil || s.Layout != nil || h.IsDir() != (path == dir) || h.Path() != path {
					t.Errorf("%s: %+v", path, h)
				}
				if _, err := s.Quota.Project(t.Context(), h.FD()); err != nil && !errors.Is(err, errors.ErrUnsupported) {
					t.Error(err)
				}
				targets, err := s.Usage.Targets(t.Context(), h.FD())
				if err != nil || len(targets) != 1 || targets[0].TotalBytes < 100<<20 || targets[0].Name != s.Name {
					t.Errorf("%+v, %v", targets, err)
				}
			}
		})
	}
}

// TestSubvolumeIsFound: a subvolume has another device number than the mount that it is in.
func TestSubvolumeIsFound(t *testing.T) {
	dir := loopfs.Mount(t, loopfs.Spec{Type: "btrfs", Make: []string{"-q"}})
	maker, ok := opened(t, dir).System.Quota.(lustre.ProjectMaker)
	if !ok {
		t.Fatal("btrfs makes no projects")
	}
	top := opened(t, dir)
	if _, err := maker.MakeProject(t.Context(), top.FD(), "sub", 0o755); err != nil {
		t.Fatal(err)
	}
	if s := opened(t, dir+"/sub").System; s.Mount != dir || s.Kind != lustre.IsBtrfs {
		t.Errorf("it is on %+v", s)
	}
}

// TestMountsAreToldApart: several on one directory, a part of one elsewhere, odd names.
func TestMountsAreToldApart(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	odd := dir + "/a b\tc\\d\ne#"
	bound := dir + "/bound"
	must.Do(t, os.Mkdir(odd, 0o755))
	must.Do(t, os.Mkdir(bound, 0o755))
	mounted(t, "under neath", odd, "tmpfs", 0, "size=1m")
	below := opened(t, odd)
	mounted(t, `over\040`, odd, "tmpfs", 0, "size=2m")
	must.Do(t, os.Mkdir(odd+"/in", 0o755))
	mounted(t, odd+"/in", bound, "", unix.MS_BIND, "")
	for _, want := range []struct {
		h           *Handle
		name, mount string
		root        string
	}{
		{below, "under neath", odd, "/"},
		{opened(t, odd), `over\040`, odd, "/"},
		{opened(t, odd+"/in"), `over\040`, odd, "/"},
		{opened(t, bound), `over\040`, bound, "/in"},
	} {
		if id, err := oldMountID(want.h.FD()); id != want.h.Mount.ID || err != nil {
			t.Errorf("/proc says mount %d instead of %d, %v", id, want.h.Mount.ID, err)
		}
		s := want.h.System
		if s.Kind != lustre.IsOther || s.Type != "tmpfs" || s.Name != want.name || s.Mount != want.mount || want.h.Mount.Root != want.root {
			t.Errorf("%s: %+v, %+v", want.h.Path(), s, want.h.Mount)
		}
	}
	if err := below.System.Lack(lustre.AskQuota); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "in memory") {
		t.Errorf("it says %v", err)
	}
	must.Do(t, os.Mkdir(dir+"/gone", 0o755))
	must.Do(t, unix.Mount("gone", dir+"/gone", "tmpfs", 0, ""))
	gone := opened(t, dir+"/gone")
	must.Do(t, unix.Unmount(dir+"/gone", unix.MNT_DETACH))
	// A mount that is in no table any more is found by what statfs tells.
	again := must.Get(At(gone.FD(), Options{}))(t)
	if again.System.Kind != lustre.IsOther || again.System.Mount != "" || again.System.Usage == nil {
		t.Errorf("without a mount: %+v", again.System)
	}
	must.Do(t, again.Close())
}

func TestOverlayIsNone(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	for _, name := range []string{"lower", "upper", "work", "all"} {
		must.Do(t, os.Mkdir(dir+"/"+name, 0o755))
	}
	mounted(t, "all", dir+"/all", "overlay", 0, "lowerdir="+dir+"/lower,upperdir="+dir+"/upper,workdir="+dir+"/work")
	s := opened(t, dir+"/all").System
	if s.Kind != lustre.IsOther || s.Type != "overlay" || s.Quota != nil {
		t.Errorf("it is %+v", s)
	}
	if err := s.Lack(lustre.AskQuota); !strings.Contains(err.Error(), "below it") {
		t.Errorf("it says %v", err)
	}
}

// TestOpenQuietly: what is no file is not opened, nothing waits, and links are followed.
func TestOpenQuietly(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, unix.Mkfifo(dir+"/pipe", 0o644))
	must.Do(t, os.Symlink("pipe", dir+"/to pipe"))
	must.Do(t, os.Symlink("loop", dir+"/loop"))
	must.Do(t, os.WriteFile(dir+"/file", []byte("text"), 0o644))
	must.Do(t, os.Symlink("file", dir+"/to file"))
	for path, want := range map[string]error{
		dir + "/pipe": errNoFile, dir + "/to pipe": errNoFile, "/dev/null": errNoFile,
		dir + "/none": fs.ErrNotExist, dir + "/file/x": unix.ENOTDIR, dir + "/loop": unix.ELOOP, "": fs.ErrNotExist, "a\x00b": unix.EINVAL,
	} {
		h, err := Open(path, Options{})
		if !errors.Is(err, want) || h != nil {
			t.Errorf("%q: %v", path, err)
		}
	}
	h := opened(t, dir+"/to file")
	flags, err := unix.FcntlInt(uintptr(h.FD()), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_ACCMODE != unix.O_RDONLY || flags&unix.O_ASYNC != 0 {
		t.Errorf("it is open with %#x, %v", flags, err)
	}
	b := make([]byte, 9)
	if n, err := unix.Read(h.FD(), b); n != 4 || err != nil {
		t.Errorf("it has %q, %v", b[:n], err)
	}
	if os.Geteuid() == 0 {
		must.Do(t, os.WriteFile(dir+"/secret", nil, 0o600))
		must.Do(t, os.Chmod(dir, 0o755))
		must.Do(t, loopfs.As(4711, func() {
			if _, err := Open(dir+"/secret", Options{}); !errors.Is(err, fs.ErrPermission) {
				t.Errorf("what may not be read: %v", err)
			}
		}))
	}
	if _, err := At(-1, Options{}); !errors.Is(err, unix.EBADF) {
		t.Errorf("no descriptor: %v", err)
	}
}

// TestNothingStaysOpen: neither after an answer nor after an error.
func TestNothingStaysOpen(t *testing.T) {
	count := func() int {
		names := must.Get(os.ReadDir("/proc/self/fd"))(t)
		return len(names)
	}
	dir := t.TempDir()
	must.Do(t, unix.Mkfifo(dir+"/pipe", 0o644))
	before := count()
	for range 20 {
		h := must.Get(Open(dir, Options{}))(t)
		must.Do(t, h.Close())
		if _, err := Open(dir+"/pipe", Options{}); err == nil {
			t.Error("a pipe was opened")
		}
	}
	if after := count(); after != before {
		t.Errorf("%d descriptors became %d", before, after)
	}
}

// TestUnreachable: a mount that another one hides, or that is not seen from here, is not
// opened by its name: that is something else.
func TestUnreachable(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	mounted(t, "below", dir, "tmpfs", 0, "")
	h := opened(t, dir)
	must.Do(t, os.WriteFile(dir+"/f", nil, 0o600))
	file := opened(t, dir+"/f")
	must.Do(t, h.unreachable())
	mounted(t, "above", dir, "tmpfs", 0, "")
	for words, m := range map[string]Mount{"something else is mounted": h.Mount, "another namespace": {}, "no such file": {Point: dir + "/none"}} {
		if err := (&Handle{fd: h.fd, mode: h.mode, Mount: m, System: describe(lustreMagic, m)}).answerLustre(); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("a directory of something else: %v", err)
		}
		h := &Handle{fd: file.fd, mode: file.mode, Mount: m, System: describe(lustreMagic, m)}
		must.Do(t, h.answerLustre())
		for _, question := range []lustre.Question{lustre.AskLayout, lustre.AskQuota, lustre.AskUsage, lustre.AskHSM, lustre.AskChange} {
			if err := h.System.Lack(question); !strings.Contains(err.Error(), words) {
				t.Errorf("%s: %v", question, err)
			}
		}
	}
	// What has the type of a Lustre only is asked, and found out.
	other := opened(t, t.TempDir())
	other.System = &lustre.System{Kind: lustre.IsLustre, Mount: other.Mount.Point}
	if err := other.answerLustre(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a client on something else: %v", err)
	}
}
