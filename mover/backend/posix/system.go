package posix

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

// durability is what makes writes survive a power cut on a file system.
type durability uint8

const (
	// eachFile: fsync every file before its rename, and every directory after. It
	// is right everywhere, and the only right thing where syncfs does not report
	// lost writes or does not reach the servers.
	eachFile durability = iota
	// wholeSystem: one syncfs before the renames and one after them.
	wholeSystem
	// volatile: the file system is memory.
	volatile
)

// system is a type of file system.
type system struct {
	name     string
	durable  durability
	cow      bool // copy on write: preallocation only costs there
	noHoles  bool // ranges that were never written are stored, or no call tells
	mixed    bool // each directory may compare names in its own way: see casefold.go
	plain    bool // it has no hard links, owners and modes: those that it tells are of the mount
	times    mover.TimeRange
	mount    uint64
	reads    mover.Reads
	writable bool // it was, when the place was opened
}

// systems are the types by the magic number of statfs(2): linux/magic.h, and the
// sources of those that are not in the kernel (Lustre, GPFS, BeeGFS).
var systems = map[uint32]system{
	extMagic:    {name: "ext4", durable: wholeSystem, mixed: true},
	xfsMagic:    {name: "xfs", durable: wholeSystem},
	0x9123683E:  {name: "btrfs", durable: wholeSystem, cow: true},
	0x01021994:  {name: "tmpfs", durable: volatile, mixed: true},
	0x858458F6:  {name: "ramfs", durable: volatile},
	lustreMagic: {name: "lustre", durable: eachFile, times: mover.TimeRange{Grain: time.Second}},
	gpfsMagic:   {name: "gpfs", durable: eachFile, times: unsure},
	0x19830326:  {name: "beegfs", durable: eachFile, times: unsure},
	cephMagic:   {name: "cephfs", durable: eachFile, noHoles: true, mixed: true, times: unsigned32},
	nfsMagic:    {name: "nfs", durable: eachFile},
	fuseMagic:   {name: "fuse", durable: eachFile, mixed: true, times: unsure},
	0x794C7630:  {name: "overlay", durable: eachFile, mixed: true, times: unsure},
	0x2FC12FC1:  {name: "zfs", durable: eachFile, cow: true},
	0xF2F52010:  {name: "f2fs", durable: eachFile, mixed: true},
	0xCA451A4E:  {name: "bcachefs", durable: eachFile, cow: true, mixed: true},
	0xFF534D42:  {name: "cifs", durable: eachFile, mixed: true, times: unsure},
	0xFE534D42:  {name: "smb2", durable: eachFile, mixed: true, times: unsure},
	0x01021997:  {name: "9p", durable: eachFile, mixed: true, times: unsure},
	0x4D44:      {name: "vfat", durable: eachFile, plain: true, times: mover.TimeRange{Grain: 2 * time.Second}},
	0x2011BAB0:  {name: "exfat", durable: eachFile, plain: true, times: mover.TimeRange{Grain: 2 * time.Second}},
	0x73717368:  {name: "squashfs", durable: eachFile, times: unsure},
	0xE0F5E1E2:  {name: "erofs", durable: eachFile, times: unsure},
}

const (
	cephMagic   = 0x00C36400
	extMagic    = 0x0000EF53
	fuseMagic   = 0x65735546
	gpfsMagic   = 0x47504653
	lustreMagic = 0x0BD00BD0
	nfsMagic    = 0x00006969
	xfsMagic    = 0x58465342
)

// systemOf asks which file system fd is on.
func systemOf(fd int) (system, error) {
	var st unix.Statfs_t
	if err := again(func() error { return unix.Fstatfs(fd, &st) }); err != nil {
		return system{}, err
	}
	s := typeOf(fd, uint32(st.Type))
	s.mount = mountOf(fd)
	s.writable = st.Flags&unix.ST_RDONLY == 0
	s.reads = readsOf(st.Flags)
	return s, nil
}

func typeOf(fd int, magic uint32) system {
	if magic == fuseMagic && isCeph(fd) {
		magic = cephMagic
	}
	if s, ok := systems[magic]; ok {
		if magic == nfsMagic {
			s.noHoles = lacks(fd, "user.datamove")
		}
		s.times = timesOf(fd, magic, s.times)
		return s
	}
	return system{name: fmt.Sprintf("unknown (0x%X)", magic), mixed: true, times: unsure}
}

// readsOf says how reads are recorded, by the flags of statfs(2).
func readsOf(flags int64) mover.Reads {
	switch {
	case flags&unix.ST_NOATIME != 0:
		return mover.ReadsUnseen
	case flags&unix.ST_RELATIME != 0:
		return mover.ReadsDaily
	}
	return mover.ReadsSeen
}

// KindAt returns the kind of file system that a path leads to: one of mover.FileSystemKinds,
// or another word. It needs no right but to get there.
func KindAt(path string) (string, error) {
	var st unix.Statfs_t
	if err := again(func() error { return unix.Statfs(path, &st) }); err != nil {
		return "", &mover.Error{Op: "look at", Place: path, Err: kinded(err)}
	}
	magic := uint32(st.Type)
	if magic == fuseMagic && isCephAt(path) {
		magic = cephMagic
	}
	if s, ok := systems[magic]; ok {
		return s.name, nil
	}
	return fmt.Sprintf("unknown (0x%X)", magic), nil
}

// mountOf is the number of the mount that fd was opened on, which is never given again until
// the next boot; 0 from kernels before 6.8, which give numbers again.
func mountOf(fd int) uint64 {
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID_UNIQUE, &st)
	if err != nil || st.Mask&unix.STATX_MNT_ID_UNIQUE == 0 {
		return 0
	}
	return st.Mnt_id
}

// lacks reports whether a file system does not know an attribute, or its kind. Of NFS that
// tells the version: holes came with attributes of users in 4.2 (RFC 7862, RFC 8276), and
// times of more than 32 bits with ACLs of its own in 4.0; before, seconds had no sign (RFC 1813).
func lacks(fd int, name string) bool {
	var b [4096]byte
	_, err := unix.Fgetxattr(fd, name, b[:])
	return err == unix.EOPNOTSUPP
}

// isCeph reports whether a directory that a process serves is of a CephFS (ceph-fuse):
// nothing else answers to this attribute.
func isCeph(fd int) bool {
	var b [32]byte
	_, err := unix.Fgetxattr(fd, "ceph.dir.entries", b[:])
	return err == nil
}

func isCephAt(path string) bool {
	var b [32]byte
	_, err := unix.Getxattr(path, "ceph.dir.entries", b[:])
	return err == nil
}

// Figures of the traits, measured on a machine of 2 cores with tmpfs and ext4.
const (
	smallBytes = 1 << 20
	batchFiles = 512
	batchBytes = 16 << 20

	// In memory each batch is published by itself, and asks before whether it may, which
	// under the service costs a millisecond of CPU: as much as a hundred files.
	volatileBatchFiles = 2048

	partBytes = 4 << 20 // 256 KiB costs a fifth more, 8 MiB nothing less
	partAlign = 4 << 10

	commitBytes = 1 << 30
	commitEvery = 30 * time.Second
)

// traits says what a place on s is like. Without the rights of root an owner can
// not be given, and a group only where we are its member: they are set where
// that works, but not claimed, or every run would find the same differences again.
func traits(s system, root bool, xattrs mover.XattrNames) mover.Capabilities {
	t := mover.Capabilities{
		System: s.name, Level: mover.Written, DirDrafts: true,
		Keeps:      mover.FactMode | mover.FactMtime | mover.FactAtime | mover.FactLinks | mover.FactHoles,
		SmallBytes: smallBytes, BatchFiles: batchFiles, BatchBytes: batchBytes,
		PartBytes: partBytes, PartMin: partAlign, PartAlign: partAlign, MaxParts: 1 << 20,
		Parallel: max(2, min(runtime.NumCPU(), 32)), MaxParallel: max(8, min(4*runtime.NumCPU(), 128)),
	}
	if root {
		t.Keeps |= mover.FactOwner | mover.FactGroup
	}
	if s.plain {
		t.Keeps &^= mover.FactMode | mover.FactOwner | mover.FactGroup | mover.FactLinks
	}
	if xattrs != 0 {
		t.Keeps |= mover.FactXattrs
		t.Xattrs = xattrs
		if xattrs.Has(mover.XattrObject) {
			t.Keeps |= mover.FactsOfObject
		}
	}
	if s.noHoles {
		t.Keeps &^= mover.FactHoles
	}
	t.Times = s.times
	t.Mount = s.mount
	t.Reads = s.reads
	t.FinishSyncs = s.durable == eachFile
	t.LateErrors = t.FinishSyncs || s.durable != volatile && s.mount == 0
	if s.durable != volatile {
		t.CommitBytes, t.CommitEvery = commitBytes, commitEvery
	} else {
		t.BatchFiles = volatileBatchFiles
	}
	return t
}
