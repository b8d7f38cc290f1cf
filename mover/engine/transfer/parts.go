package transfer

import (
	"cmp"
	"fmt"

	"datamove.dev/mover"
)

// maxParts bounds the parts of one file, and with them the receipts in memory.
// It is also the limit of S3 (docs.aws.amazon.com, "Amazon S3 multipart upload limits").
const maxParts = 10_000

// partBytes plans the size of the parts of a file of size bytes: the larger of
// what both places like, grown until their number is allowed, a multiple of the
// target's alignment, and of width, so that each part takes as much from every target of
// a striped file; 0 has no stripes.
func partBytes(size, width int64, source, target mover.Capabilities) (int64, error) {
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
	for _, a := range []int64{width, target.PartAlign} {
		if a > 1 {
			n = (n + a - 1) / a * a
		}
	}
	return n, nil
}

// planned says whether a file of size bytes may have parts of n: an earlier run may have
// planned with another layout in sight, and what it has done is worth more than that.
func planned(size, n int64, target mover.Capabilities) bool {
	fits := n > 0 && n >= target.PartMin && n%max(target.PartAlign, 1) == 0
	return fits && count(size, n) <= min(maxParts, cmp.Or(target.MaxParts, maxParts))
}

const (
	wideParts = 8         // parts of a file's width that it has to have: fewer would leave workers idle
	wideMost  = 512 << 20 // of a part, for the sake of a width
)

// width is what the parts of a file of size bytes should be a multiple of: what target
// asks for, and where it fits together the width of the source's stripes.
func width(size, target, source int64) int64 {
	fits := func(n int64) bool { return n > 0 && n <= wideMost && size/n >= wideParts }
	switch both := multiple(target, source); {
	case fits(both):
		return both
	case fits(target):
		return target
	case fits(source) && target <= 0:
		return source
	}
	return 0
}

// multiple is the least common one; 0 when one of them is not known, or it is too large.
func multiple(a, b int64) int64 {
	if a <= 0 || b <= 0 {
		return 0
	}
	gcd, rest := a, b
	for rest > 0 {
		gcd, rest = rest, gcd%rest
	}
	if a/gcd > wideMost/b {
		return 0
	}
	return a / gcd * b
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
