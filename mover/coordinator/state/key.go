package state

import (
	"encoding/base64"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"datamove.dev/mover"
)

// keyBytes bounds an encoded key: a path of 4 KiB and some ids fit.
const keyBytes = 8 << 10

// Every key of the store begins with one of these.
const (
	keyStore = 's' // what the store says of itself: see store.go
	keyRow   = 'r' // table, key -> message
	keyIndex = 'i' // table, index, its key, key of the row -> nothing
)

// appendKey encodes parts so that keys sort as their parts do, one after the other,
// and the first parts of a key are a prefix of it. A part ends with 0 1; a 0 in it is 0 255.
func appendKey(b []byte, parts ...string) []byte {
	for _, part := range parts {
		for i := range len(part) {
			b = append(b, part[i])
			if part[i] == 0 {
				b = append(b, 255)
			}
		}
		b = append(b, 0, 1)
	}
	return b
}

// after returns what follows the first n parts of an encoded key.
func after(b []byte, n int) []byte {
	for i := 0; n > 0 && i < len(b)-1; i++ {
		if b[i] != 0 {
			continue
		}
		if b[i+1] == 1 {
			n--
		}
		i++
		if n == 0 {
			return b[i+1:]
		}
	}
	return b
}

// checkKey refuses what names no row.
func checkKey(table string, parts []string, encoded []byte) error {
	if len(parts) == 0 || parts[0] == "" {
		return fmt.Errorf("%w: a row of %s without a name", mover.ErrUsage, table)
	}
	if len(encoded) > keyBytes {
		return fmt.Errorf("%w: a row of %s with a name of %d bytes, where %d is the most", mover.ErrUsage, table, len(encoded), keyBytes)
	}
	return nil
}

// Number is a part of a key that sorts as n does.
func Number(n uint64) string { return fmt.Sprintf("%016x", n) }

// Time is a part of a key that sorts as t does; no time is the first.
func Time(t *timestamppb.Timestamp) string {
	if t == nil {
		return Number(0)
	}
	return Number(uint64(max(t.AsTime().UnixNano(), 0)))
}

// Day is a part of a key: the day of t in UTC.
func Day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// A token says where a page ended. It is the last key, for the same list only.
func token(key []byte) string { return base64.RawURLEncoding.EncodeToString(key) }

// parseToken is the inverse of token, for what a stranger gives us.
func parseToken(s string, prefix []byte) ([]byte, error) {
	if len(s) > 2*base64.RawURLEncoding.EncodedLen(keyBytes) {
		return nil, fmt.Errorf("%w: a page token of %d bytes", mover.ErrUsage, len(s))
	}
	key, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(key) <= len(prefix) || !slices.Equal(key[:len(prefix)], prefix) {
		return nil, fmt.Errorf("%w: %q is no page token of this list", mover.ErrUsage, mover.Printable(s))
	}
	return key, nil
}
