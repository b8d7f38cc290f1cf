package uapi

import (
	"math"

	"datamove.dev/lustre"
)

// The magic numbers of directory stripes (LMV_*MAGIC* of lustre_user.h).
const (
	MagicStripes         = 0x0CD20CD0 // of a striped directory: LMV_MAGIC_V1
	MagicDefaultStripes  = 0x0CD30CD0 // a request, or the default for new directories: LMV_USER_MAGIC
	MagicSpecificStripes = 0x0CD40CD0 // a request with the MDTs to use
	MagicForeignStripes  = 0x0CD50CD0 // of a directory with entries that something else keeps; else as a foreign layout
)

// lmv_user_md_v1 and its lmv_user_mds_data: sizes in bytes.
const (
	SizeStriping = 48
	SizeShard    = 24
	offsetShards = SizeStriping
	shardMDT     = 20
	anyMDT       = math.MaxUint32 // lum_stripe_offset, and lum_stripe_count for all of them
	hashMask     = 0xFFFF         // of lum_hash_type: the hash; the rest are flags
)

// MaxShards is how many stripes of a directory are read (LMV_MAX_STRIPE_COUNT is 2000).
const MaxShards = 2000

// DecodeStriping reads what LL_IOC_LMV_GETSTRIPE answered: how a directory is striped, or
// how new ones in it will be. There may be more bytes than it needs.
func DecodeStriping(b []byte) (lustre.Striping, error) {
	if len(b) < SizeStriping {
		return lustre.Striping{}, malformed("a directory's stripes in %d bytes: their head has %d", len(b), SizeStriping)
	}
	magic, count, hash := le.Uint32(b), le.Uint32(b[4:]), le.Uint32(b[12:])
	if magic == MagicForeignStripes {
		f, err := decodeForeign(b)
		return lustre.Striping{Foreign: f}, err
	}
	s := lustre.Striping{
		Count:      int(int32(count)), // -1 is all of them
		FirstMDT:   int(int32(le.Uint32(b[8:]))),
		Hash:       lustre.Hash(hash & hashMask),
		HashFlags:  hash &^ hashMask,
		MaxInherit: int(b[20]),
		MaxRoundRR: int(b[21]),
		Pool:       text(b[32:48]),
	}
	switch {
	case magic != MagicStripes && magic != MagicDefaultStripes && magic != MagicSpecificStripes:
		return lustre.Striping{}, malformed("stripes of a directory with the magic number %#x", magic)
	case s.Count < lustre.AllTargets || s.Count > MaxShards || s.FirstMDT < lustre.AnyTarget:
		return lustre.Striping{}, malformed("a directory of %d stripes from MDT %d: there are up to %d", s.Count, s.FirstMDT, MaxShards)
	case len(s.Pool) > lustre.MaxPoolName:
		return lustre.Striping{}, malformed("the name of the pool %q has no end", s.Pool)
	case magic == MagicDefaultStripes:
		return s, nil
	case s.Count < 0 || len(b) < offsetShards+s.Count*SizeShard:
		return lustre.Striping{}, malformed("%d stripes of a directory in %d bytes", s.Count, len(b))
	}
	for i := range s.Count {
		shard := b[offsetShards+i*SizeShard:]
		s.Shards = append(s.Shards, lustre.Shard{FID: getFID(shard), MDT: int(le.Uint32(shard[shardMDT:]))})
	}
	return s, nil
}

// EncodeStriping writes a lmv_user_md with one of the magic numbers; of a foreign directory
// a lmv_foreign_md.
func EncodeStriping(s *lustre.Striping, magic uint32) ([]byte, error) {
	switch {
	case s.Foreign != nil:
		return encodeForeign(MagicForeignStripes, s.Foreign)
	case s.Count < lustre.AllTargets || s.Count > MaxShards || len(s.Shards) > MaxShards:
		return nil, errRange("a number of stripes", int64(s.Count))
	case s.FirstMDT < lustre.AnyTarget || s.FirstMDT > math.MaxInt32:
		return nil, errRange("a first MDT", int64(s.FirstMDT))
	case s.MaxInherit < 0 || s.MaxInherit > math.MaxUint8 || s.MaxRoundRR < 0 || s.MaxRoundRR > math.MaxUint8:
		return nil, errRange("a depth", int64(max(s.MaxInherit, s.MaxRoundRR)))
	case s.HashFlags&hashMask != 0:
		return nil, errRange("a set of hash flags", int64(s.HashFlags))
	}
	if err := lustre.ValidPool(s.Pool); err != nil && magic != MagicStripes {
		return nil, err
	}
	b := make([]byte, SizeStriping, SizeStriping+len(s.Shards)*SizeShard)
	le.PutUint32(b, magic)
	le.PutUint32(b[4:], uint32(s.Count))
	le.PutUint32(b[8:], uint32(s.FirstMDT))
	le.PutUint32(b[12:], uint32(s.Hash)|s.HashFlags)
	b[20], b[21] = byte(s.MaxInherit), byte(s.MaxRoundRR)
	copy(b[32:48], s.Pool)
	for _, shard := range s.Shards {
		var object [SizeShard]byte
		putFID(object[:], shard.FID)
		le.PutUint32(object[shardMDT:], uint32(shard.MDT))
		b = append(b, object[:]...)
	}
	return b, nil
}

// rawType is lum_type of a question for the directory's own default: else the answer of one
// that has none is what it would inherit (LMV_TYPE_RAW, of 2.14).
const rawType = 1

// AskStriping is the argument of LL_IOC_LMV_GETSTRIPE: with room for so many shards of a
// striped directory, or, with the other magic number, for its own default.
func AskStriping(magic uint32, room int) []byte {
	b := make([]byte, SizeStriping+room*SizeShard)
	le.PutUint32(b, magic)
	le.PutUint32(b[4:], uint32(room))
	if magic == MagicDefaultStripes {
		le.PutUint32(b[16:], rawType)
	}
	return b
}

// NeededShards is the count that a kernel answered beside E2BIG, when there was too
// little room.
func NeededShards(b []byte) int {
	if len(b) < SizeStriping {
		return 0
	}
	return int(min(le.Uint32(b[4:]), MaxShards))
}
