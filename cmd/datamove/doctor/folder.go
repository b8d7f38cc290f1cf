package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/mover/units"
)

// Folder looks at a folder and the file system that it is on.
func Folder(dir string) []Finding {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return []Finding{fail(dir, "folder", "is not there", "mount what should be there, or make it: mkdir -p "+mover.Printable(dir))}
	case err != nil:
		return []Finding{fail(dir, "folder", why(err), "check the rights of the folders above it, and the mount")}
	case !info.IsDir():
		return []Finding{fail(dir, "folder", "is a file", "name the folder that it is in")}
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return []Finding{fail(dir, "folder", "statfs: "+err.Error(), "check the mount")}
	}
	found := []Finding{pass(dir, "folder", "is on "+system(dir)), space(dir, &st), inodes(dir, &st)}
	if st.Flags&unix.ST_RDONLY != 0 {
		return append(found, fail(dir, "write", "the file system is mounted read-only", "mount -o remount,rw, once it is known why it is read-only"))
	}
	return append(append(found, tryFolder(dir)...), leftovers(dir)...)
}

// system is the kind of the file system, as copies know it.
func system(dir string) string {
	place, err := posix.Open(dir, posix.Options{})
	if err != nil {
		return "a file system that does not open: " + why(err)
	}
	defer place.Close()
	return place.Capabilities().System
}

// The free shares below which space and inodes are called low, and the room that a
// copy needs at the least.
const (
	lowShare  = 0.05
	leastRoom = 64 << 20
)

func space(dir string, st *unix.Statfs_t) Finding {
	free, size := int64(st.Bavail)*st.Bsize, int64(st.Blocks)*st.Bsize
	detail := fmt.Sprintf("%s free of %s", units.Bytes(free), units.Bytes(size))
	const mend = "remove what is not needed, or choose another place; a copy that meets a full target waits for room"
	switch {
	case size == 0:
		return pass(dir, "space", "the file system does not tell")
	case free < leastRoom:
		return fail(dir, "space", detail, mend)
	case float64(free) < lowShare*float64(size):
		return warn(dir, "space", detail, mend)
	}
	return pass(dir, "space", detail)
}

func inodes(dir string, st *unix.Statfs_t) Finding {
	detail := fmt.Sprintf("%s free of %s", units.Count(int64(st.Ffree)), units.Count(int64(st.Files)))
	const mend = "remove files that are not needed, or make the file system with more inodes: no new file can be made however much space there is"
	switch {
	case st.Files == 0, st.Ffree > st.Files: // a CephFS says that -1 are free
		return pass(dir, "inodes", "as many as there is space for")
	case st.Ffree < 16:
		return fail(dir, "inodes", detail, mend)
	case float64(st.Ffree) < lowShare*float64(st.Files):
		return warn(dir, "inodes", detail, mend)
	}
	return pass(dir, "inodes", detail)
}

// tryFolder writes to the folder.
func tryFolder(dir string) []Finding {
	name := filepath.Join(dir, probeName(0))
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return []Finding{fail(dir, "write", why(err), writeMend(err))}
	}
	defer os.Remove(name)
	defer f.Close()
	if _, err = f.Write(make([]byte, probeBytes)); err == nil {
		err = f.Sync()
	}
	if err != nil {
		return []Finding{fail(dir, "write", why(err), writeMend(err))}
	}
	return []Finding{
		pass(dir, "write", "files can be made, written and synced"),
		attributes(dir, f), directIO(dir, name), reflink(dir, f),
	}
}

// probeBytes is a whole number of blocks on every file system.
const probeBytes = 64 << 10

func writeMend(err error) string {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("give user %d the right to write here, or run as its owner", os.Geteuid())
	case errors.Is(err, unix.ENOSPC):
		return "make room: there are no blocks or no inodes left"
	case errors.Is(err, unix.EDQUOT):
		return "the quota is used up: remove something, or ask for more"
	}
	return "look at the disk and its log (dmesg)"
}

func attributes(dir string, f *os.File) Finding {
	err := unix.Fsetxattr(int(f.Fd()), "user.datamove", []byte("probe"), 0)
	if err == nil {
		return pass(dir, "xattr", "extended attributes are kept")
	}
	return warn(dir, "xattr", "extended attributes are not kept: "+err.Error(),
		"mount with user_xattr where that exists; otherwise attributes and ACLs are lost here, and reports say so")
}

func directIO(dir, name string) Finding {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		return pass(dir, "O_DIRECT", "no: large copies go through the page cache")
	}
	_ = unix.Close(fd)
	return pass(dir, "O_DIRECT", "yes")
}

func reflink(dir string, f *os.File) Finding {
	name := filepath.Join(dir, probeName(1))
	clone, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return pass(dir, "reflink", "not known: "+why(err))
	}
	defer os.Remove(name)
	defer clone.Close()
	if err := unix.IoctlFileClone(int(clone.Fd()), int(f.Fd())); err != nil {
		return pass(dir, "reflink", "no: copies within this file system move every byte")
	}
	return pass(dir, "reflink", "yes: copies within this file system are instant")
}
