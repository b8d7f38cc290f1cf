package replicadir

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

const aclName = "system.posix_acl_access"

// LetIn lets the user of uid into the gate of a spot, which is made if it is not there. added: the
// user was not in before. open: why every user can get in. A gate with an ACL that has no room for one more is mover.ErrFull, and the users
// that are in stay.
func (s Path) LetIn(uid uint32) (added bool, open string, err error) {
	if !s.gated() {
		return false, "it was staged by an earlier version, to a folder without a gate", nil
	}
	for range 3 { // another process may just be removing the empty ones
		if err = s.make(func(int, string) error { return errMade }); errors.Is(err, errMade) {
			added, open, err = s.letIn(uid)
		}
		if !errors.Is(err, unix.ENOENT) {
			break
		}
	}
	return added, open, err
}

// Admit is LetIn where there is a gate, for a user that needs to get in for a while. added: the
// caller has to shut the user out again.
func (s Path) Admit(uid uint32) (added bool, err error) {
	if !s.gated() {
		return false, nil
	}
	added, _, err = s.letIn(uid)
	return added, gone(err)
}

func (s Path) letIn(uid uint32) (added bool, open string, err error) {
	gate, err := s.open(len(s.folders) - 1)
	if err != nil {
		return false, "", err
	}
	defer func() { _ = unix.Close(gate) }()
	defer hold(gate)()
	if err := claim(gate); err != nil {
		return false, "", err
	}
	return letIn(gate, uid)
}

// claim makes root the owner of a gate. A gate of an earlier version belongs to the user that staged to it, and that user could open it.
func claim(gate int) error {
	var st unix.Stat_t
	if err := unix.Fstat(gate, &st); err != nil || st.Uid == 0 {
		return os.NewSyscallError("fstat", err)
	}
	return os.NewSyscallError("fchown", unix.Fchown(gate, 0, 0))
}

// errMade is where make is to end.
var errMade = errors.New("the folders around it are there")

func letIn(gate int, uid uint32) (added bool, open string, err error) {
	now, err := readACL(gate)
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		return false, "its file system has no POSIX ACLs", unix.Fchmod(gate, 0o755)
	case err != nil:
		return false, "", err
	case uid == 0:
		return false, "", unix.Fsetxattr(gate, aclName, now.without(0).encode(), 0)
	}
	added = !now.has(uid)
	err = unix.Fsetxattr(gate, aclName, now.with(uid).encode(), 0)
	if err == unix.ENOSPC || err == unix.E2BIG || err == unix.ERANGE { // hundreds are in, and their jobs may be reading
		return false, "", fmt.Errorf("%w: the ACL of the replica's gate has no room for uid %d beside %d others; setfacl -x u:UID takes one out, and a release before the next stage all: %w",
			mover.ErrFull, uid, now.users(), err)
	}
	if errors.Is(err, unix.EOPNOTSUPP) { // some file systems say so only now
		return false, "its file system has no POSIX ACLs", unix.Fchmod(gate, 0o755)
	}
	return added, "", os.NewSyscallError("fsetxattr", err)
}

// shutAll closes a new gate, whatever it has inherited from the folder around it.
func shutAll(gate int) error {
	return notThere(os.NewSyscallError("fsetxattr", unix.Fsetxattr(gate, aclName, closed().encode(), 0)))
}

// ShutOut takes the entry of uid out of the ACL of the gate.
func (s Path) ShutOut(uid uint32) error {
	if !s.gated() || uid == 0 {
		return nil
	}
	gate, err := s.open(len(s.folders) - 1)
	if err != nil {
		return gone(err)
	}
	defer func() { _ = unix.Close(gate) }()
	defer hold(gate)()
	now, err := readACL(gate)
	if err != nil || !now.has(uid) {
		return notThere(err)
	}
	return os.NewSyscallError("fsetxattr", unix.Fsetxattr(gate, aclName, now.without(uid).encode(), 0))
}

// Passes reports whether the user of uid gets through the gate as it is now. The groups of the user are not known here, so they
// let no user in.
func (s Path) Passes(uid uint32) (bool, error) {
	if !s.gated() || uid == 0 {
		return true, nil
	}
	gate, err := s.open(len(s.folders) - 1)
	if err != nil {
		return false, err
	}
	defer func() { _ = unix.Close(gate) }()
	now, err := readACL(gate)
	if notThere(err) != nil {
		return false, err
	}
	if perm, named := now.of(uid); named {
		return perm&mayEnter != 0, nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(gate, &st); err != nil {
		return false, os.NewSyscallError("fstat", err)
	}
	if st.Uid == uid {
		return st.Mode&0o100 != 0, nil
	}
	return st.Mode&0o010 != 0 && st.Mode&0o001 != 0, nil
}

// gone has nothing to say of what is not there.
func gone(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// notThere has nothing to say where there are no ACLs.
func notThere(err error) error {
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	return err
}

func readACL(fd int) (acl, error) {
	b := make([]byte, 64<<10) // XATTR_SIZE_MAX
	n, err := unix.Fgetxattr(fd, aclName, b)
	if err == unix.ENODATA {
		return closed(), nil
	}
	if err != nil {
		return nil, os.NewSyscallError("fgetxattr", err)
	}
	return parseACL(b[:n])
}

const (
	holdTries = 200
	holdPause = 10 * time.Millisecond
)

// hold keeps other processes from changing the ACL at the same time, with a lock on the gate, which only root can
// open. Where that takes too long or can not be done, we go on: a user with a lost entry asks again.
func hold(gate int) (release func()) {
	for range holdTries {
		switch err := unix.Flock(gate, unix.LOCK_EX|unix.LOCK_NB); err {
		case nil:
			return func() { _ = unix.Flock(gate, unix.LOCK_UN) }
		case unix.EWOULDBLOCK, unix.EINTR:
			time.Sleep(holdPause)
		default:
			return func() {}
		}
	}
	return func() {}
}
