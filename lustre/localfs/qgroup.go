package localfs

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The requests that are made of btrfs, and its numbers (linux/btrfs.h, btrfs_tree.h).
const (
	treeSearch   = 0xc0709411 // BTRFS_IOC_TREE_SEARCH_V2
	inodeLookup  = 0xd0009412 // BTRFS_IOC_INO_LOOKUP
	systemInfo   = 0x8400941f // BTRFS_IOC_FS_INFO
	quotaControl = 0xc0109428 // BTRFS_IOC_QUOTA_CTL
	qgroupAssign = 0x40189429 // BTRFS_IOC_QGROUP_ASSIGN
	qgroupCreate = 0x4010942a // BTRFS_IOC_QGROUP_CREATE
	qgroupLimit  = 0x8030942b // BTRFS_IOC_QGROUP_LIMIT
	quotaRescan  = 0x4040942c // BTRFS_IOC_QUOTA_RESCAN
	rescanStatus = 0x8040942d // BTRFS_IOC_QUOTA_RESCAN_STATUS
	makeVolume   = 0x50009418 // BTRFS_IOC_SUBVOL_CREATE_V2
	destroy      = 0x5000943f // BTRFS_IOC_SNAP_DESTROY_V2
	snapshot     = 0x50009417 // BTRFS_IOC_SNAP_CREATE_V2
	getFlags     = 0x80089419 // BTRFS_IOC_SUBVOL_GETFLAGS
	setFlags     = 0x4008941a // BTRFS_IOC_SUBVOL_SETFLAGS

	rootTree     = 1
	quotaTree    = 8
	inodeItem    = 1
	rootItem     = 132 // of a subvolume, until the kernel has cleaned up behind it
	rootRefItem  = 156 // of a subvolume and one that lies in it
	statusItem   = 240
	usageItem    = 242
	limitItem    = 244
	relationItem = 246 // of a group and one that it is in, and the other way round
	firstInode   = 256 // BTRFS_FIRST_FREE_OBJECTID: the root of every subvolume

	statusOn           = 1 << 0
	statusRescan       = 1 << 1
	statusInconsistent = 1 << 2
	statusSimple       = 1 << 3

	limitReferenced = 1 << 0 // BTRFS_QGROUP_LIMIT_MAX_RFER
	limitExclusive  = 1 << 1 // BTRFS_QGROUP_LIMIT_MAX_EXCL
)

// qgroup is what btrfs knows of one group.
type qgroup struct {
	status     uint64 // statusOn...
	referenced uint64 // bytes that its subvolumes reach, shared ones too
	reserved   uint64 // bytes that are written and not accounted yet; they count at a limit
	limits     uint64 // flags: which are set
	maximum    uint64 // of referenced
	exists     bool
	override   bool // a process with CAP_SYS_RESOURCE is not refused
	lags       bool // reserved is not known
	around     bool // there are limits of groups of groups, which may hold for it
	fence      bool // it is one of level 1, with what lies in the subvolume
}

// searched reads a group out of the tree of quotas. That needs CAP_SYS_ADMIN, and does not
// have what is reserved.
func searched(fd int, group uint64) (qgroup, error) {
	g := qgroup{lags: true}
	var items [3][]byte
	for i, k := range []key{{quotaTree, 0, statusItem, 0}, {quotaTree, 0, usageItem, group}, {quotaTree, 0, limitItem, group}} {
		var err error
		if items[i], _, err = search(fd, k, k.offset); err != nil {
			return g, err
		}
	}
	return g, g.decode(items[0], items[1], items[2])
}

// decode takes the items of a group; nil is one that is not there. They are little-endian
// on every machine.
func (g *qgroup) decode(status, usage, limit []byte) error {
	u := binary.LittleEndian.Uint64
	for _, item := range []struct {
		name string
		b    []byte
		size int
	}{{"status", status, 32}, {"usage", usage, 40}, {"limits", limit, 40}} {
		if item.b != nil && len(item.b) < item.size {
			return fmt.Errorf("%s of a btrfs qgroup has %d bytes instead of %d", item.name, len(item.b), item.size)
		}
	}
	if status != nil {
		g.status = u(status[16:])
	}
	if g.exists = usage != nil; g.exists {
		g.referenced = u(usage[8:])
	}
	if limit != nil {
		g.limits, g.maximum = u(limit[0:]), u(limit[8:])
	}
	return nil
}

// searchRoom is for one item; that of a subvolume has 439 bytes.
const searchRoom = 512

// key says where an item is.
type key struct {
	tree, object uint64
	kind         uint32
	offset       uint64
}

// search looks for the first item from k on, up to the offset last, and returns it and its
// offset; nil is none. It needs CAP_SYS_ADMIN.
func search(fd int, k key, last uint64) (item []byte, offset uint64, err error) {
	// struct btrfs_ioctl_search_args_v2: a key of 104 bytes, the room, and the items. The
	// key: tree, objects, offsets, transactions; kinds, and how many.
	b := make([]byte, 112+searchRoom)
	for i, v := range []uint64{k.tree, k.object, k.object, k.offset, last, 0, ^uint64(0)} {
		binary.NativeEndian.PutUint64(b[8*i:], v)
	}
	for i, v := range []uint32{k.kind, k.kind, 1} {
		binary.NativeEndian.PutUint32(b[56+4*i:], v)
	}
	binary.NativeEndian.PutUint64(b[104:], searchRoom)
	if err := ioctl(fd, treeSearch, b); err != nil {
		return nil, 0, err
	}
	return firstItem(b[112:], binary.NativeEndian.Uint32(b[64:]), k, last)
}

var errItem = errors.New("btrfs answered a search with something that is no item")

// firstItem cuts the item out of an answer: a header (transid, objectid, offset, type,
// length) and as many bytes.
func firstItem(b []byte, found uint32, k key, last uint64) (item []byte, offset uint64, err error) {
	if found == 0 {
		return nil, 0, nil
	}
	if len(b) < 32 {
		return nil, 0, errItem
	}
	u, u32 := binary.NativeEndian.Uint64, binary.NativeEndian.Uint32
	offset = u(b[16:])
	length := uint64(u32(b[28:]))
	if u(b[8:]) != k.object || offset < k.offset || offset > last || u32(b[24:]) != k.kind || length > uint64(len(b)-32) {
		return nil, 0, errItem
	}
	return b[32 : 32+length], offset, nil
}

// subvolume is the ID of the one that fd is in. Everybody may ask.
func subvolume(fd int) (uint64, error) {
	b := make([]byte, 4096) // struct btrfs_ioctl_ino_lookup_args: treeid 0 asks for it
	binary.NativeEndian.PutUint64(b[8:], firstInode)
	err := ioctl(fd, inodeLookup, b)
	return binary.NativeEndian.Uint64(b), err
}

// systemID is the UUID of a btrfs, as its folder in sysfs is named. Everybody may ask.
func systemID(fd int) (string, error) {
	b := make([]byte, 1024)
	if err := ioctl(fd, systemInfo, b); err != nil {
		return "", err
	}
	u := b[16:32]
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[0:4], u[4:6], u[6:8], u[8:10], u[10:16]), nil
}

// volumeArgs is the struct btrfs_ioctl_vol_args_v2: fd, transid, flags, 32 bytes, name.
func volumeArgs(flags uint64, name string, id uint64) []byte {
	b := make([]byte, 4096)
	binary.NativeEndian.PutUint64(b[16:], flags)
	copy(b[56:4095], name)
	if name == "" {
		binary.NativeEndian.PutUint64(b[56:], id)
	}
	return b
}
