package fstype

import (
	"encoding/binary"
	"math"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix/kernel"
)

// What file systems keep of times, as their sources have it: no call tells it,
// and what is beyond is cut without an error.
var (
	unsure     = mover.TimeRange{Unsure: true}
	unsigned32 = mover.TimeRange{Last: math.MaxUint32} // NFS 3 (RFC 1813), CephFS: no sign
	signed32   = mover.TimeRange{First: math.MinInt32, Last: math.MaxInt32}
	// ext4 with inodes of 128 bytes has no room for fractions.
	wholeSeconds = mover.TimeRange{First: math.MinInt32, Last: math.MaxInt32, Grain: time.Second}
	// Two bits more, until 2446 (EXT4_EXTRA_TIMESTAMP_MAX).
	signed34 = mover.TimeRange{First: math.MinInt32, Last: math.MinInt32 + 1<<34 - 1}
	// Nanoseconds since 1901 in 64 bits, until 2486, in whole units of four seconds
	// (XFS_BIGTIME_TIME_MAX).
	bigtime = mover.TimeRange{First: math.MinInt32, Last: math.MinInt32 + math.MaxUint64/1_000_000_000&^3}
)

// timesOf finds out what the file system of fd keeps of times; otherwise is what is said
// of all of its type. Nothing is written for it, so that a target that is only read, or can
// only be read, is compared in the same way.
func timesOf(fd int, magic uint32, otherwise mover.TimeRange) mover.TimeRange {
	switch magic {
	case nfsMagic:
		otherwise.Unsure = true // it is that of what the server has exported
		if kernel.LacksXattr(fd, mover.XattrNFS4ACL) {
			otherwise.Last = unsigned32.Last
		}
	case extMagic:
		if !hasBirth(fd) {
			return wholeSeconds
		}
		return signed34
	case xfsMagic:
		if !hasBigtime(fd) {
			return signed32
		}
		return bigtime
	}
	return otherwise
}

// hasBirth reports whether an inode of ext4 has a birth time: that is kept where the
// fractions and the high bits of the other times are, beyond its first 128 bytes.
func hasBirth(fd int) bool {
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &st)
	return err == nil && st.Mask&unix.STATX_BTIME != 0
}

// The geometry of xfs (ioctl_xfs_fsgeometry(2)).
const (
	xfsGeometry      = 0x8100587E // XFS_IOC_FSGEOMETRY, since Linux 5.2; times were 32 bits until 5.10
	xfsGeometryBytes = 256
	xfsFlagsOff      = 92
	xfsFlagBigtime   = 1 << 21
)

func hasBigtime(fd int) bool {
	var b [xfsGeometryBytes]byte
	_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), xfsGeometry, uintptr(unsafe.Pointer(&b[0])))
	return e == 0 && binary.NativeEndian.Uint32(b[xfsFlagsOff:])&xfsFlagBigtime != 0
}
