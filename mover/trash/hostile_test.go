package trash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"datamove.dev/test/kill"
	"datamove.dev/test/loopfs"
	"datamove.dev/test/must"
)

// flag sets attributes of a file, as chattr does; it reports whether this file system has them.
func flag(t *testing.T, path string, flags int) bool {
	t.Helper()
	fd := held(t, path)
	defer unix.Close(fd)
	err := unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags)
	if err != nil && err != unix.ENOTTY && err != unix.EOPNOTSUPP {
		t.Fatal(err)
	}
	return err == nil
}

// held opens a file or directory; the caller closes it.
func held(t *testing.T, path string) int {
	t.Helper()
	fd := must.Get(unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0))(t)
	return fd
}

// deep makes a chain of directories, deeper than any path may be long, and returns its end.
func deep(t *testing.T, dir string, levels int) (end int) {
	t.Helper()
	at := held(t, dir)
	for range levels {
		must.Do(t, unix.Mkdirat(at, "deep", 0o755))
		next := must.Get(unix.Openat(at, "deep", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0))(t)
		must.Do(t, unix.Close(at))
		at = next
	}
	t.Cleanup(func() { _ = unix.Close(at) })
	return at
}

const immutable, appendOnly = 0x10, 0x20 // FS_IMMUTABLE_FL, FS_APPEND_FL

// TestHostile: however somebody has made a tree, all of it goes, and nothing else.
//
//safety:5/jobs with TestExchanged
func TestHostile(t *testing.T) {
	if os.Geteuid() != 0 {
		loopfs.Skip(t, "needs root")
	}
	everywhere(t, func(t *testing.T, dir string) {
		root := opened(t, dir)
		made(t, dir, "outside/dir/x", "outside/file")
		in := func(name string) string { return filepath.Join(dir, "in", name) }
		must.Do(t, os.Mkdir(in(""), 0o777))
		for _, name := range []string{"-rf", "a\nb", "\x01\xff", "...", "..x", strings.Repeat("n", 255), ".deep-x-1"} {
			made(t, in(""), name+"/x")
		}
		must.Do(t, os.Symlink(filepath.Join(dir, "outside"), in("link")))
		must.Do(t, os.Symlink("..", in("up")))
		must.Do(t, os.Symlink("loop", in("loop")))
		must.Do(t, os.Link(filepath.Join(dir, "outside/file"), in("hard")))
		must.Do(t, unix.Mkfifo(in("pipe"), 0o600))
		must.Do(t, unix.Mknod(in("device"), unix.S_IFBLK|0o600, int(unix.Mkdev(7, 250))))
		made(t, in(""), "frozen/file", "frozen/dir/file", "grows/file", "closed/dir/file")
		attributes := true
		for _, name := range []string{"frozen/file", "frozen/dir", "frozen"} {
			attributes = flag(t, in(name), immutable) && attributes
		}
		flag(t, in("grows/file"), appendOnly)
		flag(t, in("grows"), appendOnly)
		must.Do(t, os.Chmod(in("closed/dir"), 0))
		must.Do(t, os.Chmod(in("closed"), 0))
		for i := range 3 * namesOnce {
			made(t, in(""), fmt.Sprint("wide/", i))
		}
		end := deep(t, in(""), (attempts+6)*deepest)
		for _, name := range []string{"p", "q"} {
			must.Do(t, unix.Mkdirat(end, name, 0o755))
		}
		if _, err := Move(root, "in", "test"); err != nil {
			t.Fatal(err)
		}
		if done, err := Empty(t.Context(), root, Rate{}); done.Items != 1 || done.Left != 0 || err != nil {
			t.Errorf("%+v, %v (attributes: %v)", done, err, attributes)
		}
		if left := items(t, dir); len(left) > 0 {
			t.Errorf("%q", left)
		}
		for _, name := range []string{"outside/dir/x", "outside/file"} {
			if got, err := os.ReadFile(filepath.Join(dir, name)); string(got) != name {
				t.Errorf("%q, %v", got, err)
			}
		}
	})
}

// TestImmutableElsewhere: a file that is immutable and has a name elsewhere stays as it is, and is told.
//
//safety:5/jobs with TestExchanged
func TestImmutableElsewhere(t *testing.T) {
	if os.Geteuid() != 0 {
		loopfs.Skip(t, "needs root")
	}
	dir := loopfs.Mount(t, loopfs.Spec{Type: "ext4"})
	root := opened(t, dir)
	made(t, dir, "outside/file", "in/other")
	file := filepath.Join(dir, "outside/file")
	must.Do(t, os.Link(file, filepath.Join(dir, "in/hard")))
	flag(t, file, immutable)
	_, err := Move(root, "in", "test")
	must.Do(t, err)
	done, err := Empty(t.Context(), root, Rate{})
	if done.Left != 1 || !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), "hard") {
		t.Errorf("%+v, %v", done, err)
	}
	if err := os.WriteFile(file, nil, 0o600); !errors.Is(err, os.ErrPermission) {
		t.Errorf("it can be written: %v", err)
	}
	flag(t, file, 0)
	if done, err := Empty(t.Context(), root, Rate{}); done.Items != 1 || err != nil {
		t.Errorf("%+v, %v", done, err)
	}
}

// TestClear: everything below a directory goes, and the directory stays, whatever attributes it has.
func TestClear(t *testing.T) {
	if os.Geteuid() != 0 {
		loopfs.Skip(t, "needs root")
	}
	everywhere(t, func(t *testing.T, dir string) {
		for what, flags := range map[string]int{"plain": 0, "immutable": immutable, "append-only": appendOnly} {
			top := filepath.Join(dir, "in", what)
			made(t, top, "a", "b/c")
			must.Do(t, os.Chmod(top, 0o700)) // nothing is to be done to it, but for those
			flag(t, top, flags)
			for range 2 {
				if err := Clear(t.Context(), opened(t, top), Rate{}); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
			if entries, err := os.ReadDir(top); err != nil || len(entries) > 0 {
				t.Errorf("%s: %v, %v", what, entries, err)
			}
		}
	})
}

// TestOwnModes: who is not root removes what is his own, whatever modes it has.
func TestOwnModes(t *testing.T) {
	dir := inMemory(t)
	root := opened(t, dir)
	made(t, dir, "in/a/b/c", "in/d")
	for _, name := range []string{"in/a/b", "in/a", "in"} {
		must.Do(t, os.Chmod(filepath.Join(dir, name), 0))
	}
	must.Do(t, os.Chmod(filepath.Join(dir, "in"), 0o700)) // else nobody but root may move it
	_, err := Move(root, "in", "test")
	must.Do(t, err)
	if done, err := Empty(t.Context(), root, Rate{}); done.Items != 1 || done.Entries != 5 || err != nil {
		t.Errorf("%+v, %v", done, err)
	}
}

// TestSubvolumes: subvolumes of a btrfs go with what they lie in, read-only ones, too, however deep they lie and whatever
// lies in them; and so does the directory that is one itself.
func TestSubvolumes(t *testing.T) {
	dir := loopfs.Mount(t, loopfs.Spec{Type: "btrfs"})
	root := opened(t, dir)
	must.Do(t, loopfs.Groupless(dir, "in"))
	in := filepath.Join(dir, "in")
	made(t, in, "a/b/x")
	var frozen []int
	freeze := func(at int) {
		flags := uint64(1 << 1)
		if errno := command(at, 0x4008941a, &flags); errno != 0 { // BTRFS_IOC_SUBVOL_SETFLAGS
			t.Fatal(errno)
		}
	}
	for _, name := range []string{"a/s", "a/b/s", "s"} {
		must.Do(t, loopfs.Groupless(filepath.Join(in, filepath.Dir(name)), "s"))
		sub := filepath.Join(in, name)
		made(t, sub, "x", "y/z")
		end := deep(t, sub, 2*deepest)
		must.Do(t, loopfs.Groupless(proc(end), "inner"))
		inner := must.Get(unix.Openat(end, "inner", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0))(t)
		t.Cleanup(func() { _ = unix.Close(inner) })
		made(t, proc(inner), "x")
		frozen = append(frozen, inner, opened(t, sub))
	}
	at := in // where directories begin to be too deep: there is nowhere to move them to but out of the subvolume
	for depth := range deepest + 2 {
		at = filepath.Join(at, "d")
		must.Do(t, os.Mkdir(at, 0o755))
		if depth >= deepest-4 {
			must.Do(t, loopfs.Groupless(at, "s"))
			made(t, at, "s/y/y/y/y")
		}
	}
	must.Do(t, loopfs.Groupless(in, "none"))
	for _, at := range append(frozen, opened(t, filepath.Join(in, "none")), opened(t, in)) {
		freeze(at)
	}
	freezeNot := uint64(0) // a subvolume that is read-only can not be moved to another directory
	command(opened(t, in), 0x4008941a, &freezeNot)
	_, err := Move(root, "in", "test")
	must.Do(t, err)
	freeze(opened(t, filepath.Join(dir, Folder, items(t, dir)[0])))
	if done, err := Empty(t.Context(), root, Rate{}); done.Items != 1 || done.Left != 0 || err != nil {
		t.Errorf("%+v, %v", done, err)
	}
	if left := items(t, dir); len(left) > 0 {
		t.Errorf("%q", left)
	}
}

// TestProjects: a deep tree in which directories are of other projects goes, too.
func TestProjects(t *testing.T) {
	if os.Geteuid() != 0 {
		loopfs.Skip(t, "needs root")
	}
	for kind, options := range map[string][]string{"ext4": {"-O", "quota,project"}, "xfs": nil} {
		t.Run(kind, func(t *testing.T) {
			dir := loopfs.Mount(t, loopfs.Spec{Type: kind, Make: options, Rare: true})
			project := func(at int, id uint32) {
				t.Helper()
				x := struct{ flags, extsize, nextents, id, cow, p0, p1 uint32 }{flags: 0x200, id: id}                              // FS_XFLAG_PROJINHERIT
				if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(at), 0x401c5820, uintptr(unsafe.Pointer(&x))); errno != 0 { // FS_IOC_FSSETXATTR
					t.Fatal(errno)
				}
			}
			project(opened(t, dir), 7)
			must.Do(t, os.Mkdir(filepath.Join(dir, "in"), 0o755))
			project(opened(t, filepath.Join(dir, "in")), 8)
			at := opened(t, filepath.Join(dir, "in"))
			for i := range 3 * deepest {
				must.Do(t, unix.Mkdirat(at, "d", 0o755))
				next := must.Get(unix.Openat(at, "d", unix.O_RDONLY|unix.O_CLOEXEC, 0))(t)
				t.Cleanup(func() { _ = unix.Close(next) })
				project(next, uint32(9+i%2))
				at = next
			}
			root := opened(t, dir)
			_, err := Move(root, "in", "test")
			must.Do(t, err)
			if done, err := Empty(t.Context(), root, Rate{}); done.Items != 1 || err != nil {
				t.Errorf("%+v, %v", done, err)
			}
		})
	}
}

// TestExchanged: who has open what is being removed, and exchanges directories for links all the time, leads nobody out of it.
//
//safety:5/jobs what lies in the trash is exchanged for links while it is removed; what is mounted in it, or has a name elsewhere, keeps its contents
func TestExchanged(t *testing.T) {
	if os.Geteuid() != 0 {
		loopfs.Skip(t, "needs root")
	}
	everywhere(t, func(t *testing.T, dir string) {
		made(t, dir, "outside/dir/precious", "outside/precious")
		root := opened(t, dir)
		for round := range kill.Times(2, 10) {
			for i := range 40 {
				made(t, dir, fmt.Sprintf("in/%d/dir/x", i), fmt.Sprintf("in/%d/y", i))
			}
			must.Do(t, os.Chmod(filepath.Join(dir, "in"), 0o777))
			in := opened(t, filepath.Join(dir, "in"))
			var over atomic.Bool
			ended := make(chan error)
			uid := 1234 * (round % 2) // somebody, and root himself
			exchange := func() {
				for n := 0; !over.Load() && (uid != 0 || n < 3000); n++ { // root could go on for ever
					one := fmt.Sprint(n % 40)
					aside := fmt.Sprint("aside-", n)
					_ = unix.Symlinkat(filepath.Join(dir, "outside"), in, aside)
					_ = unix.Renameat2(in, one, in, aside, unix.RENAME_EXCHANGE)
					if sub, err := unix.Openat(in, one, unix.O_PATH|unix.O_DIRECTORY, 0); err == nil {
						_ = unix.Symlinkat("../../../../outside/dir", sub, "dir")
						_ = unix.Close(sub)
					}
				}
			}
			go func() { ended <- loopfs.As(uid, exchange) }()
			_, err := Move(root, "in", "test")
			must.Do(t, err)
			_, err = Empty(t.Context(), root, Rate{})
			over.Store(true)
			must.Do(t, <-ended)
			if err != nil && uid != 0 {
				t.Error(err)
			}
			for _, name := range []string{"outside/dir/precious", "outside/precious"} {
				if got, err := os.ReadFile(filepath.Join(dir, name)); string(got) != name {
					t.Fatalf("%q, %v", got, err)
				}
			}
		}
		if done, err := Empty(t.Context(), root, Rate{}); done.Left != 0 || err != nil || len(items(t, dir)) > 0 {
			t.Errorf("%+v, %v", done, err)
		}
	})
}

// TestStillWritten: who has directories open and goes on writing into them keeps nobody from removing them.
func TestStillWritten(t *testing.T) {
	if os.Geteuid() != 0 {
		loopfs.Skip(t, "needs root")
	}
	everywhere(t, func(t *testing.T, dir string) {
		made(t, dir, "in/a/b/x")
		must.Do(t, os.Chmod(filepath.Join(dir, "in/a/b"), 0o777))
		at := opened(t, filepath.Join(dir, "in/a/b"))
		root := opened(t, dir)
		var wrote atomic.Int64
		over, ended := make(chan struct{}), make(chan error)
		go func() {
			ended <- loopfs.As(1234, func() {
				for {
					select {
					case <-over:
						return
					default:
					}
					if fd, err := unix.Openat(at, fmt.Sprint(wrote.Add(1)), unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600); err == nil {
						_ = unix.Close(fd)
					}
				}
			})
		}()
		for wrote.Load() < 100 { // it has begun
			made(t, dir, "spare")
		}
		_, err := Move(root, "in", "test")
		must.Do(t, err)
		done, err := Empty(t.Context(), root, Rate{})
		close(over)
		must.Do(t, <-ended)
		if done.Items != 1 || done.Left != 0 || err != nil {
			t.Errorf("%+v, %v", done, err)
		}
	})
}

// TestEnds: a context that is over ends it, and nothing is lost of what is to be done.
func TestEnds(t *testing.T) {
	dir := inMemory(t)
	root := opened(t, dir)
	made(t, dir, "in/a", "in/b")
	_, err := Move(root, "in", "test")
	must.Do(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if done, err := Empty(ctx, root, Rate{}); done.Items != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v", done, err)
	}
	if done, err := Empty(t.Context(), root, Rate{}); done.Items != 1 || err != nil {
		t.Errorf("%+v, %v", done, err)
	}
}
