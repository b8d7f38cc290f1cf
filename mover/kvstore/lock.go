package kvstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

// Lock is the file in a directory that keeps other processes out. It also counts the openings
// that did not come to their end, one byte each.
type Lock struct{ file *os.File }

// LockName is the name of that file.
const LockName = "lock"

// Acquire locks a directory that exists; what is what lies in it, for people. mover.ErrHeld: another
// process has it, or is removing it.
func Acquire(dir, what string) (*Lock, error) {
	path := filepath.Join(dir, LockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: another process has this %s open", mover.ErrHeld, what)
		}
		return nil, err
	}
	// The previous holder may have removed or moved the directory since.
	ours, err1 := f.Stat()
	there, err2 := os.Stat(path)
	if err := errors.Join(err1, err2); err != nil || !os.SameFile(ours, there) {
		_ = f.Close()
		return nil, fmt.Errorf("%w: the %s is being removed", mover.ErrHeld, what)
	}
	return &Lock{f}, nil
}

// Room refuses what would fill the disk while it can still be refused: mover.ErrFull. Where this process may not write
// files so large, which Badger's own errors do not tell from damage, it is mover.ErrRefused.
func (l *Lock) Room(need int64) error {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &files); err == nil && files.Cur < uint64(need) {
		return fmt.Errorf("%w: this process may write files of %d KiB (ulimit -f), and may need %d KiB: %w", mover.ErrRefused, files.Cur>>10, need>>10, unix.EFBIG)
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(l.file.Fd()), &st); err != nil {
		return err
	}
	if free := int64(st.Bavail) * st.Bsize; free < need {
		return fmt.Errorf("%w: %d MiB free where %d MiB are needed; make room there", mover.ErrFull, free>>20, need>>20)
	}
	return nil
}

// Opening notes that the store is about to be opened, and returns how many openings
// before this one did not end. Badger ends the process at some kinds of damage, and
// then the process can not report it.
func (l *Lock) Opening() (unended int64, err error) {
	st, err := l.file.Stat()
	if err != nil {
		return 0, err
	}
	_, err = l.file.WriteAt([]byte("o"), st.Size())
	return st.Size(), err
}

// Opened takes back the notes of Opening.
func (l *Lock) Opened() error { return l.file.Truncate(0) }

// Release lets others in, also while a child that was forked just now has the file until it runs its program.
func (l *Lock) Release() {
	_ = unix.Flock(int(l.file.Fd()), unix.LOCK_UN) // closing does it, too, when the children have closed theirs
	_ = l.file.Close()
}
