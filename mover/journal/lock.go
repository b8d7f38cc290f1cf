package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

// lock is the file in the journal's directory that keeps other processes out. It
// also counts the openings that did not come to their end, one byte each.
type lock struct{ file *os.File }

const lockName = "lock"

// patience is how many openings in a row may end in the middle. Some can be kills:
// whoever kills a program twice in its first milliseconds must not lose what it had
// done. So many in a row are the fault of what is in the journal.
const patience = 6

func acquire(dir string) (*lock, error) {
	path := filepath.Join(dir, lockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w of the same task on this host", mover.ErrHeld)
		}
		return nil, err
	}
	// Whoever had it before may have removed or moved the directory since.
	ours, err1 := f.Stat()
	there, err2 := os.Stat(path)
	if err := errors.Join(err1, err2); err != nil || !os.SameFile(ours, there) {
		_ = f.Close()
		return nil, fmt.Errorf("%w: the journal is being removed", mover.ErrHeld)
	}
	return &lock{f}, nil
}

func (l *lock) fd() int { return int(l.file.Fd()) }

// opening notes that the store is about to be opened.
func (l *lock) opening() error {
	st, err := l.file.Stat()
	if err != nil {
		return err
	}
	if st.Size() >= patience {
		return fmt.Errorf("%w: the last %d openings ended this program", mover.ErrCorrupt, st.Size())
	}
	_, err = l.file.WriteAt([]byte("o"), st.Size())
	return err
}

// opened takes back the notes of opening.
func (l *lock) opened() error { return l.file.Truncate(0) }

func (l *lock) release() { _ = l.file.Close() }

// since names the time in which nothing that was written can have been lost: this boot, and
// this mount of the target. "" is not known.
func since(mount uint64) string {
	boot := bootID()
	if boot == "" {
		return ""
	}
	return fmt.Sprint(boot, " ", mount)
}

// bootID names this boot of the kernel; see random(4).
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
