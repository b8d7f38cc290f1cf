package detect

import (
	"strings"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/client"
)

// The numbers of statfs(2) that linux/magic.h does not have. That of Lustre is
// LUSTRE_SUPER_MAGIC in lustre_user.h, that of GPFS its name in ASCII, that of
// BeeGFS BEEGFS_SUPER_MAGIC of its client module.
const (
	lustreMagic = 0x0BD00BD0
	gpfsMagic   = 0x47504653
	beegfsMagic = 0x19830326
)

// kinds are the file systems that have a number of their own.
var kinds = map[uint32]lustre.Kind{
	lustreMagic:            lustre.IsLustre,
	gpfsMagic:              lustre.IsGPFS,
	beegfsMagic:            lustre.IsBeeGFS,
	unix.CEPH_SUPER_MAGIC:  lustre.IsCephFS,
	unix.NFS_SUPER_MAGIC:   lustre.IsNFS,
	unix.BTRFS_SUPER_MAGIC: lustre.IsBtrfs,
	unix.XFS_SUPER_MAGIC:   lustre.IsXFS,
}

// fuseKinds are those that are served by a process, by the type of the mount.
var fuseKinds = map[string]lustre.Kind{
	"fuse.ceph-fuse": lustre.IsCephFS,
	"fuse.ceph":      lustre.IsCephFS, // mount -t fuse.ceph, of fstab
	"fuse.juicefs":   lustre.IsJuiceFS,
}

// kindOf decides from the number of statfs(2) and the line of the mount, which is the
// zero Mount when it is not known. why is said where something looks like what it is not.
func kindOf(magic uint32, m Mount) (kind lustre.Kind, why string) {
	switch magic {
	case lustreMagic:
		if m.Type == "" { // a mount of another namespace: servers' targets are not handed around
			return lustre.IsLustre, ""
		}
		if _, ok := lustreName(m); !ok {
			return lustre.IsOther, "this is a target of a Lustre server, mounted by the server itself; its file system is used through a client"
		}
		return lustre.IsLustre, ""
	case unix.EXT4_SUPER_MAGIC:
		if m.Type == "" || m.Type == "ext4" {
			return lustre.IsExt4, ""
		}
		return lustre.IsOther, m.Type + " has no project quotas"
	case unix.FUSE_SUPER_MAGIC:
		if kind, ok := fuseKinds[m.Type]; ok {
			return kind, ""
		}
		return lustre.IsOther, "it is served by a process (FUSE), and quotas can not be asked through that"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return lustre.IsOther, "overlayfs has no quotas of its own; those of the file system below it hold: name a directory of that one"
	case unix.TMPFS_MAGIC:
		return lustre.IsOther, "files are in memory; its one limit is the mount option size"
	}
	if kind, ok := kinds[magic]; ok {
		return kind, ""
	}
	// A module may be younger than its number here.
	if strings.HasPrefix(m.Type, "nfs") {
		return lustre.IsNFS, ""
	}
	if m.Type == "lustre_tgt" {
		return lustre.IsOther, "this is a target of a Lustre server"
	}
	return lustre.IsOther, ""
}

// lustreName is the name of the file system of a client's mount.
func lustreName(m Mount) (name string, ok bool) {
	client, ok := client.ParseMount(m.Source, m.Type, strings.Split(m.Super, ","))
	return client.Name, ok
}
