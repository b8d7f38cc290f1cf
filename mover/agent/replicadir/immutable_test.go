package replicadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/test/kill"
	"datamove.dev/test/must"
)

// What is immutable nobody changes, not even who staged it; mutable it is as before.
//
//safety:7 with test/system/service TestSealedCache
func TestSealed(t *testing.T) {
	systems(t, func(t *testing.T, root string) {
		s, dir := staged(t, root, 200), filepath.Join(root, where)
		before := facts(t, dir)
		for range 2 { // again is no error
			if why, err := s.MakeImmutable(t.Context(), alice); err != nil || why != "" {
				t.Fatalf("%q, %v", why, err)
			}
		}
		if sealed, open := sealedBelow(t, dir); open != 0 || sealed < 200 {
			t.Fatalf("%d are sealed, %d are not", sealed, open)
		}
		if after := facts(t, dir); after != before {
			t.Errorf("it was\n%s\nand is\n%s", before, after)
		}
		file := dir + "/d0000/f000000"
		for what, try := range map[string]string{
			"writes to a file": "echo x >>" + file, "empties it": ": >" + file, "removes it": "rm -f " + file, "renames it": "mv " + file + " " + file + "x",
			"replaces it": "cp " + file + " /dev/shm/shelf-$$; trap 'rm -f /dev/shm/shelf-$$' EXIT; mv -f /dev/shm/shelf-$$ " + file, "changes its mode": "chmod 600 " + file, "touches it": "touch " + file,
			"links it": "ln " + file + " " + file + "x", "links the other name of it": "ln " + dir + "/deep/er/twin " + dir + "/deep/x",
			"makes a file": "echo >" + dir + "/new", "makes one deep in it": "echo >" + dir + "/deep/er/and/new", "makes a folder": "mkdir " + dir + "/d", "removes a folder": "rmdir " + dir + "/deep/er/and",
			"renames a folder": "mv " + dir + "/deep " + dir + "/x", "renames all of it": "mv " + dir + " " + dir + "x", "removes a link": "rm -f " + dir + "/link", "removes a FIFO": "rm -f " + dir + "/fifo",
			"changes the mode of its folder": "chmod 700 " + dir, "removes all of it": "rm -rf " + dir, "sets an attribute": "setfattr -n user.x -v y " + file,
			"unseals it": "chattr -i " + file,
		} {
			if err := as(alice, try); err == nil {
				t.Errorf("who staged it %s", what)
			}
		}
		if err := as(alice, "cat "+file+" "+dir+"/deep/er/twin "+dir+"/d0001/f000150 >/dev/null; ls -lR "+dir+" >/dev/null"); err != nil {
			t.Errorf("who staged it reads: %v", err)
		}
		if err := os.RemoveAll(dir); err == nil {
			t.Error("root removes it by hand")
		}
		if after := facts(t, dir); after != before {
			t.Errorf("after all that it is\n%s", after)
		}
		must.Do(t, s.MakeMutable(t.Context()))
		if sealed, _ := sealedBelow(t, dir); sealed != 0 || facts(t, dir) != before {
			t.Errorf("%d are sealed still", sealed)
		}
		must.Tell(t, as(alice, "rm -rf "+dir+"/*"))
	})
}

// facts are the names, modes, owners, sizes and times below a directory.
func facts(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		var st unix.Stat_t
		if err = errors.Join(err, unix.Lstat(path, &st)); err == nil {
			fmt.Fprintln(&b, path, st.Mode, st.Uid, st.Gid, st.Size, st.Nlink, st.Mtim, st.Ino)
		}
		return err
	})
	must.Do(t, err)
	return b.String()
}

// Who has something open for writing could go on; so that is not immutable.
//
//safety:7 with test/system/service TestSealedCache
func TestSealWriters(t *testing.T) {
	systems(t, func(t *testing.T, root string) {
		s, dir := staged(t, root, 200), filepath.Join(root, where)
		f := must.Get(os.OpenFile(dir+"/d0001/f000123", os.O_WRONLY, 0))(t)
		if _, err := s.MakeImmutable(t.Context(), alice); !errors.Is(err, mover.ErrConflict) || !strings.Contains(err.Error(), "f000123") {
			t.Errorf("with a writer: %v", err)
		}
		f.Close()
		must.Do(t, s.MakeMutable(t.Context()))
		m := must.Get(os.OpenFile(dir+"/d0001/f000124", os.O_RDWR, 0))(t)
		page := must.Get(unix.Mmap(int(m.Fd()), 0, 1, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED))(t)
		m.Close()
		if _, err := s.MakeImmutable(t.Context(), alice); !errors.Is(err, mover.ErrConflict) {
			t.Errorf("with a mapping: %v", err)
		}
		must.Do(t, unix.Munmap(page))
		if why, err := s.MakeImmutable(t.Context(), alice); err != nil || why != "" {
			t.Errorf("without: %q, %v", why, err)
		}
	})
}

// What a user puts into his replica that is not his, or that he can answer for, is not immutable: nobody reads it for him.
//
//safety:7 a hard link to a file of another user, and a file system that a user mounts, in a replica that he stages
func TestSealStrange(t *testing.T) {
	systems(t, func(t *testing.T, root string) {
		s, dir := staged(t, root, 200), filepath.Join(root, where)
		theirs := filepath.Join(root, "theirs")
		mount := func(at string) (undo func() error) {
			must.Do(t, unix.Mount("none", at, "tmpfs", 0, "size=1m"))
			return func() error { return unix.Unmount(at, 0) }
		}
		for _, row := range []struct {
			what string
			do   func() (undo func() error)
			at   string // what must not be immutable
		}{
			{"belongs to uid 54002", func() func() error {
				must.Do(t, errors.Join(os.WriteFile(theirs, []byte("secret"), 0o600), os.Chown(theirs, bob, bob), os.Link(theirs, dir+"/link-to-theirs")))
				return func() error { return os.Remove(dir + "/link-to-theirs") }
			}, theirs},
			{"belongs to uid 0", func() func() error {
				must.Do(t, errors.Join(os.WriteFile(theirs, []byte("secret"), 0o600), os.Chown(theirs, 0, 0), os.Link(theirs, dir+"/link-to-root")))
				return func() error { return errors.Join(os.Remove(dir+"/link-to-root"), os.Chown(theirs, bob, bob)) }
			}, theirs},
			{"another file system is mounted at d0001", func() func() error { return mount(dir + "/d0001") }, dir + "/d0001"},
			{"another file system is mounted at f000003", func() func() error {
				must.Do(t, unix.Mount(theirs, dir+"/d0000/f000003", "", unix.MS_BIND, ""))
				return func() error { return unix.Unmount(dir+"/d0000/f000003", 0) }
			}, theirs},
			{"another file system is mounted at data", func() func() error { return mount(dir) }, dir},
		} {
			undo := row.do()
			why, err := s.MakeImmutable(t.Context(), alice)
			if why != "" || !errors.Is(err, mover.ErrConflict) || !strings.Contains(err.Error(), row.what) {
				t.Errorf("it %s: %q, %v", row.what, why, err)
			}
			f := must.Get(os.Open(row.at))(t)
			if sealed, err := isImmutable(int(f.Fd())); sealed {
				t.Errorf("it %s, and is sealed: %v", row.what, err)
			}
			_ = s.MakeMutable(t.Context()) // a link goes after that, and a mount before it
			must.Do(t, errors.Join(f.Close(), undo(), s.MakeMutable(t.Context())))
		}
		must.Do(t, os.WriteFile(dir+"/of-root", []byte("restaged"), 0o600))
		if why, err := s.MakeImmutable(t.Context(), alice); err != nil || why != "" || !s.Immutable() {
			t.Errorf("without all that: %q, %v", why, err)
		}
	})
}

// Killed at any moment, it is done by doing it again.
func TestKilled(t *testing.T) {
	const files = 300
	systems(t, func(t *testing.T, root string) {
		random := kill.Random(t)
		s, dir := staged(t, root, files), filepath.Join(root, where)
		all := 0
		for n := range kill.Times(3, 20) {
			what := []string{"seal", "unseal"}[n%2]
			if _, killed := kill.AtCall(t, what, root, 1+random.IntN(files)); !killed {
				t.Fatalf("%s came to its end", what)
			}
			sealed, open := sealedBelow(t, dir)
			t.Logf("%s: %d are sealed, %d are not", what, sealed, open)
			top, err := os.Open(dir)
			must.Do(t, err)
			is, err := isImmutable(int(top.Fd()))
			if err = errors.Join(err, top.Close()); err != nil || !is && sealed > 0 {
				t.Fatalf("%d are sealed below what is not: %v", sealed, err)
			}
			if what == "seal" {
				if why, err := s.MakeImmutable(t.Context(), alice); err != nil || why != "" {
					t.Fatalf("%q, %v", why, err)
				}
				if sealed, open = sealedBelow(t, dir); open != 0 {
					t.Fatalf("%d are not sealed", open)
				}
				all = sealed
				continue
			}
			must.Do(t, s.MakeMutable(t.Context()))
			if sealed, open = sealedBelow(t, dir); sealed != 0 || open != all {
				t.Fatalf("%d are sealed still", sealed)
			}
		}
	})
}

// What is mutable by a path: all below it, what it lies in, and of others only for root.
func TestUnsealBelow(t *testing.T) {
	systems(t, func(t *testing.T, root string) {
		s, dir := staged(t, root, 3), filepath.Join(root, where)
		for _, row := range []struct {
			at   string
			uid  uint32
			open bool
		}{
			{"", 0, true}, {".datasets", 0, true}, {".datasets/vision", 0, true}, {".datasets/vision/" + digest, 0, true}, {where, 0, true}, {where + "/d0000/f000000", 0, true},
			{where, alice, true}, {"", alice, true},
			{where, bob, false}, {"", bob, false}, {".datasets/other", 0, false}, {"other", 0, false}, {".datasets/../.datasets", 0, false}, {".datasets/vision/" + strings.Repeat("1", 64), 0, false},
		} {
			if why, err := s.MakeImmutable(t.Context(), alice); err != nil || why != "" {
				t.Fatalf("%q, %v", why, err)
			}
			if unsealed, err := MakeMutable(t.Context(), root, row.at, row.uid); err != nil || unsealed != row.open {
				t.Errorf("%q: unsealed %v, %v", row.at, unsealed, err)
			}
			if sealed, _ := sealedBelow(t, dir); (sealed == 0) != row.open {
				t.Errorf("%q as %d: %d are sealed", row.at, row.uid, sealed)
			}
		}
		must.Tell(t, s.MakeMutable(t.Context()))
	})
}

// What can not be immutable, or have a gate, is told and goes on.
func TestUnable(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	root := memory(t)
	old, _ := At(root, ".datasets/vision/"+digest)
	if open, err := old.Make(alice, alice); err != nil || !strings.Contains(open, "earlier version") {
		t.Errorf("%q, %v", open, err)
	}
	for err, want := range map[error]string{
		unix.ENOTTY: "its file system has no immutable files", unix.EOPNOTSUPP: "its file system has no immutable files",
		unix.EPERM: "the agent has not the right to make files immutable (CAP_LINUX_IMMUTABLE)", unix.EIO: "",
	} {
		if got := unable(os.NewSyscallError("x", err)); got != want {
			t.Errorf("%v: %q", err, got)
		}
	}
}

// BenchmarkSeal is for a hundred thousand files.
func BenchmarkSeal(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root")
	}
	root := os.Getenv("SHELF_BENCH")
	if root == "" {
		root = memory(b)
	}
	s := staged(b, root, 100_000)
	var on, off time.Duration
	for b.Loop() {
		begun := time.Now()
		if why, err := s.MakeImmutable(b.Context(), alice); err != nil || why != "" {
			b.Fatalf("%q, %v", why, err)
		}
		sealed := time.Now()
		must.Do(b, s.MakeMutable(b.Context()))
		on, off = on+sealed.Sub(begun), off+time.Since(sealed)
	}
	b.ReportMetric(on.Seconds()/float64(b.N), "s/seal")
	b.ReportMetric(off.Seconds()/float64(b.N), "s/unseal")
}
