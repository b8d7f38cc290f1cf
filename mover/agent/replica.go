package agent

import (
	"path"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/beneath"
)

// replica is one that this node has, as one user may read it. Names in it come from other nodes: nothing outside of it is read.
type replica struct {
	fd  int
	uid uint32
	dir string // that the user may look into; "" is none
}

// read fills into with a range of a file.
func (r *replica) read(name string, off int64, into []byte) error {
	if err := r.enter(path.Dir(name)); err != nil {
		return err
	}
	fd, err := beneath.SameMount.Open(r.fd, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size < off+int64(len(into)) || !allows(&st, r.uid, 0o4) {
		return mover.ErrNotExist
	}
	return readAt(fd, into, off)
}

// enter sees to it that the user may come to what is in a directory.
func (r *replica) enter(dir string) error {
	if r.uid == 0 || dir == r.dir {
		return nil
	}
	if dir != "." {
		if err := r.enter(path.Dir(dir)); err != nil {
			return err
		}
	}
	fd, err := beneath.SameMount.Open(r.fd, dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if !allows(&st, r.uid, 0o1) {
		return mover.ErrNotExist
	}
	r.dir = dir
	return nil
}

// allows says whether a mode allows something to a user with unknown groups. The bits of the owner decide, or those of the group
// and of all others together. The process of that user may still read, and give, what is denied so.
func allows(st *unix.Stat_t, uid, what uint32) bool {
	switch uid {
	case 0:
		return true
	case st.Uid:
		return st.Mode&(what<<6) != 0
	}
	return st.Mode&(what<<3) != 0 && st.Mode&what != 0
}

func readAt(fd int, into []byte, off int64) error {
	for len(into) > 0 {
		n, err := unix.Pread(fd, into, off)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return mover.ErrNotExist
		}
		into, off = into[n:], off+int64(n)
	}
	return nil
}
