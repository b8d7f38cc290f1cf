package cephfs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
)

// Client answers for every CephFS that this machine has mounted; the zero Client works.
type Client struct{}

var (
	_ lustre.Layouts = Client{}
	_ lustre.Quotas  = Client{}
	_ lustre.Usage   = Client{}
)

// Answer gives s, which looks like a CephFS by the number of its file system or by the
// type of its mount, its answers, and the reasons for those that it has not. fd is an open
// file or directory of it. A file system that does not answer as a CephFS does is an
// errors.ErrUnsupported: any user with the right to mount can name a FUSE process "fuse.ceph-fuse".
func Answer(s *lustre.System, fd int) error {
	if err := ask(fd); err != nil {
		return fmt.Errorf("%s: %w", s.Mount, err)
	}
	if s.Lacks == nil {
		s.Lacks = map[lustre.Question]string{}
	}
	s.Layout, s.Quota, s.Usage = Client{}, Client{}, Client{}
	s.Lacks[lustre.AskHSM] = "CephFS has no archive: a colder pool is chosen by the layout of new files"
	s.Lacks[lustre.AskChange] = "CephFS keeps no log of changes; changes are found by a scan, which may leave out directories whose rctime did not change"
	return nil
}

// ask puts a question that only a CephFS has an answer to.
func ask(fd int) error {
	dir, err := isDir(fd)
	if err != nil {
		return err
	}
	if dir {
		_, err = count(fd, "ceph.dir.entries")
	} else {
		_, err = readStriping(fd, file)
	}
	if err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, unix.EACCES) {
		return fmt.Errorf("%w: it does not answer as a CephFS does: %w", errors.ErrUnsupported, err)
	}
	return err
}

// isDir reports whether fd is a directory. What is neither that nor a file has no answers.
func isDir(fd int) (bool, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, failed("stat", fd, err, nil)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return true, nil
	case unix.S_IFREG:
		return false, nil
	}
	return false, fmt.Errorf("%s: %w: it is neither a file nor a directory", lustre.Where(fd), errors.ErrUnsupported)
}
