package localfs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
)

// Projects are the project quotas of an ext4 or xfs.
type Projects struct {
	device   string // block device below it, for kernels before 5.14
	form     form
	rootToo  bool // CAP_SYS_RESOURCE is held, too
	byDevice bool // asked in the old way only
}

// noQuota are the errors of quotactl(2).
var noQuota = map[error]string{
	unix.EPERM:  "project quotas are shown and set by who has CAP_SYS_ADMIN (root); in a project, df of its directory tells what is left",
	unix.EACCES: "project quotas are shown and set by who has CAP_SYS_ADMIN (root)",
	unix.ESRCH:  switchedOff,
	unix.ENOSYS: switchedOff,
	unix.EINVAL: switchedOff,
	unix.ERANGE: "a limit is larger than this file system can store",
	unix.EROFS:  "it is mounted read-only",
}

const switchedOff = "project quotas are not switched on, or this kernel has none: mount with prjquota (ext4: after tune2fs -O project,quota, unmounted)"

// byOwner is the way around a project quota. The kernel closes it in user namespaces.
const byOwner = "the owner of a file may put it under another project, but not from within a user namespace (of a pod: hostUsers: false)"

// Project is what the open file or directory is accounted under.
func (p *Projects) Project(ctx context.Context, fd int) (lustre.Project, error) {
	if err := ended(ctx); err != nil {
		return lustre.Project{}, err
	}
	a, err := readAttribute(fd)
	return a.project(), err
}

// SetProject puts a directory under a project; what is in it already stays where it is.
// Project 0 is that of everything which is in no other.
func (p *Projects) SetProject(ctx context.Context, dir int, project lustre.Project) error {
	if err := ended(ctx); err != nil {
		return err
	}
	if project.ID > MaxProject || project.Name != "" {
		return fmt.Errorf("set project of %s: %w: a project is a number from 0 to %d", lustre.Where(dir), fs.ErrInvalid, uint32(MaxProject))
	}
	a, err := readAttribute(dir)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil {
		return failed("set project", dir, err, nil)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR { // the kernel would take it
		return fmt.Errorf("set project of %s: %w: it is no directory", lustre.Where(dir), fs.ErrInvalid)
	}
	a.put(project)
	return writeAttribute(dir, a)
}

// Quota is that of a project. One that was never used or limited holds nothing. A caller without the
// right to ask is told what statfs(2) has, if fd is a directory of the project.
func (p *Projects) Quota(ctx context.Context, fd int, project lustre.Project) (lustre.Quota, error) {
	var none lustre.Quota
	if err := ended(ctx); err != nil {
		return none, err
	}
	counts, refuses, err := p.state(fd)
	if err != nil {
		return none, p.failed("quota", fd, err)
	}
	if !counts {
		return none, p.failed("quota", fd, unix.ENOSYS)
	}
	b := make([]byte, p.form.size)
	// A project without a record is ENOENT to xfs, and zeros to ext4.
	err = p.quotactl(fd, p.form.get, project.ID, b)
	if err == unix.EPERM {
		if q, ok := p.seen(fd, project); ok {
			return q, nil
		}
	}
	if err != nil && err != unix.ENOENT {
		return none, p.failed("quota", fd, err)
	}
	q := p.form.decode(b)
	if project.ID == 0 { // xfs has there how long others may be over
		q.BytesUntil, q.FilesUntil = time.Time{}, time.Time{}
	}
	q.Project = project
	q.CountsFiles, q.HasSoft = true, true
	q.Enforced, q.RootToo, q.Escape = refuses, refuses && p.rootToo, byOwner
	return q, nil
}

// SetQuota sets all limits of a project at once.
func (p *Projects) SetQuota(ctx context.Context, fd int, project lustre.Project, l lustre.Limits) error {
	if err := ended(ctx); err != nil {
		return err
	}
	if err := l.Validate(); err != nil {
		return fmt.Errorf("set quota of %s: %w: %w", lustre.Where(fd), fs.ErrInvalid, err)
	}
	// xfs takes a limit of project 0 as the default of all, and ext4 as one of everything else.
	if project.ID == 0 || project.ID > MaxProject || project.Name != "" {
		return fmt.Errorf("set quota of %s: %w: a project with limits is a number from 1 to %d; 0 is everything that is in no project", lustre.Where(fd), fs.ErrInvalid, uint32(MaxProject))
	}
	if err := p.quotactl(fd, p.form.set, project.ID, p.form.encode(project.ID, l)); err != nil {
		return p.failed("set quota", fd, err)
	}
	q, err := p.Quota(ctx, fd, project)
	if err != nil {
		return fmt.Errorf("read it again: %w", err)
	}
	if !rounded(l.HardBytes, q.HardBytes) || !rounded(l.SoftBytes, q.SoftBytes) || l.HardFiles != q.HardFiles || l.SoftFiles != q.SoftFiles {
		return fmt.Errorf("set quota of project %d of %s: %w, or changed by somebody else at the same time: it has %+v", project.ID, lustre.Where(fd), lustre.ErrNotApplied, q.Limits)
	}
	return nil
}

// rounded reports whether a limit is the one that was asked for, rounded to whole blocks
// of the file system (up to 64 KiB).
func rounded(asked, got int64) bool {
	return got >= asked && got-asked < 64<<10 && (asked > 0 || got == 0)
}

// state reports whether projects are counted, and whether what is over a limit is refused.
func (p *Projects) state(fd int) (counts, refuses bool, err error) {
	b := make([]byte, stateSize)
	b[0] = 1 // FS_QSTATV_VERSION1
	err = p.quotactl(fd, getState, 0, b)
	flags := binary.NativeEndian.Uint16(b[2:])
	return flags&stateCounts != 0, flags&stateRefuses != 0, err
}

// failed is an error of quotactl(2). What is switched off is not supported, until an
// operator switches it on.
func (p *Projects) failed(what string, fd int, err error) error {
	said := failed(what, fd, err, noQuota)
	if noQuota[err] == switchedOff && !errors.Is(said, errors.ErrUnsupported) {
		return fmt.Errorf("%w (%w)", said, errors.ErrUnsupported)
	}
	return said
}
