package transfer

import (
	"fmt"

	"datamove.dev/mover"
)

// maxParts bounds the parts of one file, and with them the receipts in memory.
// It is also the limit of S3 (docs.aws.amazon.com, "Amazon S3 multipart upload limits").
const maxParts = 10_000

// partBytes plans the size of the parts of a file of size bytes: the larger of
// what both places like, grown until their number is allowed, a multiple of the
// target's alignment.
func partBytes(size int64, source, target mover.Traits) (int64, error) {
	if target.MaxBytes > 0 && size > target.MaxBytes {
		return 0, fmt.Errorf("%w: %d bytes, and the target takes at most %d in one entry", mover.ErrUnsupported, size, target.MaxBytes)
	}
	limit := int64(maxParts)
	if target.MaxParts > 0 {
		limit = min(limit, int64(target.MaxParts))
	}
	n := max(source.PartBytes, target.PartBytes, target.PartMin, 1)
	if n*limit < size {
		n = (size + limit - 1) / limit
	}
	if a := target.PartAlign; a > 1 {
		n = (n + a - 1) / a * a
	}
	return n, nil
}

// cut returns part i of a file: all but the last have bytes bytes. A file of no
// bytes has one part of none.
func cut(size, bytes int64, i int) mover.Part {
	off := int64(i) * bytes
	return mover.Part{Index: i, Off: off, Length: min(bytes, size-off)}
}

// count returns how many parts a file has.
func count(size, bytes int64) int {
	if size == 0 {
		return 1
	}
	return int((size + bytes - 1) / bytes)
}
