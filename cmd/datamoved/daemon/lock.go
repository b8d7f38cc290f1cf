package daemon

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/kvstore"
)

// lock is the right of one process to a directory of state. The kernel gives it back
// when the process ends, however that ends.
type lock struct{ file *os.File }

const (
	lockName = "lock"
	maxOwner = 1 << 10 // bytes of what the file says
)

// hold makes a directory of state, and takes it. Workers of users have to get through
// it to what is theirs, and can not see what there is.
func hold(dir string) (*lock, error) {
	fail := func(err error) (*lock, error) {
		return nil, &mover.Error{Op: "use the directory", Location: dir, Err: err}
	}
	if err := makeStateDir(dir); err != nil {
		return fail(err)
	}
	if err := ours(dir); err != nil {
		return fail(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fail(err)
	}
	if err := try(f); err != nil {
		_ = f.Close()
		return fail(err)
	}
	l := &lock{f}
	if err := l.sign(); err != nil {
		_ = f.Close()
		return fail(err)
	}
	return l, nil
}

// try takes the lock, or says which process has it.
func try(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("%w: %s", mover.ErrHeld, ownerOf(f))
	}
	return err
}

// ours keeps root from leaving files in a directory that the service, which has
// another UID, could not write any more.
func ours(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	owner, known := info.Sys().(*syscall.Stat_t)
	if !known || int(owner.Uid) == os.Geteuid() {
		return nil
	}
	if f, err := os.Open(filepath.Join(dir, lockName)); err == nil {
		defer f.Close()
		if err := try(f); err != nil {
			return err
		}
	}
	return &advised{fmt.Errorf("%w: it belongs to uid %d", mover.ErrPermission, owner.Uid),
		fmt.Sprintf("the same as that user: setpriv --reuid=%d --regid=%d --clear-groups", owner.Uid, owner.Gid)}
}

// makeStateDir makes a directory that others can not change.
func makeStateDir(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	err := os.Mkdir(dir, 0o711)
	if err == nil {
		err = os.Chmod(dir, 0o711) // whatever our umask is
	}
	if err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%w: it is no directory", mover.ErrConflict)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%w: others may write there (mode %04o): chmod 711", mover.ErrPermission, info.Mode().Perm())
	}
	return nil
}

// sign writes the process and the time into the lock file.
func (l *lock) sign() error {
	text := fmt.Sprintf("datamoved, process %d, since %s", os.Getpid(), time.Now().UTC().Format(time.RFC3339))
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err := l.file.WriteAt([]byte(text+"\n"), 0)
	if errors.Is(kvstore.Kind(err), mover.ErrFull) {
		return nil // the kernel knows, and on a full disk the service begins, too
	}
	return err
}

// ownerOf reads the holder from the lock file.
func ownerOf(f *os.File) string {
	text, err := io.ReadAll(io.LimitReader(f, maxOwner))
	if line, _, _ := strings.Cut(string(text), "\n"); err == nil && line != "" {
		return mover.Printable(line)
	}
	return "another process has it"
}

// release lets go of the directory.
func (l *lock) release() { _ = l.file.Close() }
