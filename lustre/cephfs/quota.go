package cephfs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
)

const quota = "ceph.quota"

// Project is the nearest directory with a quota: that of fd, or one above it. It is the
// zero Project when there is none below the root of the mount.
func (Client) Project(ctx context.Context, fd int) (lustre.Project, error) {
	var p lustre.Project
	err := above(ctx, fd, func(at int) (bool, error) {
		l, err := limits(at)
		if l != (lustre.Limits{}) {
			p = project(at)
		}
		return p.Name != "", err
	})
	return p, failed("project", fd, err, nil)
}

// project is the directory as one.
func project(at int) lustre.Project { return lustre.Project{Name: pathOf(at), Inherit: true} }

// SetProject has nothing to do for a directory and itself, and can do nothing else: every
// directory is a project, as soon as it has limits.
func (Client) SetProject(ctx context.Context, fd int, p lustre.Project) error {
	if err := ended(ctx); err != nil {
		return err
	}
	at, err := named(fd, p)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(at) }()
	var own, other unix.Stat_t
	if err := errors.Join(unix.Fstat(fd, &own), unix.Fstat(at, &other)); err != nil {
		return failed("set project", fd, err, nil)
	}
	if own.Ino != other.Ino {
		return fmt.Errorf("set project of %s: %w: a directory of a CephFS is in the projects of the directories above it: move it into %s, or give it a quota of its own",
			lustre.Where(fd), errors.ErrUnsupported, lustre.Where(at))
	}
	return nil
}

// Quota is that of a directory; the zero Project is the directory of fd. Those above it
// are Around. What it holds is 5 to 10 seconds behind.
func (Client) Quota(ctx context.Context, fd int, p lustre.Project) (lustre.Quota, error) {
	at, err := named(fd, p)
	if err != nil {
		return lustre.Quota{}, err
	}
	defer func() { _ = unix.Close(at) }()
	var all []lustre.Quota
	err = above(ctx, at, func(at int) (bool, error) {
		l, err := limits(at)
		if err != nil || l == (lustre.Limits{}) && len(all) > 0 {
			return false, err
		}
		q, err := quotaOf(at, l)
		all = append(all, q)
		return false, err
	})
	if err != nil {
		return lustre.Quota{}, failed("quota", fd, err, nil)
	}
	all[0].Around = all[1:]
	return all[0], nil
}

// quotaOf is the quota of a directory with these limits.
func quotaOf(at int, l lustre.Limits) (lustre.Quota, error) {
	t, err := RecursiveUsage(at)
	q := lustre.Quota{
		Project: project(at), Limits: l, UsedBytes: t.Bytes, UsedFiles: t.Files + t.Dirs + 1,
		CountsFiles: true, Enforced: true, RootToo: true,
	}
	if l != (lustre.Limits{}) {
		q.Doubt = "CephFS counts some seconds late, and holds a limit as late"
	}
	return q, err
}

// SetQuota sets the limits of a directory; the zero Project is the directory of fd. 0 is
// no limit.
func (Client) SetQuota(ctx context.Context, fd int, p lustre.Project, l lustre.Limits) error {
	if err := ended(ctx); err != nil {
		return err
	}
	if err := l.Validate(); err != nil {
		return failed("set quota", fd, err, nil)
	}
	if l.SoftBytes != 0 || l.SoftFiles != 0 {
		return fmt.Errorf("set quota of %s: %w: a CephFS has hard limits only", lustre.Where(fd), errors.ErrUnsupported)
	}
	at, err := named(fd, p)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(at) }()
	if err := set(at, quota, fmt.Sprintf("max_bytes=%d max_files=%d", l.HardBytes, l.HardFiles)); err != nil {
		return failed("set quota", at, err, map[error]string{
			unix.EACCES: noRight, unix.EPERM: noRight,
			unix.EINVAL: "this CephFS does not take these limits",
		})
	}
	got, err := limits(at)
	if err != nil {
		return failed("read the quota again", at, err, nil)
	}
	if got != l {
		return fmt.Errorf("set quota of %s: %w, or changed by somebody else at the same time: it has %d bytes and %d files",
			lustre.Where(at), lustre.ErrNotApplied, got.HardBytes, got.HardFiles)
	}
	return nil
}

// named opens the directory that a project is, which is of the file system of fd.
func named(fd int, p lustre.Project) (int, error) {
	if p.ID != 0 {
		return -1, fmt.Errorf("project %d of %s: %w: a project of a CephFS is a directory, and named by its path", p.ID, lustre.Where(fd), errors.ErrUnsupported)
	}
	if p.Name == "" {
		return directory(fd)
	}
	at, err := path(unix.AT_FDCWD, p.Name)
	if err != nil {
		return -1, fmt.Errorf("project %q: %w", p.Name, err)
	}
	var here, there unix.Stat_t
	err = errors.Join(unix.Fstat(fd, &here), unix.Fstat(at, &there))
	if err == nil && here.Dev != there.Dev {
		err = fmt.Errorf("it is on another file system than %s", lustre.Where(fd))
	}
	if err != nil {
		return -1, errors.Join(fmt.Errorf("project %q: %w", p.Name, err), unix.Close(at))
	}
	return at, nil
}

// limits are the own ones of a directory.
func limits(at int) (lustre.Limits, error) {
	text, err := get(at, quota)
	if absent(err) {
		return lustre.Limits{}, nil
	}
	if err != nil {
		return lustre.Limits{}, err
	}
	return parseLimits(text)
}

// parseLimits reads ceph.quota.
func parseLimits(text string) (lustre.Limits, error) {
	first, second, ok := strings.Cut(text, " ")
	bytes, ok1 := strings.CutPrefix(first, "max_bytes=")
	files, ok2 := strings.CutPrefix(second, "max_files=")
	var l lustre.Limits
	if !ok || !ok1 || !ok2 {
		return l, fmt.Errorf(`quota %q: a CephFS says "max_bytes=N max_files=N"`, text)
	}
	maxBytes, err := parseCount(bytes)
	maxFiles, err2 := parseCount(files)
	if err := errors.Join(err, err2); err != nil {
		return l, fmt.Errorf("quota %q: %w", text, err)
	}
	return lustre.Limits{HardBytes: maxBytes, HardFiles: maxFiles}, nil
}
