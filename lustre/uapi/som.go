package uapi

import (
	"math"
)

// LazySizeName is the attribute in which an MDT keeps the size of a file, so that clients need
// not ask the OSTs (struct lustre_som_attrs). Only root can read it.
const LazySizeName = "trusted.som"

const lazySizeSize = 24

// How far a LazySize can be believed (SOM_FL_*).
const (
	SizeStrict = 1 // it is right
	SizeStale  = 2 // it was right once
	SizeLazy   = 4 // it was right when the file was last closed
)

// LazySize is how large a file is, as its MDT believes.
type LazySize struct {
	Valid  uint16 // SizeStrict, SizeStale, SizeLazy
	Bytes  int64
	Blocks int64 // of 512 bytes
}

// DecodeLazySize reads struct lustre_som_attrs.
func DecodeLazySize(b []byte) (LazySize, error) {
	if len(b) < lazySizeSize {
		return LazySize{}, short("a lazy size", len(b), lazySizeSize)
	}
	bytes, blocks := le.Uint64(b[8:]), le.Uint64(b[16:])
	if bytes > math.MaxInt64 || blocks > math.MaxInt64 {
		return LazySize{}, malformed("a lazy size of %d bytes in %d blocks: no file is that large", bytes, blocks)
	}
	return LazySize{Valid: le.Uint16(b), Bytes: int64(bytes), Blocks: int64(blocks)}, nil
}

// EncodeLazySize writes struct lustre_som_attrs.
func EncodeLazySize(s LazySize) []byte {
	b := make([]byte, lazySizeSize)
	le.PutUint16(b, s.Valid)
	le.PutUint64(b[8:], uint64(s.Bytes))
	le.PutUint64(b[16:], uint64(s.Blocks))
	return b
}
