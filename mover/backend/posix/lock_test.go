package posix

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/backendtest"
	"datamove.dev/mover/backend/posix/kernel"
	"datamove.dev/test/must"
)

// holdLock is set for a process that only holds a lock until its input ends.
const holdLock = "POSIX_TEST_HOLD_LOCK"

func holdOnly(dir string) int {
	p, err := Open(dir, Options{})
	if err == nil {
		_, _, err = p.Lock(context.Background(), "", mover.WriterID{Task: "other", Epoch: 9})
	}
	fmt.Println(err)
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	return 0
}

// TestLockOfAnotherProcess: it is named while it lives, and gone when it is killed.
func TestLockOfAnotherProcess(t *testing.T) {
	dir := memoryDir(t)
	p := opened(t, dir, Options{})
	root := statOf(t, p, "")
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), holdLock+"="+dir)
	stdin, err := child.StdinPipe()
	must.Do(t, err)
	defer stdin.Close()
	stdout, err := child.StdoutPipe()
	must.Do(t, err)
	must.Do(t, child.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || line != "<nil>\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	_, _, err = p.Lock(t.Context(), "", testOwner)
	if !errors.Is(err, mover.ErrHeld) || !strings.Contains(err.Error(), fmt.Sprintf("task other-9 of uid %d, process %d", os.Geteuid(), child.Process.Pid)) {
		t.Errorf("lock: %v", err)
	}
	must.Do(t, child.Process.Kill())
	_ = child.Wait() // killed, as it says
	_, unlock, err := p.Lock(t.Context(), "", testOwner)
	must.Do(t, err)
	if got := walked(t, p, mover.WalkOptions{}); len(got) != 0 {
		t.Errorf("the walk yields %v", got)
	}
	must.Do(t, unlock())
	if _, err := os.Stat(dir + "/" + lockName); !os.IsNotExist(err) {
		t.Errorf("the lock file is left: %v", err)
	}
	if now := statOf(t, p, ""); now.Mtime != root.Mtime {
		t.Errorf("the root's mtime went from %v to %v", root.Mtime, now.Mtime)
	}
}

// TestLockOfAnotherUser: who may write to the root is told of the holder, and can
// take over when there is none any more.
func TestLockOfAnotherUser(t *testing.T) {
	needRoot(t)
	dir := memoryDir(t)
	must.Do(t, os.Chmod(dir, 0o777))
	p := opened(t, dir, Options{})
	fd := must.Get(p.takeLock(p.root, lockName, testOwner))(t)
	asNobody(t, func() {
		mine := opened(t, dir, Options{})
		for text, holder := range map[string]string{
			`{"host":"h","pid":7,"task":"t-1","since":"2026-01-02T03:04:05Z","uid":1002}`: "task t-1 of uid 1002, process 7 on h, since 2026-01-02T03:04:05Z",
			`{"host":"h","pid":7,"task":"t-1","since":"2026-01-02T03:04:05Z"}`:            "task t-1, process 7 on h, since 2026-01-02T03:04:05Z", // of an earlier version
			"": "the holder did not write down its name; the lock belongs to uid 0",
		} {
			must.Do(t, os.WriteFile(dir+"/"+lockName, []byte(text), 0o600))
			if _, _, err := mine.Lock(t.Context(), "", testOwner); !errors.Is(err, mover.ErrHeld) || !strings.Contains(err.Error(), holder) {
				t.Errorf("lock that is held: %v, want %s", err, holder)
			}
		}
		kernel.Close(fd) // killed: the file stays
		_, unlock, err := mine.Lock(t.Context(), "", testOwner)
		must.Do(t, err)
		must.Do(t, unlock())
	})
}

// TestLockInTheWay: what another account puts to the name of the lock keeps no account from a sticky directory, and elsewhere is told by its name.
//
//safety:7 a lock file that is a FIFO, a directory, a link, unreadable or held for ever, in a directory that all may write to
func TestLockInTheWay(t *testing.T) {
	needRoot(t)
	for what, put := range map[string]func(path string) error{
		"a FIFO":         func(path string) error { return unix.Mkfifo(path, 0o666) },
		"a directory":    func(path string) error { return os.Mkdir(path, 0o777) },
		"a link":         func(path string) error { return os.Symlink("/etc/passwd", path) },
		"a private file": func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"a held lock": func(path string) error {
			fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT, 0o666)
			if err != nil {
				return err
			}
			t.Cleanup(func() { kernel.Close(fd) })
			return lockFD(fd)
		},
	} {
		for _, mode := range []uint32{0o1777, 0o777} {
			dir := memoryDir(t)
			must.Do(t, unix.Chmod(dir, mode))
			asNobody(t, func() { must.Do(t, put(filepath.Join(dir, lockName))) })
			p := opened(t, dir, Options{StateDir: t.TempDir()})
			_, unlock, err := p.Lock(t.Context(), "", testOwner)
			switch {
			case mode == 0o1777:
				if err != nil {
					t.Errorf("%s in a sticky directory: %v", what, err)
					continue
				}
				if _, _, err := p.Lock(t.Context(), "", testOwner); !errors.Is(err, mover.ErrHeld) {
					t.Errorf("%s: another run of the same account: %v", what, err)
				}
				must.Do(t, unlock())
				if _, err := os.Lstat(filepath.Join(dir, lockName)); err != nil {
					t.Errorf("%s of another account is gone: %v", what, err)
				}
			case what == "a private file": // root may open it
				must.Do(t, err)
				must.Do(t, unlock())
			case what == "a held lock":
				if !errors.Is(err, mover.ErrHeld) {
					t.Errorf("%s: %v", what, err)
				}
			default:
				if !errors.Is(err, mover.ErrConflict) || !strings.Contains(err.Error(), lockName) || !strings.Contains(err.Error(), "uid 65534") {
					t.Errorf("%s: %v", what, err)
				}
			}
		}
	}
}

// TestLockRace: many take and give up the lock, and no two hold it.
func TestLockRace(t *testing.T) {
	p := opened(t, memoryDir(t), Options{})
	var inside sync.Mutex
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 300 {
				_, unlock, err := p.Lock(t.Context(), "", testOwner)
				if errors.Is(err, mover.ErrHeld) {
					continue
				}
				if err != nil || !inside.TryLock() {
					t.Errorf("two hold the lock, or %v", err)
					return
				}
				inside.Unlock()
				must.Tell(t, unlock())
			}
		})
	}
	all.Wait()
}

// TestLockHere locks on this host where the file system has no locks.
func TestLockHere(t *testing.T) {
	state := t.TempDir()
	dir := memoryDir(t)
	p, q := opened(t, dir, Options{StateDir: state}), opened(t, dir, Options{StateDir: state})
	unlock := must.Get(p.lockHere(lockName, testOwner, "has no locks"))(t)
	if len(p.Notes()) == 0 {
		t.Error("nothing says that it holds on this host only")
	}
	if _, err := q.lockHere(lockName, testOwner, "has no locks"); !errors.Is(err, mover.ErrHeld) {
		t.Errorf("second lock: %v", err)
	}
	must.Do(t, unlock())
	unlock = must.Get(q.lockHere(lockName, testOwner, "has no locks"))(t)
	must.Do(t, unlock())
}

// TestRemoveRace exchanges the entry that is removed with another one at the same
// time. Whatever happens, the other one is still there.
//
//safety:5 the entry is exchanged between the look and the unlink
func TestRemoveRace(t *testing.T) {
	dir := memoryDir(t)
	p := opened(t, dir, Options{})
	tries := 3000
	if testing.Short() {
		tries = 300
	}
	removed, kept := 0, 0
	for i := range tries {
		backendtest.Put(t, p, fileEntry("f", "doomed"), []byte("doomed"))
		doomed := statOf(t, p, "f")
		must.Do(t, os.WriteFile(dir+"/new", []byte("precious"), 0o644))
		var all sync.WaitGroup
		all.Go(func() { must.Do(t, os.Rename(dir+"/new", dir+"/f")) })
		err := p.Remove(t.Context(), doomed, testOwner)
		all.Wait()
		switch {
		case err == nil:
			removed++
		case errors.Is(err, mover.ErrChanged):
			kept++
		default:
			t.Fatalf("try %d: %v", i, err)
		}
		holds(t, p, "f", "precious")
	}
	if removed+kept != tries {
		t.Errorf("%d removed, %d kept", removed, kept)
	}
	clean(t, p)
}

// TestRestore: what took the name between the look and the rename gets it back.
//
//safety:5 with TestRemoveRace
func TestRestore(t *testing.T) {
	p := opened(t, memoryDir(t), Options{})
	backendtest.Put(t, p, fileEntry("f", "doomed"), []byte("doomed"))
	doomed := statOf(t, p, "f")
	backendtest.Put(t, p, fileEntry("f", "precious"), []byte("precious"))
	at := must.Get(p.find("f"))(t)
	defer at.release()
	q := must.Get(p.quarantine(at, testOwner))(t)
	if err := p.condemn(at, q, &doomed); !errors.Is(err, mover.ErrChanged) {
		t.Errorf("the wrong file: %v", err)
	}
	must.Do(t, renameNew(at.fd, q, at.fd, "f"))
	holds(t, p, "f", "precious")
}
