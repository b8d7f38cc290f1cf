// Package fstype says which file system a directory is on, and what that means: how writes become durable, which times and names it keeps, what a place on it can do.
//
// The types are known by the magic number of statfs(2), and some of what they keep by a look; nothing is written for it. An unknown type is one that promises the least.
// All functions may be called from many goroutines. Errors are those of the kernel. TestTimesThatAreCut of package posix holds it to real file systems.
package fstype

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix/kernel"
)

// Durability is what makes writes survive a power cut on a file system.
type Durability uint8

const (
	// EachFile is fsync of every file before its rename, and every directory after. It
	// is right everywhere, and the only right thing where syncfs does not report
	// lost writes or does not reach the servers.
	EachFile Durability = iota
	// WholeSystem is one syncfs before the renames and one after them.
	WholeSystem
	// Volatile is memory.
	Volatile
)

// Type is a type of file system, with what is known of one mount of it.
type Type struct {
	Name     string // one of mover.FileSystemKinds, or another word
	Durable  Durability
	COW      bool // copy on write: preallocation only costs there
	noHoles  bool // ranges that were never written are stored, or no call tells
	Mixed    bool // each directory may compare names in its own way: see casefold.go of package posix
	plain    bool // it has no hard links, owners and modes: those that it tells are of the mount
	times    mover.TimeRange
	mount    uint64
	reads    mover.Reads
	Writable bool // it was, when the place was opened
}

// systems are the types by the magic number of statfs(2): linux/magic.h, and the
// sources of those that are not in the kernel (Lustre, GPFS, BeeGFS).
var systems = map[uint32]Type{
	extMagic:    {Name: "ext4", Durable: WholeSystem, Mixed: true},
	xfsMagic:    {Name: "xfs", Durable: WholeSystem},
	0x9123683E:  {Name: "btrfs", Durable: WholeSystem, COW: true},
	0x01021994:  {Name: "tmpfs", Durable: Volatile, Mixed: true},
	0x858458F6:  {Name: "ramfs", Durable: Volatile},
	lustreMagic: {Name: "lustre", Durable: EachFile, times: mover.TimeRange{Grain: time.Second}},
	gpfsMagic:   {Name: "gpfs", Durable: EachFile, times: unsure},
	0x19830326:  {Name: "beegfs", Durable: EachFile, times: unsure},
	cephMagic:   {Name: "cephfs", Durable: EachFile, noHoles: true, Mixed: true, times: unsigned32},
	nfsMagic:    {Name: "nfs", Durable: EachFile},
	fuseMagic:   {Name: "fuse", Durable: EachFile, Mixed: true, times: unsure},
	0x794C7630:  {Name: "overlay", Durable: EachFile, Mixed: true, times: unsure},
	0x2FC12FC1:  {Name: "zfs", Durable: EachFile, COW: true},
	0xF2F52010:  {Name: "f2fs", Durable: EachFile, Mixed: true},
	0xCA451A4E:  {Name: "bcachefs", Durable: EachFile, COW: true, Mixed: true},
	0xFF534D42:  {Name: "cifs", Durable: EachFile, Mixed: true, times: unsure},
	0xFE534D42:  {Name: "smb2", Durable: EachFile, Mixed: true, times: unsure},
	0x01021997:  {Name: "9p", Durable: EachFile, Mixed: true, times: unsure},
	0x4D44:      {Name: "vfat", Durable: EachFile, plain: true, times: mover.TimeRange{Grain: 2 * time.Second}},
	0x2011BAB0:  {Name: "exfat", Durable: EachFile, plain: true, times: mover.TimeRange{Grain: 2 * time.Second}},
	0x73717368:  {Name: "squashfs", Durable: EachFile, times: unsure},
	0xE0F5E1E2:  {Name: "erofs", Durable: EachFile, times: unsure},
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

// Of asks which file system fd is on.
func Of(fd int) (Type, error) {
	var st unix.Statfs_t
	if err := kernel.Again(func() error { return unix.Fstatfs(fd, &st) }); err != nil {
		return Type{}, err
	}
	s := typeOf(fd, uint32(st.Type))
	s.mount = mountOf(fd)
	s.Writable = st.Flags&unix.ST_RDONLY == 0
	s.reads = ReadsOf(st.Flags)
	return s, nil
}

func typeOf(fd int, magic uint32) Type {
	if magic == fuseMagic && isCeph(fd) {
		magic = cephMagic
	}
	if s, ok := systems[magic]; ok {
		if magic == nfsMagic {
			s.noHoles = kernel.LacksXattr(fd, "user.datamove")
		}
		s.times = timesOf(fd, magic, s.times)
		return s
	}
	return Type{Name: fmt.Sprintf("unknown (0x%X)", magic), Mixed: true, times: unsure}
}

// ReadsOf says how reads are recorded, by the flags of statfs(2).
func ReadsOf(flags int64) mover.Reads {
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
	if err := kernel.Again(func() error { return unix.Statfs(path, &st) }); err != nil {
		return "", &mover.Error{Op: "look at", Location: path, Err: kernel.Kinded(err)}
	}
	magic := uint32(st.Type)
	if magic == fuseMagic && isCephAt(path) {
		magic = cephMagic
	}
	if s, ok := systems[magic]; ok {
		return s.Name, nil
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

// Capabilities says what a place on it is like. Without the rights of root an owner can
// not be given, and a group only where we are its member: they are set where
// that works, but not claimed, or every run would find the same differences again.
func (s *Type) Capabilities(root bool, xattrs mover.XattrNames) mover.Capabilities {
	t := mover.Capabilities{
		System: s.Name, Level: mover.Written, DirDrafts: true,
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
	t.FinishSyncs = s.Durable == EachFile
	t.LateErrors = t.FinishSyncs || s.Durable != Volatile && s.mount == 0
	if s.Durable != Volatile {
		t.CommitBytes, t.CommitEvery = commitBytes, commitEvery
	} else {
		t.BatchFiles = volatileBatchFiles
	}
	return t
}

// served are the file systems with a number in statfs(2) that names the file system of the servers.
var served = map[uint32]bool{lustreMagic: true, gpfsMagic: true, cephMagic: true}

// NumberOf is the number that the servers of a file system have for it; false where they have none.
func NumberOf(fd int) (number [2]int32, ok bool) {
	var st unix.Statfs_t
	err := kernel.Again(func() error { return unix.Fstatfs(fd, &st) })
	return st.Fsid.Val, err == nil && served[uint32(st.Type)] && st.Fsid.Val != [2]int32{}
}
