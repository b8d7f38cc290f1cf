package trash

import (
	"crypto/rand"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

// Folder is where the trash of a root is, in it. Walks leave it out.
const Folder = mover.TrashName

// Move moves what lies at name below root, an open directory, into the trash of that root, and returns how it is called
// there. Why is for people. What is not there is moved: the name is "" then. However much is in a directory, it is one
// rename; a link is moved, and not what it leads to. What is mounted somewhere is not moved, nor
// what lies on another file system: mover.ErrConflict.
func Move(root int, name, why string) (string, error) {
	if !fs.ValidPath(name) || name == "." || name == Folder || strings.HasPrefix(name, Folder+"/") {
		return "", failed("move to the trash", root, name, fmt.Errorf("%w: it is no name below that root", mover.ErrUsage))
	}
	parent, err := openBeneath(root, path.Dir(name))
	switch err {
	case nil:
	case unix.ENOENT:
		return "", nil
	case unix.ELOOP, unix.ENOTDIR:
		return "", failed("move to the trash", root, name, fmt.Errorf("%w: a link or a file is on the way", mover.ErrConflict))
	default:
		return "", failed("move to the trash", root, name, err)
	}
	defer func() { _ = unix.Close(parent) }()
	bin, err := open(root)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(bin) }()
	called := call(why, time.Now())
	err = rename(parent, path.Base(name), bin, called)
	if err == unix.EXDEV && free(bin) { // it was held to the project of the root
		err = rename(parent, path.Base(name), bin, called)
	}
	if err == unix.ENOENT {
		return "", nil
	}
	return called, failed("move to the trash", root, name, err)
}

// call is the name of an item: items sort by their age, and no two are called the same.
func call(why string, now time.Time) string {
	plain := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}
	why = strings.Map(plain, why)
	return now.UTC().Format("20060102T150405.000000000Z") + "." + why[:min(len(why), 100)] + "." + rand.Text()
}

// open opens the trash of a root, which is made where it is not there. One that another user could change is refused.
func open(root int) (int, error) {
	refused := func(kind error, why string) error {
		return failed("open", root, Folder, fmt.Errorf("%w: %s; remove it, and it is made anew", kind, why))
	}
	if err := unix.Mkdirat(root, Folder, 0o700); err != nil && err != unix.EEXIST {
		return -1, failed("make", root, Folder, err)
	}
	fd, err := openBeneath(root, Folder)
	switch err {
	case nil:
	case unix.ELOOP, unix.ENOTDIR:
		return -1, refused(mover.ErrConflict, "it is no directory")
	case unix.EXDEV:
		return -1, refused(mover.ErrConflict, "something is mounted there")
	default:
		return -1, failed("open", root, Folder, err)
	}
	var st, top unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		err = unix.Fstat(root, &top)
	}
	switch me := unix.Geteuid(); {
	case err != nil:
		err = failed("look at", root, Folder, err)
	case int(st.Uid) != me:
		err = refused(mover.ErrPermission, fmt.Sprintf("it belongs to user %d, and not to user %d", st.Uid, me))
	case st.Dev != top.Dev:
		err = refused(mover.ErrConflict, "it is a subvolume of its own")
	case st.Mode&0o7777 != 0o700:
		err = failed("close to others", root, Folder, unix.Fchmod(fd, 0o700))
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
