package trash

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/test/kill"
	"datamove.dev/test/loopfs"
	"datamove.dev/test/mountns"
	"datamove.dev/test/must"
)

func TestMain(m *testing.M) {
	kill.Main(map[string]func(string) error{"empty": empties})
	mountns.Main(m)
}

// inMemory is a directory of a tmpfs.
func inMemory(t testing.TB) string {
	t.Helper()
	dir := must.Get(os.MkdirTemp("/dev/shm", "trash-"))(t)
	t.Cleanup(func() { must.Do(t, os.RemoveAll(dir)) })
	return dir
}

// everywhere does a test on each kind of file system that is there.
func everywhere(t *testing.T, test func(t *testing.T, dir string)) {
	t.Run("tmpfs", func(t *testing.T) { test(t, inMemory(t)) })
	for _, kind := range []string{"ext4", "xfs", "btrfs"} {
		t.Run(kind, func(t *testing.T) { test(t, loopfs.Mount(t, loopfs.Spec{Type: kind})) })
	}
}

// opened opens a directory for the length of a test.
func opened(t testing.TB, dir string) int {
	t.Helper()
	fd := must.Get(unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0))(t)
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// made makes files, and the directories above them.
func made(t testing.TB, dir string, files ...string) {
	t.Helper()
	for _, name := range files {
		path := filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte(name), 0o644))
	}
}

func items(t testing.TB, dir string) (names []string) {
	t.Helper()
	entries := must.Get(os.ReadDir(filepath.Join(dir, Folder)))(t)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestLife: what is moved is gone from where it was, lies in a trash that is nobody's else under a name that says when and
// why, and is gone for good then. All of it may be done again.
func TestLife(t *testing.T) {
	everywhere(t, func(t *testing.T, dir string) {
		root := opened(t, dir)
		made(t, dir, "jobs/7/a", "jobs/7/b/c", "jobs/8/a", "file")
		first := must.Get(Move(root, "jobs/7", "slurm job 7\n;rm"))(t)
		if ok := regexp.MustCompile(`^\d{8}T\d{6}\.\d{9}Z\.slurm-job-7--rm\.[A-Z2-7]{26}$`).MatchString(first); !ok {
			t.Errorf("it is called %s", first)
		}
		for _, name := range []string{"jobs/7", "jobs/9", "nowhere/7"} {
			if again, err := Move(root, name, "again"); again != "" || err != nil {
				t.Errorf("%s, which is not there: %q, %v", name, again, err)
			}
		}
		second := must.Get(Move(root, "jobs/8", ""))(t)
		if third, err := Move(root, "file", "x"); third <= second || second <= first || err != nil {
			t.Errorf("%s, %s, %s do not sort by their age (%v)", first, second, third, err)
		}
		if info, err := os.Stat(filepath.Join(dir, Folder)); err != nil || info.Mode() != os.ModeDir|0o700 {
			t.Errorf("%v, %v", info, err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, Folder, first, "b/c")); err != nil || string(got) != "jobs/7/b/c" {
			t.Errorf("%q, %v", got, err)
		}
		if done, err := Empty(t.Context(), root, Rate{}); done.Items != 3 || done.Left != 0 || done.Entries != 7 || err != nil {
			t.Errorf("%+v, %v", done, err)
		}
		if left := items(t, dir); len(left) > 0 {
			t.Errorf("%q", left)
		}
		must.Do(t, os.Remove(filepath.Join(dir, Folder)))
		for range 2 {
			if done, err := Empty(t.Context(), root, Rate{}); done != (Report{}) || err != nil {
				t.Errorf("an empty one: %+v, %v", done, err)
			}
		}
	})
}

// TestTrashIsMadeAnew: a trash that is taken away meanwhile is made anew, and one that others can read is closed.
func TestTrashIsMadeAnew(t *testing.T) {
	dir := inMemory(t)
	root := opened(t, dir)
	for i := range 3 {
		made(t, dir, "x/y")
		if i == 2 {
			must.Do(t, os.Chmod(filepath.Join(dir, Folder), 0o755))
		}
		_, err := Move(root, "x", "test")
		must.Do(t, err)
		if info, err := os.Stat(filepath.Join(dir, Folder)); err != nil || info.Mode() != os.ModeDir|0o700 || len(items(t, dir)) == 0 {
			t.Errorf("%v, %v", info, err)
		}
		if i == 0 {
			must.Do(t, os.RemoveAll(filepath.Join(dir, Folder)))
		}
	}
}

// TestRefused: nothing is moved that is not below the root, and nothing to where somebody else could have it.
//
//safety:5/jobs with TestKill
func TestRefused(t *testing.T) {
	dir := inMemory(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	root := opened(t, dir)
	made(t, dir, "outside/x", "in/x")
	must.Do(t, os.Symlink(at("outside"), at("link")))
	must.Do(t, os.Symlink("in", at("near")))
	for _, name := range []string{"", ".", "..", "../x", "in/..", "/", "/in", "in//x", "in/", Folder, Folder + "/x"} {
		if _, err := Move(root, name, "test"); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"link/x", "near/x", "in/x/y"} {
		if _, err := Move(root, name, "test"); !errors.Is(err, mover.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for what, row := range map[string]struct {
		trash func() error
		kind  error
	}{
		"a link": {func() error { return os.Symlink(at("outside"), at(Folder)) }, mover.ErrConflict},
		"a file": {func() error { return os.WriteFile(at(Folder), nil, 0o600) }, mover.ErrConflict},
		"of somebody else": {func() error {
			return errors.Join(os.Mkdir(at(Folder), 0o700), os.Chown(at(Folder), 1234, 1234))
		}, mover.ErrPermission},
		"a mount": {func() error {
			return errors.Join(os.Mkdir(at(Folder), 0o700), unix.Mount("trash", at(Folder), "tmpfs", 0, ""))
		}, mover.ErrConflict},
	} {
		must.Do(t, os.RemoveAll(at(Folder)))
		if err := row.trash(); err != nil && os.Geteuid() != 0 {
			_ = os.RemoveAll(at(Folder))
			continue // that is for root
		} else if err != nil {
			t.Fatal(err)
		}
		_, err := Move(root, "in", "test")
		_, emptyErr := Empty(t.Context(), root, Rate{})
		if !errors.Is(err, row.kind) || !errors.Is(emptyErr, row.kind) || !strings.Contains(err.Error(), "remove it") {
			t.Errorf("a trash that is %s: %v; %v", what, err, emptyErr)
		}
		if what == "a mount" {
			must.Do(t, unix.Unmount(at(Folder), unix.MNT_DETACH))
		}
	}
	must.Do(t, os.RemoveAll(at(Folder)))
	_, err := Move(root, "link", "test")
	must.Do(t, err)
	if done, err := Empty(t.Context(), root, Rate{}); done.Items != 1 || err != nil {
		t.Errorf("%+v, %v", done, err)
	}
	for _, name := range []string{"outside/x", "in/x"} {
		if got, err := os.ReadFile(at(name)); string(got) != name {
			t.Errorf("%q, %v", got, err)
		}
	}
}

// TestMounted: what is mounted is not moved, neither is what lies on another file system; and
// what is mounted in something that was moved stays, is told, and keeps what is in it, while all else goes.
//
//safety:5/jobs with TestExchanged
func TestMounted(t *testing.T) {
	if os.Geteuid() != 0 {
		loopfs.Skip(t, "needs root")
	}
	everywhere(t, func(t *testing.T, dir string) {
		root := opened(t, dir)
		made(t, dir, "bound/precious", "in/a/b/x", "in/z", "later/x", "file")
		mount := func(from, to string) {
			t.Helper()
			must.Do(t, unix.Mount(from, filepath.Join(dir, to), "", unix.MS_BIND, ""))
		}
		must.Do(t, os.Mkdir(filepath.Join(dir, "in/a/b/m"), 0o700))
		mount(filepath.Join(dir, "bound"), "in/a/b/m") // of the same file system
		mount("/dev/null", "in/z")
		for _, name := range []string{"in/z", "in/a/b/m", "in/a/b/m/precious"} {
			if _, err := Move(root, name, "test"); !errors.Is(err, mover.ErrConflict) {
				t.Errorf("%s: %v", name, err)
			}
		}
		item, err := Move(root, "in", "test")
		must.Do(t, err)
		_, err = Move(root, "later", "test")
		must.Do(t, err)
		in := filepath.Join(dir, Folder, item)
		defer func() {
			must.Do(t, unix.Unmount(filepath.Join(in, "a/b/m"), unix.MNT_DETACH))
			must.Do(t, unix.Unmount(filepath.Join(in, "z"), unix.MNT_DETACH))
			if done, err := Empty(t.Context(), root, Rate{}); done.Items != 1 || done.Left != 0 || err != nil {
				t.Errorf("%+v, %v", done, err)
			}
		}()
		done, err := Empty(t.Context(), root, Rate{})
		if done.Items != 1 || done.Left != 1 || !errors.Is(err, mover.ErrConflict) || strings.Count(err.Error(), "mounted there") != 2 {
			t.Errorf("%+v, %v", done, err)
		}
		if _, err := os.Lstat(filepath.Join(in, "a/b/x")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("beside a mount: %v", err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "bound/precious")); string(got) != "bound/precious" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// TestRate: so many entries go in a second, and so many bytes, and no more; and a context that ends, ends it at once.
func TestRate(t *testing.T) {
	for what, row := range map[string]struct {
		rate Rate
		want time.Duration
	}{
		"entries": {Rate{Entries: 80}, 10 * time.Second},
		"bytes":   {Rate{Bytes: 80 << 12}, 10 * time.Second},
		"neither": {Rate{}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			dir := inMemory(t)
			root := opened(t, dir)
			for i := range 799 {
				made(t, dir, fmt.Sprint("in/", i))
			}
			_, err := Move(root, "in", "test")
			must.Do(t, err)
			begun := time.Now()
			done, err := Empty(t.Context(), root, row.rate)
			took := time.Since(begun)
			if done.Entries != 800 || err != nil || took > row.want || took < row.want*8/10 {
				t.Errorf("%s: %+v, %v in %v, and not in %v", what, done, err, took, row.want)
			}
		})
	}
}

// TestFaultsAreBounded: what stays of one item keeps no other one, and errors are not without number.
func TestFaultsAreBounded(t *testing.T) {
	if os.Geteuid() != 0 {
		loopfs.Skip(t, "needs root")
	}
	dir := inMemory(t)
	root := opened(t, dir)
	for i := range 30 {
		made(t, dir, fmt.Sprintf("in/%d/x", i), "other/x")
		m := filepath.Join(dir, fmt.Sprintf("in/%d/x", i))
		must.Do(t, unix.Mount("/dev/null", m, "", unix.MS_BIND, ""))
	}
	_, err := Move(root, "in", "test")
	must.Do(t, err)
	_, err = Move(root, "other", "test")
	must.Do(t, err)
	done, err := Empty(t.Context(), root, Rate{})
	if done.Items != 1 || done.Left != 1 || strings.Count(err.Error(), "\n") != keptFaults || !strings.Contains(err.Error(), "and 22 more") {
		t.Errorf("%+v, %v", done, err)
	}
	for i := range 30 {
		must.Do(t, unix.Unmount(filepath.Join(dir, Folder, items(t, dir)[0], fmt.Sprint(i), "x"), unix.MNT_DETACH))
	}
}

// TestAsNobody does the tests that need no root without it.
func TestAsNobody(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this is not root")
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^(TestLife|TestTrashIsMadeAnew|TestRefused|TestOwnModes|TestRandom|TestKill)$/^tmpfs$", "-test.v")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "HOME=/nonexistent", "TMPDIR=/dev/shm")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, Pdeathsig: unix.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), "--- PASS: ") < 6 || strings.Contains(string(out), "--- SKIP") {
		t.Errorf("%v\n%s", err, out)
	}
}
