package replicadir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/test/kill"
	"datamove.dev/test/loopfs"
	"datamove.dev/test/must"
)

const (
	alice, bob, carol = 54001, 54002, 54003

	digest = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	where  = ".datasets/vision/" + digest + "/data"
)

func TestMain(m *testing.M) {
	at := func(root string) Path { s, _ := At(root, where); return s }
	kill.Main(map[string]func(string) error{
		"seal":   func(root string) error { _, err := at(root).MakeImmutable(context.Background(), alice); return err },
		"unseal": func(root string) error { return at(root).MakeMutable(context.Background()) },
	})
	os.Exit(m.Run())
}

// systems are directories on file systems of every kind that can seal.
func systems(t *testing.T, run func(t *testing.T, root string)) {
	if os.Geteuid() != 0 {
		t.Skip("only root can seal")
	}
	t.Run("tmpfs", func(t *testing.T) { run(t, memory(t)) })
	for _, kind := range []string{"ext4", "xfs", "btrfs"} {
		t.Run(kind, func(t *testing.T) { run(t, loopfs.Mount(t, loopfs.Spec{Type: kind, Rare: kind == "xfs"})) })
	}
}

// memory is a directory in memory that everybody gets to.
func memory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "shelf-")
	if err != nil {
		t.Skip("there is no memory to have files in")
	}
	t.Cleanup(func() {
		_, err := MakeMutable(context.Background(), dir, "", 0)
		must.Tell(t, err)
		must.Tell(t, os.RemoveAll(dir))
	})
	must.Do(t, os.Chmod(dir, 0o755))
	return dir
}

func spot(t testing.TB, root string) Path {
	t.Helper()
	s, ok := At(root, where)
	if !ok {
		t.Fatal("it is no spot")
	}
	return s
}

// staged is a replica of alice.
func staged(t testing.TB, root string, files int) Path {
	t.Helper()
	s := spot(t, root)
	if open, err := s.Make(alice, alice); err != nil || open != "" {
		t.Fatalf("%q, %v", open, err)
	}
	fill(t, filepath.Join(root, where), files)
	return s
}

// fill makes files of alice in folders of a hundred, and some of every other kind.
func fill(t testing.TB, dir string, files int) {
	t.Helper()
	errs := []error{os.Symlink("f000000", dir+"/link"), unix.Mkfifo(dir+"/fifo", 0o644), os.MkdirAll(dir+"/deep/er/and", 0o755)}
	for i := range files {
		name := fmt.Sprintf("%s/d%04d/f%06d", dir, i/100, i)
		if i%100 == 0 {
			errs = append(errs, os.Mkdir(filepath.Dir(name), 0o755))
		}
		errs = append(errs, os.WriteFile(name, []byte(name), 0o644))
	}
	errs = append(errs, os.Link(dir+"/d0000/f000000", dir+"/deep/er/twin"))
	errs = append(errs, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, alice, alice))
	}))
	must.Do(t, errors.Join(errs...))
}

// as has a shell do something as somebody.
func as(uid uint32, command string) error {
	c := exec.Command("sh", "-ec", command)
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// sealedBelow counts what is immutable and what is not, of what can be.
func sealedBelow(t testing.TB, dir string) (sealed, open int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.IsDir() && !e.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		is, err := isImmutable(int(f.Fd()))
		if is {
			sealed++
		} else {
			open++
		}
		return err
	})
	must.Do(t, err)
	return sealed, open
}

// Nobody gets in but who was let in, as long as they are.
//
//safety:7 the cache of a node, and accounts that were not admitted; by hand, through a swarm, and from another node
func TestStrangers(t *testing.T) {
	systems(t, func(t *testing.T, root string) {
		s, dir := staged(t, root, 1), filepath.Join(root, where)
		read := func(uid uint32) error {
			t.Helper()
			err := as(uid, "cat "+dir+"/d0000/f000000 >/dev/null; ls "+dir+" >/dev/null")
			if passes, failed := s.Passes(uid); passes != (err == nil) || failed != nil {
				t.Errorf("%d reads: %v; and passes: %v, %v", uid, err, passes, failed)
			}
			return err
		}
		if err := read(alice); err != nil {
			t.Errorf("who staged it: %v", err)
		}
		for what, try := range map[string]string{
			"reads by path": "cat " + dir + "/d0000/f000000", "lists the gate": "ls " + filepath.Dir(dir), "looks": "stat " + dir,
			"makes something beside it": "mkdir " + filepath.Dir(dir) + "/x", "beside the gate": "mkdir " + root + "/.datasets/vision/x",
			"replaces the gate": "mv " + filepath.Dir(dir) + " " + root + "/x",
		} {
			if err := as(bob, try); err == nil {
				t.Errorf("a stranger %s", what)
			}
		}
		if err := as(bob, "ls "+root+"/.datasets/vision >/dev/null"); err != nil {
			t.Errorf("the folders around it are for everybody: %v", err)
		}
		added, open, err := s.LetIn(bob)
		if !added || open != "" || err != nil {
			t.Fatalf("%v, %q, %v", added, open, err)
		}
		if added, _, err := s.LetIn(bob); added || err != nil {
			t.Errorf("again: %v, %v", added, err)
		}
		if err := errors.Join(read(bob), read(alice)); err != nil || read(carol) == nil {
			t.Errorf("bob was let in, and carol not: %v", err)
		}
		if err := s.ShutOut(bob); err != nil || read(bob) == nil || read(alice) != nil {
			t.Errorf("bob was shut out: %v, %v", err, read(bob))
		}
		// Also who is lost by a change of the mode of the gate.
		for _, mode := range []os.FileMode{0o700, 0o755} { // the bits of the group are the mask
			must.Do(t, os.Chmod(filepath.Dir(dir), mode))
			for _, uid := range []uint32{alice, bob, carol, 0} {
				if (read(uid) == nil) != (mode == 0o755 || uid == 0) {
					t.Errorf("with %o the gate is not what it says to %d", mode, uid)
				}
			}
		}
		if _, _, err := s.LetIn(bob); err != nil || read(carol) == nil || read(bob) != nil {
			t.Errorf("the gate is closed again: %v", err)
		}
	})
}

// TestFirstWithTheName: in a tier that everybody may write to, who makes the folders of replicas before the first staging owns none of them
// afterwards, and what he has made is not lost.
//
//safety:7 folders of replicas that a stranger has made first, or that others may write to
func TestFirstWithTheName(t *testing.T) {
	systems(t, func(t *testing.T, root string) {
		must.Do(t, os.Chmod(root, os.ModeSticky|0o777))
		for _, made := range []string{"mkdir -p .datasets/vision && echo mine > .datasets/vision/f", "ln -s /tmp .datasets", "echo > .datasets"} {
			must.Do(t, as(carol, "cd "+root+" && "+made))
			s := spot(t, root)
			if _, err := s.Make(alice, alice); err != nil {
				t.Fatalf("%s: %v", made, err)
			}
			for dir := filepath.Join(root, ".datasets", "vision"); dir != root; dir = filepath.Dir(dir) {
				info := must.Get(os.Lstat(dir))(t)
				if owner := info.Sys().(*syscall.Stat_t).Uid; owner != 0 || !info.IsDir() || info.Mode().Perm() != 0o755 {
					t.Errorf("%s: %s is %v of %d", made, dir, info.Mode(), owner)
				}
			}
			must.Do(t, os.RemoveAll(filepath.Join(root, ".datasets")))
		}
		if aside := must.Get(filepath.Glob(filepath.Join(root, ".datasets-of-*")))(t); len(aside) != 3 {
			t.Errorf("what was there before is %q", aside)
		}
		// One that is root's, and that others may write to, is somebody's mistake further down.
		must.Do(t, os.MkdirAll(filepath.Join(root, ".datasets", "vision"), 0o755))
		must.Do(t, os.Chmod(filepath.Join(root, ".datasets", "vision"), 0o777))
		if _, err := spot(t, root).Make(alice, alice); !errors.Is(err, mover.ErrConflict) {
			t.Errorf("a folder that all may write to: %v", err)
		}
	})
}

// A gate has nothing of what the folder around it hands down.
func TestGateInheritsNothing(t *testing.T) {
	systems(t, func(t *testing.T, root string) {
		if out, err := exec.Command("setfacl", "-d", "-m", fmt.Sprintf("u:%d:rwx,g:%d:rwx,o::rwx", carol, carol), root).CombinedOutput(); err != nil {
			t.Skipf("needs setfacl: %s", out)
		}
		staged(t, root, 1)
		if err := as(carol, "cat "+filepath.Join(root, where)+"/d0000/f000000"); err == nil {
			t.Error("carol gets in, by an ACL that was handed down")
		}
	})
}

// The folder of a digest that is a user's, as earlier versions made it, is nobody's gate but root's.
func TestGateIsClaimed(t *testing.T) {
	systems(t, func(t *testing.T, root string) {
		gate := filepath.Dir(filepath.Join(root, where))
		must.Do(t, errors.Join(os.MkdirAll(gate, 0o755), os.Chown(gate, alice, alice)))
		staged(t, root, 1)
		if err := as(alice, "chmod 755 "+gate+" || setfacl -b "+gate+" || touch "+gate+"/x"); err == nil {
			t.Error("who staged to it before opens the gate")
		}
		if err := as(carol, "cat "+filepath.Join(root, where)+"/d0000/f000000"); err == nil {
			t.Error("a stranger gets in")
		}
	})
}

// TestFullGate: a user that an ACL has no room for is refused, and no user that is in loses its entry for it.
func TestFullGate(t *testing.T) {
	systems(t, func(t *testing.T, root string) {
		s := staged(t, root, 1)
		gate := must.Get(s.open(3))(t)
		defer unix.Close(gate)
		full := closed()
		for i := range uint32(20_000) {
			full = append(full, aclEntry{tagUser, mayEnter, 100_000 + i})
		}
		for len(full) > 3 && unix.Fsetxattr(gate, aclName, full.with(1).encode(), 0) != nil { // as many as go
			full = full[:len(full)-max(1, len(full)/50)]
		}
		in := must.Get(readACL(gate))(t)
		var refused error
		for i := uint32(0); refused == nil && i < 20_000; i++ {
			_, _, refused = s.LetIn(200_000 + i)
			if now := must.Get(readACL(gate))(t); refused == nil {
				in = now
			}
		}
		if !errors.Is(refused, mover.ErrFull) {
			t.Errorf("one too many: %v", refused)
		}
		if now := must.Get(readACL(gate))(t); !slices.Equal(now, in) {
			t.Errorf("%d entries are left of %d", len(now), len(in))
		}
		must.Do(t, s.ShutOut(200_000))
		if _, _, err := s.LetIn(300_000); err != nil {
			t.Errorf("in the place of another: %v", err)
		}
	})
}

// What is no spot of a replica is none, and nothing is done through a link.
func TestSpots(t *testing.T) {
	for _, path := range []string{"", "x", ".datasets", ".datasets/x", ".datasets/x/y/z", ".datasets/x/y/data/z", ".datasets/../y", ".datasets//y", "/.datasets/x/y", ".datasets/x/y/data/", "x/.datasets/y"} {
		if s, ok := At("/nvme", path); ok {
			t.Errorf("%q is %s", path, s)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("only root makes folders for others")
	}
	root := memory(t)
	s := spot(t, root)
	for _, at := range []string{".datasets/vision/" + digest, ".datasets/vision", ".datasets"} {
		outside := filepath.Join(root, "outside")
		for _, err := range []error{os.MkdirAll(filepath.Dir(filepath.Join(root, at)), 0o755), os.MkdirAll(outside, 0o755), os.Symlink(outside, filepath.Join(root, at))} {
			must.Do(t, err)
		}
		_, err := s.Make(alice, alice)
		_, _, letIn := s.LetIn(bob)
		for what, err := range map[string]error{"make": err, "let in": letIn, "shut out": s.ShutOut(bob), "seal": second(s.MakeImmutable(t.Context(), alice)), "unseal": s.MakeMutable(t.Context())} {
			if !errors.Is(err, mover.ErrConflict) {
				t.Errorf("%s is a link: %s: %v", at, what, err)
			}
		}
		if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
			t.Errorf("%s is a link: outside is %v, %v", at, left, err)
		}
		must.Do(t, os.RemoveAll(filepath.Join(root, ".datasets")))
	}
	unsealed, err := MakeMutable(t.Context(), root, "", 0)
	if err := errors.Join(s.ShutOut(bob), s.MakeMutable(t.Context()), err); err != nil || unsealed {
		t.Errorf("nothing is there: unsealed %v, %v", unsealed, err)
	}
}

func second[T any](_ T, err error) error { return err }

// Every ACL is read as it was written, and what is none is refused.
func FuzzACL(f *testing.F) {
	f.Add(closed().encode(), uint32(5))
	f.Add(closed().with(1).with(2).encode(), uint32(1))
	f.Add([]byte{2, 0, 0, 0, 1}, uint32(0))
	f.Fuzz(func(t *testing.T, b []byte, uid uint32) {
		a, err := parseACL(b)
		if err != nil {
			return
		}
		if string(a.encode()) != string(b) {
			t.Fatalf("%x is written as %x", b, a.encode())
		}
		in := a.with(uid)
		if !in.has(uid) || in.without(uid).has(uid) || len(in) > len(a)+2 {
			t.Fatalf("%v with %d is %v", a, uid, in)
		}
		for _, e := range in {
			if (e.tag == tagGroup || e.tag == tagOthers) && e.perm != 0 {
				t.Fatalf("everybody gets in: %v", in)
			}
		}
		if !slices.IsSortedFunc(in, func(x, y aclEntry) int {
			return strings.Compare(fmt.Sprintf("%02x %08x", x.tag, x.id), fmt.Sprintf("%02x %08x", y.tag, y.id))
		}) {
			t.Fatalf("out of order: %v", in)
		}
	})
}
