package client

import (
	"golang.org/x/sys/unix"

	"datamove.dev/lustre/uapi"
)

func (f *fake) ioctlGetFSXattr(h *handle, arg []byte, _ []pointer) (int, error) {
	// The flags are of now, the project of when it was opened.
	copy(arg, uapi.FSXattr{XFlags: h.inode.xflags, Project: h.project}.Encode())
	return 0, nil
}

func (f *fake) ioctlSetFSXattr(h *handle, arg []byte, _ []pointer) (int, error) {
	x, err := uapi.DecodeFSXattr(arg)
	switch {
	case err != nil:
		return 0, unix.EINVAL
	case f.user:
		return 0, unix.EPERM
	}
	h.inode.project, h.inode.xflags = x.Project, x.XFlags
	return 0, nil
}

func (f *fake) ioctlNamedProject(h *handle, arg []byte, _ []pointer) (int, error) {
	p, err := uapi.DecodeNamedProject(arg)
	if err != nil {
		return 0, unix.EINVAL
	}
	n := h.inode.children[p.Name]
	switch {
	case n == nil:
		return 0, unix.ENOENT
	case p.Set && f.user:
		return 0, unix.EPERM
	case p.Set:
		n.project, n.xflags = p.ID, p.XFlags
	}
	p.ID, p.XFlags = n.project, n.xflags
	b, err := p.Encode()
	copy(arg, b)
	return 0, err
}

func (f *fake) ioctlQuota(h *handle, arg []byte, _ []pointer) (int, error) {
	q, err := uapi.DecodeQuotactl(arg)
	switch {
	case err != nil:
		return 0, unix.EINVAL
	case !h.inode.isDir():
		return 0, unix.ENOTTY
	case q.Type != uapi.QuotaProject && f.user:
		return 0, unix.EPERM
	case q.Type != uapi.QuotaProject:
		return 0, unix.ESRCH
	}
	held := f.quotas[q.ID]
	if held == nil {
		held = &uapi.Quotactl{}
	}
	switch {
	case q.Command == uapi.GetQuota && q.Target == uapi.QuotaGeneral: // of an unknown project all is 0, and no error
		answer := *held
		if q.ID == 0 { // its times are how long others may be over: 7 days of seconds, by default
			answer.BlockTime, answer.InodeTime = 604_800, 604_800
		}
		answer.Command, answer.Type, answer.ID, answer.Valid = q.Command, q.Type, q.ID, 0x3f
		return 0, put(arg, &answer)
	case q.Command == uapi.GetQuota:
		return 0, f.targetQuota(arg, &q, held)
	case q.Command == uapi.GetPoolQuota:
		return 0, f.poolQuota(arg, &q)
	case q.Command == uapi.SetQuota && f.user:
		return 0, unix.EPERM
	case q.Command == uapi.SetQuota:
		changed := *held
		if q.Valid&uapi.ValidBlockLimits != 0 {
			changed.HardKiB, changed.SoftKiB = q.HardKiB, q.SoftKiB
		}
		if q.Valid&uapi.ValidInodeLimits != 0 {
			changed.HardInodes, changed.SoftInodes = q.HardInodes, q.SoftInodes
		}
		f.quotas[q.ID] = &changed
		return 0, nil
	}
	return 0, unix.EOPNOTSUPP
}

// targetQuota tells of one target, as of a site that enforces: everything is held by the
// first, which was granted a MiB more, or ten files.
func (f *fake) targetQuota(arg []byte, q, held *uapi.Quotactl) error {
	of := f.osts
	if q.Target == uapi.QuotaMDT {
		of = f.mdts
	}
	if int(q.Index) >= len(of) {
		return unix.EINVAL
	}
	if f.inactive[of[q.Index].Name] {
		return unix.ENODATA
	}
	answer := uapi.Quotactl{Command: q.Command, Type: q.Type, ID: q.ID, Target: q.Target, Index: q.Index, UUID: of[q.Index].Name, Valid: 0x3f}
	switch {
	case q.Target == uapi.QuotaMDT && q.Index == 0:
		answer.UsedInodes = held.UsedInodes
		if held.HardInodes > 0 && !f.countsOnly {
			answer.HardInodes = held.UsedInodes + 10
		}
	case q.Target == uapi.QuotaOST && q.Index == 0:
		answer.UsedBytes = held.UsedBytes
		if held.HardKiB > 0 && !f.countsOnly {
			answer.HardKiB = held.UsedBytes/1024 + 1024
		}
	}
	return put(arg, &answer)
}

// poolQuota tells of a pool. Like a kernel it gives no name back, and puts limits of 0 where
// there are none.
func (f *fake) poolQuota(arg []byte, q *uapi.Quotactl) error {
	switch {
	case f.poolQuotas == nil:
		return unix.EFAULT // a server whose words do not have the command
	case f.pools[q.Pool] == nil:
		return unix.ENOENT
	}
	answer := f.poolQuotas[q.Pool]
	answer.Command, answer.Type, answer.ID, answer.Valid = q.Command, q.Type, q.ID, 0x3f
	return put(arg, &answer)
}

func put(arg []byte, q *uapi.Quotactl) error {
	b, err := q.Encode()
	copy(arg, b)
	return err
}
