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
	name    string
	durable durability
	cow     bool // copy on write: preallocation only costs there
}

// systems are the types by the magic number of statfs(2): linux/magic.h, and the
// sources of those that are not in the kernel (Lustre, GPFS, BeeGFS).
var systems = map[uint32]system{
	0xEF53:     {"ext4", wholeSystem, false},
	0x58465342: {"xfs", wholeSystem, false},
	0x9123683E: {"btrfs", wholeSystem, true},
	0x01021994: {"tmpfs", volatile, false},
	0x858458F6: {"ramfs", volatile, false},
	0x0BD00BD0: {"lustre", eachFile, false},
	0x47504653: {"gpfs", eachFile, false},
	0x19830326: {"beegfs", eachFile, false},
	0x00C36400: {"ceph", eachFile, false},
	0x00006969: {"nfs", eachFile, false},
	0x65735546: {"fuse", eachFile, false},
	0x794C7630: {"overlay", eachFile, false},
	0x2FC12FC1: {"zfs", eachFile, true},
	0xF2F52010: {"f2fs", eachFile, false},
	0xCA451A4E: {"bcachefs", eachFile, true},
	0xFF534D42: {"cifs", eachFile, false},
	0xFE534D42: {"smb2", eachFile, false},
	0x01021997: {"9p", eachFile, false},
	0x4D44:     {"vfat", eachFile, false},
	0x2011BAB0: {"exfat", eachFile, false},
	0x73717368: {"squashfs", eachFile, false},
	0xE0F5E1E2: {"erofs", eachFile, false},
}

// systemOf asks which file system fd is on.
func systemOf(fd int) (system, error) {
	var st unix.Statfs_t
	if err := again(func() error { return unix.Fstatfs(fd, &st) }); err != nil {
		return system{}, err
	}
	magic := uint32(st.Type)
	if s, ok := systems[magic]; ok {
		return s, nil
	}
	return system{name: fmt.Sprintf("unknown (0x%X)", magic)}, nil
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
func traits(s system, root, xattrs bool) mover.Traits {
	t := mover.Traits{
		Scheme: "posix", System: s.name, Level: mover.Written, DirDrafts: true,
		Keeps:      mover.FactMode | mover.FactMtime | mover.FactAtime | mover.FactLinks | mover.FactHoles,
		SmallBytes: smallBytes, BatchFiles: batchFiles, BatchBytes: batchBytes,
		PartBytes: partBytes, PartMin: partAlign, PartAlign: partAlign, MaxParts: 1 << 20,
		Parallel: max(2, min(runtime.NumCPU(), 32)), MaxParallel: max(8, min(4*runtime.NumCPU(), 128)),
	}
	if root {
		t.Keeps |= mover.FactOwner | mover.FactGroup
	}
	if xattrs {
		t.Keeps |= mover.FactXattrs
	}
	if s.durable != volatile {
		t.CommitBytes, t.CommitEvery = commitBytes, commitEvery
	} else {
		t.BatchFiles = volatileBatchFiles
	}
	return t
}
