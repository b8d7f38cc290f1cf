package lustre

import (
	"fmt"
	"strconv"
	"strings"
)

// FID names a file on a Lustre, in every directory that it is in and on every client.
type FID struct {
	Seq uint64 // of the range of numbers that a client was given
	OID uint32 // in that range
	Ver uint32 // 0 today
}

// IsZero reports whether f names nothing.
func (f FID) IsZero() bool { return f == FID{} }

// String writes a FID as lfs does: [0x200000402:0x2:0x0].
func (f FID) String() string { return fmt.Sprintf("[%#x:%#x:%#x]", f.Seq, f.OID, f.Ver) }

// Name is the name of the file below the folder .lustre/fid of a mount: String
// without the brackets.
func (f FID) Name() string { return fmt.Sprintf("%#x:%#x:%#x", f.Seq, f.OID, f.Ver) }

// ParseFID is the inverse of String and of Name.
func ParseFID(s string) (FID, error) {
	text, open := strings.CutPrefix(s, "[")
	text, shut := strings.CutSuffix(text, "]")
	fields := strings.Split(text, ":")
	if open != shut || len(fields) != 3 {
		return FID{}, badFID(s)
	}
	var n [3]uint64
	for i, bits := range [3]int{64, 32, 32} {
		digits, hex := strings.CutPrefix(fields[i], "0x")
		v, err := strconv.ParseUint(digits, 16, bits)
		if !hex || err != nil {
			return FID{}, badFID(s)
		}
		n[i] = v
	}
	return FID{n[0], uint32(n[1]), uint32(n[2])}, nil
}

func badFID(s string) error {
	return fmt.Errorf("%q is no FID: it is written [0xSEQ:0xOID:0xVER], as lfs path2fid prints it", s)
}
