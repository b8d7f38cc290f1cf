package localfs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
)

// Subvolumes are the quotas of a btrfs. What a project holds are the bytes that its
// subvolume reaches, also those that it shares with others (snapshots, reflinks), and
// those that are written and not on their way to the device yet: that is what btrfs
// compares with the limit. With simple quotas the limit is that of the group 1/ID, and holds
// what is nested in the subvolume together with it; one that was set before there was such a
// group, and all with full quotas, are of 0/ID, and Escape says so. Files are not counted, and
// there are no soft limits. A limit of a group around (of level 1 with a number below 256, or of
// level 2 and up) holds, too, and is not shown: where there is one on the file system, Doubt says so.
type Subvolumes struct {
	sysfs string // "" is where the kernel has it
}

// quotaHints are for the errors of quotas of btrfs.
var quotaHints = map[error]string{
	unix.EPERM:    "quotas of btrfs are set by who has CAP_SYS_ADMIN (root)",
	unix.EROFS:    "it is mounted read-only",
	unix.ENOTCONN: noGroups,
	unix.ENOENT:   "there is no subvolume of that ID, or its qgroup was removed: btrfs qgroup create 0/ID DIR",
	unix.ENOTTY:   "this is no btrfs",
	unix.EDQUOT:   "btrfs takes the room for the change from the subvolume that is full: name a directory of another one",
}

const noGroups = "quotas are not switched on: btrfs quota enable DIR (or --simple, from Linux 6.7 on, which costs less)"

// Project is the subvolume that the open file or directory is in.
func (s *Subvolumes) Project(ctx context.Context, fd int) (lustre.Project, error) {
	if err := ended(ctx); err != nil {
		return lustre.Project{}, err
	}
	id, err := subvolume(fd)
	if err != nil {
		return lustre.Project{}, unsupported(failed("subvolume", fd, err, quotaHints))
	}
	if id > math.MaxUint32 {
		return lustre.Project{}, fmt.Errorf("subvolume of %s: its ID %d is larger than a project ID", lustre.Where(fd), id)
	}
	return lustre.Project{ID: uint32(id), Inherit: true}, nil
}

// SetProject is done when dir is in that subvolume, and not possible otherwise.
func (s *Subvolumes) SetProject(ctx context.Context, dir int, p lustre.Project) error {
	got, err := s.Project(ctx, dir)
	if err != nil {
		return err
	}
	if got.ID != p.ID || p.Name != "" || !p.Inherit {
		return fmt.Errorf("set project of %s: %w: it is in subvolume %d of a btrfs, and a directory can not be put into another one: make it as a subvolume",
			lustre.Where(dir), errors.ErrUnsupported, got.ID)
	}
	return nil
}

// Quota is that of a subvolume, and of what is nested in it where a group is around them.
func (s *Subvolumes) Quota(ctx context.Context, fd int, p lustre.Project) (lustre.Quota, error) {
	if err := ended(ctx); err != nil {
		return lustre.Quota{}, err
	}
	_, g, err := s.groupOf(fd, uint64(p.ID))
	if err != nil {
		return lustre.Quota{}, fmt.Errorf("quota of subvolume %d: %w", p.ID, err)
	}
	on := g.status&statusOn != 0
	q := lustre.Quota{Project: p, Doubt: g.doubt(), Escape: g.escape(), UsedBytes: lustre.Times(min(g.referenced, math.MaxInt64)+min(g.reserved, math.MaxInt64), 1)}
	if g.limits&limitReferenced != 0 {
		q.HardBytes = lustre.Times(g.maximum, 1)
	}
	// While its counts are inconsistent, btrfs does not promise to hold limits (btrfs-qgroup(8)).
	q.Enforced = on && g.exists && g.status&statusInconsistent == 0
	q.RootToo = q.Enforced && !g.override
	return q, nil
}

// groupOf finds the group that counts for a subvolume.
func (s *Subvolumes) groupOf(fd int, id uint64) (uint64, qgroup, error) {
	own, err := s.group(fd, id)
	if err != nil || own.status&statusSimple == 0 {
		return id, own, err
	}
	fenced, err := s.fenced(fd, id)
	if err != nil || !fenced {
		return id, own, err
	}
	g, err := s.group(fd, fenceOf(id))
	g.fence = true
	return fenceOf(id), g, err
}

// escape says how a user gets around the limit of a group.
func (g *qgroup) escape() string {
	switch {
	case g.fence:
		return "who makes a subvolume in it and says that it is to be in no group writes there without a limit until it is gathered"
	case g.status&statusSimple != 0:
		return "a subvolume that somebody makes in it has no limit: set its limit anew, which then holds both"
	}
	return "a subvolume that somebody makes in it has no limit: only simple quotas hold both (btrfs quota enable --simple, from Linux 6.7 on)"
}

// doubt says what is wrong with the numbers of a group.
func (g *qgroup) doubt() string {
	switch {
	case !g.exists:
		return "it has no qgroup, so nothing is counted; if there is such a subvolume: btrfs qgroup create 0/ID DIR, and btrfs quota rescan DIR"
	case g.status&statusRescan != 0:
		return "btrfs is counting anew"
	case g.status&statusInconsistent != 0:
		return "btrfs says that its counts are inconsistent: btrfs quota rescan DIR counts anew"
	case g.limits&limitExclusive != 0:
		return "it has a limit of bytes that it shares with nobody, too, which is held and not shown: btrfs qgroup show -re DIR"
	case g.around:
		return "there are limits of groups of subvolumes (level 1 and up), which may hold for it, too, and are not shown: btrfs qgroup show -pre DIR"
	case g.status&statusSimple != 0:
		return "simple quotas count only what was written after they were switched on"
	case g.lags:
		return "what is written and not on its way to the device yet is not counted: this machine does not show qgroups in /sys/fs/btrfs"
	}
	return ""
}

// group asks sysfs, and the tree of quotas where that does not tell. Both say "off" by
// having nothing.
func (s *Subvolumes) group(fd int, group uint64) (qgroup, error) {
	system, err := systemID(fd)
	if err != nil {
		return qgroup{}, unsupported(failed("quota", fd, err, quotaHints))
	}
	g, err := shown(cmp.Or(s.sysfs, sysfs), system, group)
	if err == nil && g.status&statusOn != 0 {
		return g, nil
	}
	told := err
	if g, err = searched(fd, group); err == nil && g.status&statusOn != 0 {
		return g, nil
	}
	switch {
	case err == nil, errors.Is(err, unix.ENOENT), errors.Is(err, unix.EPERM) && (told == nil || errors.Is(told, fs.ErrNotExist)):
		return g, fmt.Errorf("%s: %w: %s", lustre.Where(fd), errors.ErrUnsupported, noGroups)
	}
	return g, failed("quota", fd, err, quotaHints)
}

// SetQuota sets the limit of a subvolume, at once for everything that is written from
// now on. What it has above a new limit stays, and can not grow.
func (s *Subvolumes) SetQuota(ctx context.Context, fd int, p lustre.Project, l lustre.Limits) error {
	if err := ended(ctx); err != nil {
		return err
	}
	if err := l.Validate(); err != nil {
		return fmt.Errorf("set quota of %s: %w: %w", lustre.Where(fd), fs.ErrInvalid, err)
	}
	if l.SoftBytes != 0 || l.SoftFiles != 0 || l.HardFiles != 0 {
		return fmt.Errorf("set quota of %s: %w: btrfs has hard limits of bytes only", lustre.Where(fd), errors.ErrUnsupported)
	}
	if p.ID == 0 || p.Name != "" {
		return fmt.Errorf("set quota of %s: %w: a project of btrfs is the ID of a subvolume (5 is the top)", lustre.Where(fd), fs.ErrInvalid)
	}
	if err := s.setLimit(ctx, fd, uint64(p.ID), l.HardBytes); err != nil {
		return err
	}
	q, err := s.Quota(ctx, fd, p)
	if err != nil {
		return fmt.Errorf("read it again: %w", err)
	}
	if q.HardBytes != l.HardBytes {
		return fmt.Errorf("set quota of subvolume %d of %s: %w, or changed by somebody else at the same time: it is %d", p.ID, lustre.Where(fd), lustre.ErrNotApplied, q.HardBytes)
	}
	return nil
}

// setLimit sets the limit of the group that counts for a subvolume. With simple quotas that is one
// around it from its first limit on.
func (s *Subvolumes) setLimit(ctx context.Context, fd int, id uint64, bytes int64) error {
	group, g, err := s.groupOf(fd, id)
	if err != nil { // it says in words that quotas are off
		return fmt.Errorf("set %w", err)
	}
	if g.exists && !g.fence && g.status&statusSimple != 0 && bytes > 0 && id >= firstInode { // all lies in the top
		if group, err = s.fence(ctx, fd, id); err != nil {
			return failed("group of subvolumes", fd, err, quotaHints)
		}
	}
	if err := limitGroup(fd, group, bytes); err != nil {
		return failed("set quota", fd, err, quotaHints)
	}
	if group == id {
		return nil
	}
	own, err := s.group(fd, id)
	if err == nil && own.limits&limitReferenced != 0 { // from before it had a group around it
		err = limitGroup(fd, id, 0)
	}
	return err
}
