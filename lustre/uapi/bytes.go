package uapi

import (
	"encoding/binary"
	"errors"
	"fmt"

	"datamove.dev/lustre"
)

// le is the order of all fields on the machines that this runs on; a Lustre swaps for others.
var le = binary.LittleEndian

// ErrMalformed is what every decoder answers to bytes that are not what they claim to be.
var ErrMalformed = errors.New("malformed")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

// text is the string in a field of fixed size, which ends at the first NUL.
func text(field []byte) string {
	for i, b := range field {
		if b == 0 {
			return string(field[:i])
		}
	}
	return string(field)
}

// putFID and getFID are struct lu_fid: sequence, object, version; 16 bytes.
func getFID(b []byte) lustre.FID {
	return lustre.FID{Seq: le.Uint64(b), OID: le.Uint32(b[8:]), Ver: le.Uint32(b[12:])}
}

func putFID(b []byte, f lustre.FID) {
	le.PutUint64(b, f.Seq)
	le.PutUint32(b[8:], f.OID)
	le.PutUint32(b[12:], f.Ver)
}
