package uapi

import (
	"encoding/binary"

	"datamove.dev/lustre"
)

// obd_ioctl_data is how some requests carry several buffers: inline ones follow the
// struct, each rounded up to 8 bytes, and two are given by address (lustre_ioctl.h).
const (
	sizeOBD    = 576
	maxOBD     = 8192 // OBD_MAX_IOCTL_BUFFER
	versionOBD = 0x00010004
	flagsOBD   = 24 + 96 // obdo1.o_flags
	typeOBD    = 476
	// Where the addresses are that the kernel fills the buffers of.
	OffsetBuffer1 = 488
	OffsetBuffer2 = 504
)

// inlineOBD is where the lengths of the inline buffers are (ioc_inllen1 to 4). Eight bytes
// on is room for an address: the kernel puts its own there, but says of none that the
// buffer is missing, so that something has to be there.
var inlineOBD = [4]int{512, 528, 544, 560}

const someAddress = 1

// ForCreate is obdo1.o_flags of a request to make a directory: fail when it is there
// (OBD_FL_OBDMDEXISTS).
const ForCreate = 2

// OBDRequest is what an obd_ioctl_data says.
type OBDRequest struct {
	Flags  uint32   // obdo1.o_flags
	Type   uint32   // ioc_type
	Inline [][]byte // up to four
	// Lengths of the buffers that the addresses at OffsetBuffer1 and 2 will point to.
	Length1, Length2 uint32
}

// Encode writes the struct with its inline buffers.
func (r *OBDRequest) Encode() ([]byte, error) {
	b := make([]byte, sizeOBD)
	if len(r.Inline) > len(inlineOBD) {
		return nil, errRange("a number of buffers", int64(len(r.Inline)))
	}
	for i, data := range r.Inline {
		if len(data) == 0 {
			continue
		}
		le.PutUint32(b[inlineOBD[i]:], uint32(len(data)))
		le.PutUint64(b[inlineOBD[i]+8:], someAddress)
		b = append(b, data...)
		b = append(b, make([]byte, -len(b)&7)...)
		if len(b) > maxOBD {
			return nil, errRange("a request", int64(len(b)))
		}
	}
	le.PutUint32(b, uint32(len(b)))
	le.PutUint32(b[4:], versionOBD)
	le.PutUint32(b[flagsOBD:], r.Flags)
	le.PutUint32(b[typeOBD:], r.Type)
	le.PutUint32(b[OffsetBuffer1-8:], r.Length1)
	le.PutUint32(b[OffsetBuffer2-8:], r.Length2)
	return b, nil
}

// DecodeOBD is the inverse of Encode: what a Lustre reads.
func DecodeOBD(b []byte) (OBDRequest, error) {
	if len(b) < sizeOBD || le.Uint32(b[4:]) != versionOBD {
		return OBDRequest{}, malformed("an obd_ioctl_data of %d bytes: it has %d at least, and version %#x", len(b), sizeOBD, versionOBD)
	}
	size := uint64(le.Uint32(b))
	if size < sizeOBD || size > maxOBD || size > uint64(len(b)) {
		return OBDRequest{}, malformed("an obd_ioctl_data of %d bytes says that it has %d", len(b), size)
	}
	r := OBDRequest{Flags: le.Uint32(b[flagsOBD:]), Type: le.Uint32(b[typeOBD:]), Length1: le.Uint32(b[OffsetBuffer1-8:]), Length2: le.Uint32(b[OffsetBuffer2-8:])}
	at := uint64(sizeOBD)
	for _, o := range inlineOBD {
		length := uint64(le.Uint32(b[o:]))
		if there := le.Uint64(b[o+8:]) != 0; there != (length > 0) {
			return OBDRequest{}, malformed("a buffer of %d bytes, with an address: %v", length, there)
		}
		if at+length > size {
			return OBDRequest{}, malformed("a buffer of %d bytes at %d of %d", length, at, size)
		}
		if length > 0 {
			r.Inline = append(r.Inline, b[at:at+length])
		}
		at += (length + 7) &^ 7
	}
	return r, nil
}

// IOC_OBD_STATFS: the type of target that is asked for, and the size of what is answered.
const (
	StatfsMDT  = 1 // LL_STATFS_LMV
	StatfsOST  = 2 // LL_STATFS_LOV
	StatfsSoon = 4 // LL_STATFS_NODELAY: do not wait for a server that does not answer
	SizeStatfs = 144
	SizeUUID   = 40
)

// StatfsRequest asks how full one target is. The answer and its name go to the two buffers.
func StatfsRequest(kind, index uint32) *OBDRequest {
	k, i := make([]byte, 4), make([]byte, 4)
	le.PutUint32(k, kind)
	le.PutUint32(i, index)
	return &OBDRequest{Inline: [][]byte{k, i}, Length1: SizeStatfs, Length2: SizeUUID}
}

// Statfs is an obd_statfs. Its fields are those of the struct, in their order.
type Statfs struct {
	Type                       uint64 // of the storage: 0xEF53 is ldiskfs
	Blocks, Free, Available    uint64 // Available is what an ordinary user can use
	Files, FreeFiles           uint64
	FSID                       [40]byte
	BlockBytes, NameLength     uint32
	MaxBytes                   uint64 // of an object
	State, Precreated, Granted uint32
	Rest                       [28]byte
}

// DecodeStatfs reads an obd_statfs.
func DecodeStatfs(b []byte) (s Statfs, err error) {
	if len(b) < SizeStatfs {
		return s, short("an obd_statfs", len(b), SizeStatfs)
	}
	_, err = binary.Decode(b, le, &s)
	return s, err
}

// Encode is the inverse of DecodeStatfs.
func (s *Statfs) Encode() ([]byte, error) { return binary.Append(nil, le, s) }

// Target is the target that s and the obd_uuid beside it are of.
func (s *Statfs) Target(uuid []byte) lustre.Target {
	block := uint64(s.BlockBytes)
	return lustre.Target{
		Name:       text(uuid),
		TotalBytes: lustre.Times(s.Blocks, block), FreeBytes: lustre.Times(s.Available, block),
		TotalFiles: lustre.Times(s.Files, 1), FreeFiles: lustre.Times(s.FreeFiles, 1),
		State: lustre.TargetState(s.State),
	}
}
