package state

import (
	"context"
	"iter"

	"google.golang.org/protobuf/proto"
)

// The bounds of a page.
const (
	pageUsual = 100
	pageMost  = 1000
	PageBytes = 256 << 10 // beyond the first row
)

// PageSize is how many rows a page has, where a caller asks for so many; 0 asks for the usual.
func PageSize(asked int32) int {
	if asked <= 0 {
		return pageUsual
	}
	return min(int(asked), pageMost)
}

// Page collects a page of the rows that are wanted, and the token of the next one.
func Page[M proto.Message](ctx context.Context, rows iter.Seq2[M, error], wanted func(M) bool, size int, token func(M) string) (found []M, next string, err error) {
	bytes := 0
	for m, err := range rows {
		switch {
		case err != nil:
			return nil, "", err
		case ctx.Err() != nil:
			return nil, "", ctx.Err()
		case !wanted(m):
		case len(found) == size, len(found) > 0 && bytes+proto.Size(m) > PageBytes:
			return found, token(found[len(found)-1]), nil
		default:
			bytes += proto.Size(m)
			found = append(found, m)
		}
	}
	return found, "", nil
}
