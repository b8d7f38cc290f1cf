// Package replicadir keeps replicas of datasets in a directory that many users share. It makes
// their folders, sets ACLs for the users that may get in, and makes files immutable.
//
// # Words
//
// A spot is where one replica lies: .datasets/NAME/DIGEST/data below the root of a tier. The folder of
// the digest is its gate: it belongs to root, and only users with an entry u:UID:--x in its
// ACL can enter. Every user can pass the folders around it. What is in data belongs to the user that staged it, with
// the modes that it has where it came from. A replica is immutable when each directory and file of it is
// immutable (chattr +i). Only root can change, rename, link, chmod or remove anything then, and root
// has to remove the attribute first. Replicas of earlier versions lie in the folder of the digest itself, without a gate.
//
// # Promises
//
// Sealing begins at the top and unsealing at the bottom, so that what is below a directory that is not
// immutable is not either: each can be interrupted at any moment, and is done by doing it again. What is immutable is so
// after a power cut. A file that a process still has
// open for writing is not immutable: that is an error. Nothing is done through a symbolic link, and nothing
// outside of the root. Symbolic links, FIFOs, sockets and devices can not be immutable themselves; the directories that
// have them are.
//
// Where a file system or the rights of this process do not do for a gate or a seal, that is said in
// words (why), and everything else goes on. The users of a node can get at such a replica then, and
// its owner can change it.
//
// A replica that a pod has, while the service is away, is noted at its gate: nothing unseals it for a removal before the service is told, or the
// note is over. A note can be made where the replica is immutable, or was whole where nothing can be immutable, and nothing removes it.
//
// Several processes may let users in at the same gate. The service decides which users are let in.
// TestStrangers and TestSealed have real users try, TestKilled stops it in the middle.
package replicadir

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/beneath"
)

const (
	top    = ".datasets" // as tiering.Datasets
	inside = "data"      // as tiering.Inside
)

// Path is where a replica lies.
type Path struct {
	root    string
	folders []string
}

// At returns the spot at a path below the root of a tier, if it is one.
func At(root, path string) (s Path, ok bool) {
	folders := strings.Split(path, "/")
	if folders[0] != top || len(folders) < 3 || len(folders) > 4 || len(folders) == 4 && folders[3] != inside || !mover.ValidName(path) {
		return Path{}, false
	}
	return Path{root, folders}, true
}

// gated reports whether it has a gate.
func (s Path) gated() bool { return len(s.folders) == 4 }

// Make makes the folders of a replica, with the last one for the user of uid and gid, and lets
// that user in. open says why others can get in, too. As root only.
func (s Path) Make(uid, gid uint32) (open string, err error) {
	for range 3 { // another process may just be removing the empty ones
		err = s.make(func(at int, name string) error { return s.own(at, name, uid, gid) })
		if err == nil {
			_, open, err = s.LetIn(uid)
		}
		if !errors.Is(err, unix.ENOENT) {
			break
		}
	}
	return open, err
}

// make makes the folders, and has do make the last one.
func (s Path) make(do func(at int, name string) error) error {
	depth := 0
	return Below(s.root, s.folders, func(at int, name string, last bool) error {
		if depth++; last {
			return do(at, name)
		}
		err := unix.Mkdirat(at, name, 0o700)
		if err == unix.EEXIST {
			err = s.ours(at, name, depth)
		}
		if err == unix.EEXIST || err != nil {
			return ignoreExist(err)
		}
		fd, err := openAt(at, name, unix.O_DIRECTORY)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(fd) }()
		if s.gated() && depth == len(s.folders)-1 {
			return shutAll(fd)
		}
		return unix.Fchmod(fd, 0o755)
	})
}

func ignoreExist(err error) error {
	if err == unix.EEXIST {
		return nil
	}
	return err
}

// squashed is the UID that root has on NFS with root_squash (exports(5)).
const squashed = 65534

// ours looks at a folder that is there: EEXIST says that it is one of ours, and nil that it was made anew. The owner of a folder, and users with write
// permission, could exchange a replica in it. In the root of a tier that every user may write to (1777) a user may have made
// the name first: that entry stays, under another name.
func (s Path) ours(at int, name string, depth int) error {
	const othersWrite, most = 0o022, 1000
	for n := 1; ; n++ {
		var st unix.Stat_t
		if err := unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
		owned := st.Uid == uint32(unix.Geteuid()) || st.Uid == squashed
		if owned && st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Mode&othersWrite == 0 {
			return unix.EEXIST
		}
		if s.gated() && depth == len(s.folders)-1 && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			return unix.EEXIST // the gate of an earlier version belongs to the user that staged it: it is claimed
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR && (owned || depth > 1) {
			return unix.ENOTDIR
		}
		if owned || depth > 1 || n > most {
			return &mover.Error{Op: "make", Location: s.root, Name: strings.Join(s.folders[:depth], "/"), Err: fmt.Errorf("%w: it belongs to uid %d with mode %o, "+
				"and who owns a folder of replicas or may write to it can exchange them; remove it, or chown root and chmod go-w", mover.ErrConflict, st.Uid, st.Mode&0o7777)}
		}
		err := unix.Renameat2(at, name, at, fmt.Sprintf("%s-of-%d.%d", name, st.Uid, n), unix.RENAME_NOREPLACE)
		if err == unix.EEXIST {
			continue
		}
		if err == nil || err == unix.ENOENT {
			err = unix.Mkdirat(at, name, 0o700)
		}
		if err != unix.EEXIST { // else the next one was faster
			return err
		}
	}
}

// own makes the folder of the replica itself.
func (s Path) own(at int, name string, uid, gid uint32) error {
	err := unix.Mkdirat(at, name, 0o700)
	if err == unix.EEXIST {
		return nil
	}
	if err != nil {
		return err
	}
	fd, err := openAt(at, name, unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return errors.Join(unix.Fchown(fd, int(uid), int(gid)), unix.Fchmod(fd, 0o755))
}

// Clear removes the folders that are empty when a replica is gone: its own, and those around
// it but for the first.
func (s Path) Clear() {
	for n := len(s.folders); n > 1; n-- {
		gone := false
		err := Below(s.root, s.folders[:n], func(at int, name string, last bool) error {
			if !last {
				return nil
			}
			err := unix.Unlinkat(at, name, unix.AT_REMOVEDIR)
			gone = err == nil || err == unix.ENOENT
			return err
		})
		if !gone && !errors.Is(err, unix.ENOENT) {
			return
		}
	}
}

// open opens one of its folders: the first n.
func (s Path) open(n int) (fd int, err error) { return openBelow(s.root, s.folders[:n], openAt) }

// openBelow opens the last of some folders.
func openBelow(root string, folders []string, open func(at int, name string, flags int) (int, error)) (fd int, err error) {
	fd = -1
	err = Below(root, folders, func(at int, name string, last bool) (err error) {
		if last {
			fd, err = open(at, name, unix.O_DIRECTORY)
		}
		return err
	})
	if err != nil && fd >= 0 {
		_ = unix.Close(fd)
	}
	return fd, err
}

// openAt opens a name to look at it, over no link, and without a trace or a wait.
func openAt(at int, name string, flags int) (fd int, err error) {
	flags |= unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	if fd, err = unix.Openat(at, name, flags|unix.O_NOATIME, 0); err == unix.EPERM { // of others that is for root alone
		fd, err = unix.Openat(at, name, flags, 0)
	}
	return fd, err
}

// openHere is openAt on the same mount: what is mounted at the name is of kind [mover.ErrConflict].
func openHere(at int, name string, flags int) (fd int, err error) {
	how := flags | unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK
	if fd, err = beneath.SameMount.Open(at, name, how|unix.O_NOATIME); err == unix.EPERM { // as in openAt
		fd, err = beneath.SameMount.Open(at, name, how)
	}
	switch err {
	case unix.EXDEV:
		return -1, fmt.Errorf("%w: another file system is mounted at %s; unmount it", mover.ErrConflict, mover.Printable(name))
	case unix.ENOSYS, unix.EPERM: // Linux before 5.6, or a filter of system calls that does not know it
		return openAt(at, name, flags)
	}
	return fd, err
}

// Below goes down from a directory, over no symbolic link, and calls do before each step.
func Below(root string, folders []string, do func(at int, name string, last bool) error) error {
	at, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(at) }()
	for i, name := range folders {
		err := do(at, name, i == len(folders)-1)
		next := -1
		if err == nil {
			next, err = unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		}
		if err == unix.ENOTDIR || err == unix.ELOOP {
			return &mover.Error{Op: "open", Location: root, Name: strings.Join(folders[:i+1], "/"), Err: fmt.Errorf("%w: it is a symbolic link, or no folder", mover.ErrConflict)}
		}
		if err != nil {
			return err
		}
		_ = unix.Close(at)
		at = next
	}
	return nil
}
