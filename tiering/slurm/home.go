package slurm

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/beneath"
	"datamove.dev/mover/trash"
)

// Jobs is the folder of the tier that has the directories of jobs. Users other than root get through it, and can not list it.
const Jobs = "jobs"

// scratch opens the root of the tier.
func (s *Site) scratch() (root int, err error) {
	if s.Mounted != nil {
		if err := s.Mounted(); err != nil {
			return -1, &Fault{s.Scratch, err}
		}
	}
	root, err = unix.Open(s.Scratch, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, s.fault(fmt.Errorf("open %s: %w", s.Scratch, err))
	}
	return root, nil
}

// openDir opens a directory below another one, over no link.
func openDir(at int, name string) (int, error) {
	return beneath.NoLinks.Open(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
}

// home opens the directory of a job, and makes it where it is not there. A foreign entry at its path goes to the trash.
func (s *Site) home(root int, j Job) (dir int, err error) {
	if err := unix.Mkdirat(root, Jobs, 0o711); err != nil && err != unix.EEXIST {
		return -1, fmt.Errorf("make %s/%s: %w", s.Scratch, Jobs, err)
	}
	jobs, err := s.jobs(root)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(jobs) }()
	for range 2 {
		if err := unix.Mkdirat(jobs, j.Dir(), 0o700); err != nil && err != unix.EEXIST {
			return -1, fmt.Errorf("make %s/%s/%s: %w", s.Scratch, Jobs, j.Dir(), err)
		}
		if dir, err = s.own(jobs, j); err == nil || !errors.Is(err, errForeign) {
			return dir, err
		}
		if _, err := trash.Move(root, path.Join(Jobs, j.Dir()), "foreign"); err != nil {
			return -1, err
		}
	}
	return -1, err
}

// jobs opens the folder of all.
func (s *Site) jobs(root int) (int, error) { return s.owned(root, Jobs) }

// owned opens a folder of the tier that has to be root's: any other writer could exchange what is in it.
func (s *Site) owned(root int, name string) (int, error) {
	folder, err := openDir(root, name)
	if err != nil {
		return -1, fmt.Errorf("open %s/%s: %w", s.Scratch, name, err)
	}
	var st unix.Stat_t
	err = unix.Fstat(folder, &st)
	if self := uint32(unix.Geteuid()); err == nil && (st.Uid != self || st.Mode&0o022 != 0) {
		err = fmt.Errorf("%w: %s/%s belongs to uid %d with mode %04o, and others could exchange what is in it: remove it, and it is made anew",
			mover.ErrConflict, s.Scratch, name, st.Uid, st.Mode&0o7777)
	}
	if err != nil {
		_ = unix.Close(folder)
		return -1, err
	}
	return folder, nil
}

// errForeign is what lies in the place of a job's directory, and is none.
var errForeign = fmt.Errorf("%w: it is not the job's", mover.ErrConflict)

// own opens the directory of a job and gives it to its user.
func (s *Site) own(jobs int, j Job) (int, error) {
	dir, err := openDir(jobs, j.Dir())
	switch err {
	case nil:
	case unix.ELOOP, unix.ENOTDIR:
		return -1, errForeign
	default:
		return -1, fmt.Errorf("open %s/%s/%s: %w", s.Scratch, Jobs, j.Dir(), err)
	}
	var st unix.Stat_t
	if err = unix.Fstat(dir, &st); err == nil && st.Uid != j.UID {
		if st.Uid != uint32(unix.Geteuid()) { // root owns a new directory until the chown; any other owner is foreign
			_ = unix.Close(dir)
			return -1, errForeign
		}
		err = unix.Fchown(dir, int(j.UID), int(j.GID))
	}
	if err != nil {
		_ = unix.Close(dir)
		return -1, fmt.Errorf("give %s/%s/%s to its user: %w", s.Scratch, Jobs, j.Dir(), err)
	}
	return dir, nil
}

// link gives something a name in the directory of a job. The user may write there, so nothing on the way is followed.
func link(dir int, j Job, name, target string) error {
	if !validLink(name) {
		return fmt.Errorf("%w: %s is no name in the directory of a job", mover.ErrUsage, mover.Printable(name))
	}
	at, err := unix.Dup(dir)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(at) }()
	parts := strings.Split(name, "/")
	for _, part := range parts[:len(parts)-1] {
		err := unix.Mkdirat(at, part, 0o700)
		made := err == nil
		next, err := openDir(at, part)
		if err != nil {
			return fmt.Errorf("%s: %w", mover.Printable(name), err)
		}
		_ = unix.Close(at)
		at = next
		if made {
			if err := unix.Fchown(at, int(j.UID), int(j.GID)); err != nil {
				return err
			}
		}
	}
	last := parts[len(parts)-1]
	err = unix.Symlinkat(target, at, last)
	if err == unix.EEXIST && leadsTo(at, last, target) {
		return nil
	}
	return err
}

func leadsTo(at int, name, target string) bool {
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(at, name, b)
	return err == nil && string(b[:n]) == target
}

func validLink(name string) bool { return name != "" && mover.ValidName(name) }
