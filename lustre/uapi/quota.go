package uapi

import (
	"time"

	"datamove.dev/lustre"
)

// if_quotactl is the argument of OBD_IOC_QUOTACTL (lustre_user.h): 176 bytes, and the name
// of a pool after them.
const (
	sizeQuotactl = 176
	SizeQuotactl = sizeQuotactl + 16
)

// The commands (LUSTRE_Q_*).
const (
	GetQuota     = 0x800007
	SetQuota     = 0x800008
	GetPoolQuota = 0x80000f // LUSTRE_Q_GETQUOTAPOOL: of the pool that is named, since 2.14
)

// QuotaProject is the type of a project's quota (PRJQUOTA).
const QuotaProject = 2

// Which target a Quotactl asks (QC_*).
const (
	QuotaGeneral = 0 // the whole file system
	QuotaMDT     = 1 // the MDT of Index
	QuotaOST     = 2
)

// Which fields of a request are valid (QIF_*).
const (
	ValidBlockLimits = 1
	ValidInodeLimits = 4
)

// timeMask is of dqb_btime and dqb_itime: a time; above it are flags. One of them says that
// the limits, which are told all the same, are those of the default.
const timeMask = 1<<48 - 1

// Quotactl is a request, and its answer.
type Quotactl struct {
	Command, Type, ID   uint32
	Stat, Target, Index uint32 // Target is QuotaGeneral, QuotaMDT or QuotaOST
	// BlockGrace and InodeGrace are seconds.
	BlockGrace, InodeGrace uint64
	InfoFlags, InfoValid   uint32
	// Limits of blocks are in KiB, what is used in bytes. Times are seconds since 1970.
	HardKiB, SoftKiB, UsedBytes        uint64
	HardInodes, SoftInodes, UsedInodes uint64
	BlockTime, InodeTime               uint64
	Valid                              uint32
	OBDType, UUID, Pool                string
}

// Encode writes the struct with room for the name of a pool.
func (q *Quotactl) Encode() ([]byte, error) {
	if len(q.OBDType) > 15 || len(q.UUID) > SizeUUID-1 || len(q.Pool) > lustre.MaxPoolName {
		return nil, errRange("a name", int64(max(len(q.OBDType), len(q.UUID), len(q.Pool))))
	}
	b := make([]byte, SizeQuotactl)
	for i, v := range [...]uint32{q.Command, q.Type, q.ID, q.Stat, q.Target, q.Index} {
		le.PutUint32(b[4*i:], v)
	}
	le.PutUint64(b[24:], q.BlockGrace)
	le.PutUint64(b[32:], q.InodeGrace)
	le.PutUint32(b[40:], q.InfoFlags)
	le.PutUint32(b[44:], q.InfoValid)
	for i, v := range [...]uint64{q.HardKiB, q.SoftKiB, q.UsedBytes, q.HardInodes, q.SoftInodes, q.UsedInodes, q.BlockTime, q.InodeTime} {
		le.PutUint64(b[48+8*i:], v)
	}
	le.PutUint32(b[112:], q.Valid)
	copy(b[120:], q.OBDType)
	copy(b[136:], q.UUID)
	copy(b[176:], q.Pool)
	return b, nil
}

// DecodeQuotactl is the inverse of Encode; the name of the pool may be missing.
func DecodeQuotactl(b []byte) (Quotactl, error) {
	if len(b) < sizeQuotactl {
		return Quotactl{}, malformed("an if_quotactl of %d bytes: it has %d", len(b), sizeQuotactl)
	}
	u32, u64 := le.Uint32, le.Uint64
	q := Quotactl{
		Command: u32(b), Type: u32(b[4:]), ID: u32(b[8:]), Stat: u32(b[12:]), Target: u32(b[16:]), Index: u32(b[20:]),
		BlockGrace: u64(b[24:]), InodeGrace: u64(b[32:]), InfoFlags: u32(b[40:]), InfoValid: u32(b[44:]),
		HardKiB: u64(b[48:]), SoftKiB: u64(b[56:]), UsedBytes: u64(b[64:]),
		HardInodes: u64(b[72:]), SoftInodes: u64(b[80:]), UsedInodes: u64(b[88:]),
		BlockTime: u64(b[96:]), InodeTime: u64(b[104:]), Valid: u32(b[112:]),
		OBDType: text(b[120:135]), UUID: text(b[136:175]),
	}
	if len(b) >= SizeQuotactl {
		q.Pool = text(b[176:191])
	}
	return q, nil
}

// Limits are those of q: 0 is none. One that is larger than can be said here is the largest that can.
func (q *Quotactl) Limits() lustre.Limits {
	return lustre.Limits{
		SoftBytes: lustre.Times(q.SoftKiB, 1024), HardBytes: lustre.Times(q.HardKiB, 1024),
		SoftFiles: lustre.Times(q.SoftInodes, 1), HardFiles: lustre.Times(q.HardInodes, 1),
	}
}

// SetLimits puts limits into q. Bytes are rounded up to KiB: a limit is not less than was asked for.
func (q *Quotactl) SetLimits(l lustre.Limits) {
	q.SoftKiB, q.HardKiB = kib(l.SoftBytes), kib(l.HardBytes)
	q.SoftInodes, q.HardInodes = uint64(max(l.SoftFiles, 0)), uint64(max(l.HardFiles, 0))
}

func kib(n int64) uint64 {
	whole := uint64(max(n, 0))
	return whole/1024 + min(whole%1024, 1)
}

// Used is what is held: bytes and files.
func (q *Quotactl) Used() (usedBytes, files int64) {
	return lustre.Times(q.UsedBytes, 1), lustre.Times(q.UsedInodes, 1)
}

// Until is when passed soft limits become hard ones; zero times while none is passed.
func (q *Quotactl) Until() (blocks, inodes time.Time) {
	return until(q.BlockTime), until(q.InodeTime)
}

func until(t uint64) time.Time {
	if t &= timeMask; t == 0 {
		return time.Time{}
	}
	return time.Unix(int64(t), 0)
}
