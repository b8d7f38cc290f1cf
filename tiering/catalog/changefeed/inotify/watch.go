package inotify

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

// shared are the file systems that others change, too (the magic numbers of statfs(2) and of linux/magic.h). FUSE has its own view of what its server does.
var shared = map[int64]string{
	unix.NFS_SUPER_MAGIC:   "NFS",
	unix.CIFS_SUPER_MAGIC:  "SMB",
	unix.SMB2_SUPER_MAGIC:  "SMB",
	unix.SMB_SUPER_MAGIC:   "SMB",
	unix.CEPH_SUPER_MAGIC:  "CephFS",
	unix.FUSE_SUPER_MAGIC:  "FUSE",
	unix.V9FS_MAGIC:        "9P",
	unix.AFS_SUPER_MAGIC:   "AFS",
	unix.OCFS2_SUPER_MAGIC: "OCFS2",
	0x01161970:             "GFS2",
	0x0bd00bd0:             "Lustre",
	0x47504653:             "Storage Scale",
	0x19830326:             "BeeGFS",
	0xaad7aaea:             "PanFS",
}

// refuse refuses a directory of which this kernel is not told all.
func refuse(dir string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return &mover.Error{Op: "watch", Location: dir, Err: err}
	}
	if name, is := shared[int64(uint32(st.Type))]; is {
		return &mover.Error{Op: "watch", Location: dir, Err: fmt.Errorf("%w: this host is not told what others do on %s", errors.ErrUnsupported, name)}
	}
	return nil
}
