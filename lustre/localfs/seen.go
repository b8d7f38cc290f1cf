package localfs

import (
	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
)

// seen is what an ordinary user is told of the project that the directory fd is in: below
// such a directory, ext4 and xfs answer statfs(2) with the limits of its project. ok is
// false where that can not be told from the file system's own numbers.
func (p *Projects) seen(fd int, project lustre.Project) (q lustre.Quota, ok bool) {
	a, err := readAttribute(fd)
	if err != nil || project.ID == 0 || a.project() != (lustre.Project{ID: project.ID, Inherit: true}) {
		return q, false
	}
	here, err := spaceOf(fd)
	if err != nil {
		return q, false
	}
	outside, err := p.outsideOf(fd)
	if err != nil {
		return q, false
	}
	defer func() { _ = unix.Close(outside) }()
	all, err := spaceOf(outside)
	if err != nil {
		return q, false
	}
	q = lustre.Quota{Project: project, CountsFiles: true, HasSoft: true,
		Doubt: "this is what statfs tells: the smaller of the soft and the hard limit, and what is held where there is one; the rest is told to who has CAP_SYS_ADMIN (root)"}
	if here.TotalBytes < all.TotalBytes {
		q.HardBytes, q.UsedBytes = here.TotalBytes, here.TotalBytes-here.FreeBytes
	}
	if here.TotalFiles < all.TotalFiles {
		q.HardFiles, q.UsedFiles = here.TotalFiles, here.TotalFiles-here.FreeFiles
	}
	q.Enforced = q.HardBytes > 0 || q.HardFiles > 0
	q.RootToo = q.Enforced && p.rootToo
	return q, true
}

// outsideOf finds a directory of the same file system, around fd, that is in no project.
func (p *Projects) outsideOf(fd int) (int, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return -1, err
	}
	return upwards(fd, func(at int) (bool, error) {
		var there unix.Stat_t
		if err := unix.Fstat(at, &there); err != nil {
			return false, err
		}
		if there.Dev != st.Dev {
			return false, unix.EXDEV
		}
		a, err := readAttribute(at)
		return err == nil && a.project().ID == 0, err
	})
}
