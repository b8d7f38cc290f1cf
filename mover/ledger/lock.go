package ledger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

// lock is the file that keeps other processes out. It also counts the openings that
// did not come to their end, one byte each.
type lock struct{ file *os.File }

const lockName = "lock"

func acquire(dir string) (*lock, error) {
	path := filepath.Join(dir, lockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: another process has this ledger open", mover.ErrHeld)
		}
		return nil, err
	}
	// A restore that had it before may have removed the directory since.
	ours, err1 := f.Stat()
	there, err2 := os.Stat(path)
	if err := errors.Join(err1, err2); err != nil || !os.SameFile(ours, there) {
		_ = f.Close()
		return nil, fmt.Errorf("%w: the directory is being removed", mover.ErrHeld)
	}
	return &lock{f}, nil
}

func (l *lock) fd() int { return int(l.file.Fd()) }

// opening notes that the store is about to be opened, and returns how many openings
// before this one did not end. Badger ends the process at some kinds of damage, and
// then nobody else can say so.
func (l *lock) opening() (unended int64, err error) {
	st, err := l.file.Stat()
	if err != nil {
		return 0, err
	}
	_, err = l.file.WriteAt([]byte("o"), st.Size())
	return st.Size(), err
}

// opened takes back the notes of opening.
func (l *lock) opened() error { return l.file.Truncate(0) }

func (l *lock) release() { _ = l.file.Close() }
