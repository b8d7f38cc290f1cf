package uapi

import (
	"bytes"

	"datamove.dev/lustre"
)

// Requests that name files by FID (lustre_user.h, lustre_ioctl.h).
const (
	IocPathToFID = 0x800866ad // LL_IOC_PATH2FID: of an open file
	IocFIDToPath = 0xc0086696 // OBD_IOC_FID2PATH: on any directory
	IocGetParent = 0xc01866f9 // LL_IOC_GETPARENT: of an open file
	IocMDTIndex  = 0x800466af // LL_IOC_GET_MDTIDX: the MDT of an open file
)

// FIDSize is sizeof(struct lu_fid).
const FIDSize = 16

// DecodeFID reads struct lu_fid from the beginning of b.
func DecodeFID(b []byte) (lustre.FID, error) {
	if len(b) < FIDSize {
		return lustre.FID{}, short("a FID", len(b), FIDSize)
	}
	return getFID(b), nil
}

// AppendFID adds struct lu_fid to b.
func AppendFID(b []byte, f lustre.FID) []byte {
	b = append(b, make([]byte, FIDSize)...)
	putFID(b[len(b)-FIDSize:], f)
	return b
}

// short is the error for a struct of which a part is missing.
func short(what string, got, want int) error {
	return malformed("%s of %d bytes: it has %d", what, got, want)
}

// MaxPath is how long a path is that is asked for: PATH_MAX of linux/limits.h.
const MaxPath = 4096

// fidToPathSize is sizeof(struct getinfo_fid2path), without the path.
const fidToPathSize = 32

// EncodeFIDToPath asks for the path of a file, relative to the mount: its link-th one,
// from 0, when it has hard links.
func EncodeFIDToPath(f lustre.FID, link uint32) []byte {
	b := AppendFID(make([]byte, 0, fidToPathSize+MaxPath), f)
	b = le.AppendUint64(b, 0) // gf_recno: as of now
	b = le.AppendUint32(b, link)
	b = le.AppendUint32(b, MaxPath)
	return b[:fidToPathSize+MaxPath]
}

// DecodeFIDToPath is the answer: the path, and the link to ask for next, which is the one
// that was asked for when there is no other.
func DecodeFIDToPath(b []byte) (path string, next uint32, err error) {
	if len(b) < fidToPathSize {
		return "", 0, short("a path of a FID", len(b), fidToPathSize)
	}
	text, err := terminated(b[fidToPathSize:])
	return text, le.Uint32(b[24:]), err
}

// getParentSize is sizeof(struct getparent), without the name.
const getParentSize = 24

// maxName is NAME_MAX and its end.
const maxName = 256

// EncodeGetParent asks for the link-th directory that an open file is in, from 0, and its
// name there. ENODATA is the end of them.
func EncodeGetParent(link uint32) []byte {
	b := make([]byte, getParentSize+maxName)
	le.PutUint32(b[16:], link)
	le.PutUint32(b[20:], maxName)
	return b
}

// DecodeGetParent is the answer.
func DecodeGetParent(b []byte) (Link, error) {
	if len(b) < getParentSize {
		return Link{}, short("a parent", len(b), getParentSize)
	}
	name, err := terminated(b[getParentSize:])
	return Link{Parent: getFID(b), Name: name}, err
}

// terminated is the text of b up to its NUL.
func terminated(b []byte) (string, error) {
	text, _, ended := bytes.Cut(b, []byte{0})
	if !ended {
		return "", malformed("a text that does not end within its %d bytes", len(b))
	}
	return string(text), nil
}
