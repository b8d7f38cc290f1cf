package localfs

import (
	"encoding/binary"
	"math"
	"time"

	"datamove.dev/lustre"
)

// projectType is PRJQUOTA, the type of quotas that projects have (linux/quota.h).
const projectType = 2

// form is one of the two structs that quotactl(2) exchanges limits in.
type form struct {
	get, set uint32 // commands
	size     int
	decode   func(b []byte) lustre.Quota
	encode   func(id uint32, l lustre.Limits) []byte
}

// dqblk is the struct if_dqblk of linux/quota.h, for file systems with the quota files of
// the kernel. Limits of bytes are in blocks of 1 KiB, what is used is in bytes.
var dqblk = form{get: 0x800007, set: 0x800008, size: 72,
	decode: func(b []byte) lustre.Quota {
		u := binary.NativeEndian.Uint64
		return lustre.Quota{
			Limits: lustre.Limits{
				HardBytes: lustre.Times(u(b[0:]), 1<<10), SoftBytes: lustre.Times(u(b[8:]), 1<<10),
				HardFiles: lustre.Times(u(b[24:]), 1), SoftFiles: lustre.Times(u(b[32:]), 1),
			},
			UsedBytes: lustre.Times(u(b[16:]), 1), UsedFiles: lustre.Times(u(b[40:]), 1),
			BytesUntil: until(int64(u(b[48:]))), FilesUntil: until(int64(u(b[56:]))),
		}
	},
	encode: func(_ uint32, l lustre.Limits) []byte {
		b := make([]byte, 72)
		put := binary.NativeEndian.PutUint64
		put(b[0:], blocks(l.HardBytes, 1<<10))
		put(b[8:], blocks(l.SoftBytes, 1<<10))
		put(b[24:], uint64(l.HardFiles))
		put(b[32:], uint64(l.SoftFiles))
		binary.NativeEndian.PutUint32(b[64:], 1|4) // QIF_BLIMITS, QIF_ILIMITS
		return b
	}}

// diskQuota is the struct fs_disk_quota of linux/dqblk_xfs.h. All of its bytes are in
// basic blocks of 512 B.
var diskQuota = form{get: 'X'<<8 | 3, set: 'X'<<8 | 4, size: 112,
	decode: func(b []byte) lustre.Quota {
		u := binary.NativeEndian.Uint64
		seconds := func(low, high int) time.Time {
			t := int64(int32(binary.NativeEndian.Uint32(b[low:])))
			if binary.NativeEndian.Uint16(b[2:])&(1<<15) != 0 { // FS_DQ_BIGTIME
				t = int64(int8(b[high]))<<32 | t&math.MaxUint32
			}
			return until(t)
		}
		return lustre.Quota{
			Limits: lustre.Limits{
				HardBytes: lustre.Times(u(b[8:]), 512), SoftBytes: lustre.Times(u(b[16:]), 512),
				HardFiles: lustre.Times(u(b[24:]), 1), SoftFiles: lustre.Times(u(b[32:]), 1),
			},
			UsedBytes: lustre.Times(u(b[40:]), 512), UsedFiles: lustre.Times(u(b[48:]), 1),
			FilesUntil: seconds(56, 68), BytesUntil: seconds(60, 69),
		}
	},
	encode: func(id uint32, l lustre.Limits) []byte {
		b := make([]byte, 112)
		b[0], b[1] = 1, 2                                         // FS_DQUOT_VERSION, FS_PROJ_QUOTA
		binary.NativeEndian.PutUint16(b[2:], 1<<0|1<<1|1<<2|1<<3) // FS_DQ_ISOFT, IHARD, BSOFT, BHARD
		binary.NativeEndian.PutUint32(b[4:], id)
		put := binary.NativeEndian.PutUint64
		put(b[8:], blocks(l.HardBytes, 512))
		put(b[16:], blocks(l.SoftBytes, 512))
		put(b[24:], uint64(l.HardFiles))
		put(b[32:], uint64(l.SoftFiles))
		return b
	}}

// stateSize is that of the struct fs_quota_statv of linux/dqblk_xfs.h, version 1, in which
// both kinds of file systems tell their state to Q_XGETQSTATV.
const (
	stateSize    = 160
	getState     = 'X'<<8 | 8
	stateCounts  = 1 << 4 // FS_QUOTA_PDQ_ACCT
	stateRefuses = 1 << 5 // FS_QUOTA_PDQ_ENFD
)

// blocks is how many units n bytes are; what is begun counts, so that a small limit does
// not become none.
func blocks(n int64, unit uint64) uint64 { return (uint64(n) + unit - 1) / unit }

// until is the time when a soft limit becomes a hard one.
func until(seconds int64) time.Time {
	if seconds <= 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}
