package cephfs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
)

// The attributes of layouts. Below each are others, of which only those of names are used:
// the numbers are told at once.
const (
	file = "ceph.file.layout"
	dir  = "ceph.dir.layout"
)

// Layout is that of a file, or the own default of a directory.
func (Client) Layout(ctx context.Context, fd int) (lustre.Layout, error) {
	if err := ended(ctx); err != nil {
		return lustre.Layout{}, err
	}
	s, err := stripingOf(fd)
	if absent(err) {
		return lustre.Layout{}, fmt.Errorf("layout of %s: %w", lustre.Where(fd), lustre.ErrInherited)
	}
	return s.layout(), failed("layout", fd, err, nil)
}

// Default is what new files of a directory get, and the directory that it comes from: ""
// where that is above the mount.
func Default(ctx context.Context, fd int) (l lustre.Layout, from string, err error) {
	var found bool
	err = above(ctx, fd, func(at int) (bool, error) {
		s, err := readStriping(at, dir)
		if absent(err) {
			return false, nil
		}
		l, from, found = s.layout(), pathOf(at), err == nil
		return true, err
	})
	if err != nil || found {
		return l, from, failed("layout", fd, err, nil)
	}
	text, err := get(fd, dir+".json")
	if err != nil {
		return l, "", fmt.Errorf("layout of %s: %w: it comes from above the mount, and this client does not tell it", lustre.Where(fd), lustre.ErrInherited)
	}
	s, err := parseInherited(text)
	return s.layout(), "", failed("layout", fd, err, nil)
}

// SetDefault sets what new files below a directory get. Files that are there keep theirs.
func (Client) SetDefault(ctx context.Context, fd int, l lustre.Layout) error {
	if err := ended(ctx); err != nil {
		return err
	}
	if l.IsZero() {
		err := unset(fd, dir)
		if err == nil {
			if _, err := get(fd, dir); !absent(err) {
				return fmt.Errorf("take away the layout of %s: %w", lustre.Where(fd), errors.Join(lustre.ErrNotApplied, err))
			}
		}
		return failed("take away the layout", fd, err, map[error]string{
			unix.EINVAL: "the root of a CephFS always has one: set the one that is wanted",
			unix.EACCES: noRight, unix.EPERM: noRight,
		})
	}
	want, err := wanted(l)
	if err != nil {
		return failed("layout", fd, err, nil)
	}
	return want.apply(fd, dir)
}

// Create makes a file, which gets its layout before it has a byte.
func (Client) Create(ctx context.Context, at int, base string, flags int, mode uint32, l lustre.Layout) (int, error) {
	if err := ended(ctx); err != nil {
		return -1, err
	}
	if base == "" || base == "." || base == ".." || strings.ContainsAny(base, "/\x00") {
		return -1, fmt.Errorf("create %q in %s: it is no name of a file", base, lustre.Where(at))
	}
	want, err := wanted(l)
	if err != nil {
		return -1, fmt.Errorf("create %q in %s: %w", base, lustre.Where(at), err)
	}
	flags |= unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := again(func() (int, error) { return unix.Openat(at, base, flags, mode) })
	if err != nil {
		return -1, fmt.Errorf("create %q in %s: %w", base, lustre.Where(at), err)
	}
	err = want.apply(fd, file)
	if err == nil && want != (striping{}) {
		// The first write would wait until the metadata server has written its journal,
		// which it does every 5 seconds, or when it is asked to.
		_, err = again(func() (int, error) { return 0, unix.Fsync(fd) })
		err = failed("fsync", fd, err, nil)
	}
	if err != nil {
		return -1, errors.Join(err, takeBack(at, base, fd))
	}
	return fd, nil
}

// takeBack removes a file that was just made, if it still has its name, and closes it.
func takeBack(at int, base string, fd int) error {
	var made, named unix.Stat_t
	err := errors.Join(unix.Fstat(fd, &made), unix.Fstatat(at, base, &named, unix.AT_SYMLINK_NOFOLLOW))
	if err == nil && made.Ino == named.Ino && made.Dev == named.Dev {
		err = unix.Unlinkat(at, base, 0)
	}
	if err != nil {
		err = fmt.Errorf("an empty file %q may be left in %s: %w", base, lustre.Where(at), err)
	}
	return errors.Join(err, unix.Close(fd))
}

// Cluster returns the number of the cluster and its layouts by path. It does not ask for the
// number of OSDs: no attribute has it. "ceph osd stat" prints it where the program, its
// configuration and a key are installed, and /sys/kernel/debug/ceph shows it to root. Both are of the
// cluster, and not how many of them the rule of a pool takes. No layout needs it. Every object
// of a file (4 MiB by default) is on OSDs of its own, so that a large file is on all of them
// with a stripe count of 1, too.
func (Client) Cluster(ctx context.Context, fd int) (lustre.Cluster, error) {
	id, err := get(fd, "ceph.cluster_fsid") // clients from before 2020 do not tell it
	if err != nil && !absent(err) {
		return lustre.Cluster{}, failed("cluster", fd, err, nil)
	}
	c := lustre.Cluster{Name: id}
	if c.Default, _, err = Default(ctx, fd); errors.Is(err, lustre.ErrInherited) {
		err = nil
	}
	return c, err
}

// stripingOf is the own one of a file or directory.
func stripingOf(fd int) (striping, error) {
	isDir, err := isDir(fd)
	if err != nil {
		return striping{}, err
	}
	if isDir {
		return readStriping(fd, dir)
	}
	return readStriping(fd, file)
}

// readStriping reads a layout. The name of the namespace is read by itself, since a pool
// can have any name; when the two change in between, it is read again.
func readStriping(fd int, name string) (striping, error) {
	var wrong error
	for range 3 {
		text, err := get(fd, name)
		if err != nil {
			return striping{}, err
		}
		namespace, err := get(fd, name+".pool_namespace")
		if err != nil && !absent(err) { // the kernel's client has no attribute without one
			return striping{}, err
		}
		s, err := parseStriping(text, namespace)
		if err == nil {
			return s, nil
		}
		wrong = err
	}
	return striping{}, wrong
}

// layout is s in the words of parallel file systems; the zero one of the zero striping.
func (s striping) layout() lustre.Layout {
	if s == (striping{}) {
		return lustre.Layout{}
	}
	return lustre.Layout{Components: []lustre.Component{{
		End: lustre.EOF, Pattern: lustre.RAID0, FirstTarget: lustre.AnyTarget,
		StripeBytes: s.unit, StripeCount: int(s.count), ObjectBytes: s.object, Pool: s.pool, PoolNamespace: s.namespace,
	}}}
}
