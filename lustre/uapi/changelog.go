package uapi

import (
	"bytes"
	"math"
	"strings"
	"time"

	"datamove.dev/lustre"
)

// IocChangeFlags is OBD_IOC_CHLG_SET_FLAGS, on a change log's device, before it is read or
// polled for the first time. The argument is ChangeBigNID.
const (
	IocChangeFlags = 0x800866e9
	ChangeBigNID   = 0x10 // CHANGELOG_FLAG_NID_BE: addresses of clients may be of IPv6
)

// The parts of struct changelog_rec and its extensions, in the order in which they follow
// each other; then comes the name.
const (
	changeSize    = 64
	renameSize    = 32  // CLF_RENAME: which file, and from where
	jobSize       = 32  // CLF_JOBID
	extraSize     = 8   // CLF_EXTRA_FLAGS: which of the following there are
	ownerSize     = 16  // CLFE_UIDGID
	nidSize       = 24  // CLFE_NID
	openModeSize  = 4   // CLFE_OPEN
	xattrNameSize = 256 // CLFE_XATTR
)

// MaxChange is how large a record can be: the length of a name is 16 bits. A device that
// is read with less room than its next record needs answers as if it were at its end.
const MaxChange = changeSize + renameSize + jobSize + extraSize + ownerSize + nidSize + openModeSize + xattrNameSize + math.MaxUint16

// The bits of cr_flags, beside those with a meaning for one type.
const (
	changeVersion = 0x1000 // CLF_VERSION
	changeRename  = 0x2000
	changeJob     = 0x4000
	changeExtra   = 0x8000
	changeOwnBits = 0x0fff // CLF_FLAGMASK
)

// The bits of cr_extra_flags.
const (
	extraOwner  = 0x1
	extraNID    = 0x2
	extraOpen   = 0x4
	extraXattr  = 0x8
	extraBigNID = 0x10
	extraKnown  = 0x1f
)

// DecodeChange reads the record at the beginning of b, and says how many bytes it has.
func DecodeChange(b []byte) (c lustre.Change, size int, err error) {
	if len(b) < changeSize {
		return c, 0, short("a change", len(b), changeSize)
	}
	flags, kind := le.Uint16(b[2:]), le.Uint32(b[4:])
	if kind > math.MaxUint8 {
		return c, 0, malformed("a change of type %d", kind)
	}
	stamp := le.Uint64(b[24:]) // seconds << 30 | nanoseconds
	if nanoseconds := stamp & (1<<30 - 1); nanoseconds >= 1e9 {
		return c, 0, malformed("a change at %d nanoseconds of a second", nanoseconds)
	}
	c = lustre.Change{
		Index: le.Uint64(b[8:]), Time: time.Unix(int64(stamp>>30), int64(stamp&(1<<30-1))).UTC(),
		Type: lustre.ChangeType(kind), Flags: flags & changeOwnBits,
		File: getFID(b[32:]), Parent: getFID(b[48:]),
	}
	if c.Type == lustre.ChangeMark {
		c.File, c.Marker = lustre.FID{}, le.Uint32(b[32:])
	}
	rest := reader{b: b[changeSize:]}
	rest.extensions(&c, flags)
	rest.name(&c, int(le.Uint16(b)), flags&changeRename != 0)
	return c, len(b) - len(rest.b), rest.err
}

// reader takes one part of a record after the other. After the first that is missing, or
// wrong, it gives none.
type reader struct {
	b   []byte
	err error
}

func (r *reader) take(n int) []byte {
	if r.err == nil && len(r.b) < n {
		r.err = malformed("a change that is cut: of %d bytes, %d are there", n, len(r.b))
	}
	if r.err != nil {
		return nil
	}
	part := r.b[:n]
	r.b = r.b[n:]
	return part
}

func (r *reader) extensions(c *lustre.Change, flags uint16) {
	if flags&changeRename != 0 {
		if p := r.take(renameSize); p != nil {
			c.OldFile, c.OldParent = getFID(p), getFID(p[FIDSize:])
		}
	}
	if flags&changeJob != 0 {
		c.Job, c.Known = text(r.take(jobSize)), c.Known|lustre.KnowsJob
	}
	if flags&changeExtra != 0 {
		if p := r.take(extraSize); p != nil {
			r.extras(c, le.Uint64(p))
		}
	}
}

func (r *reader) extras(c *lustre.Change, extra uint64) {
	if extra&^extraKnown != 0 {
		// Where its name begins can not be known, nor where the next record does.
		r.err = malformed("a change with the extensions %#x: %#x are known here, this Lustre is younger", extra, extraKnown)
		return
	}
	if extra&extraOwner != 0 {
		if p := r.take(ownerSize); p != nil {
			r.owner(c, le.Uint64(p), le.Uint64(p[8:]))
		}
	}
	if extra&extraNID != 0 {
		if p := r.take(nidSize); p != nil {
			c.Client, c.Known = nidText(p, extra&extraBigNID != 0), c.Known|lustre.KnowsClient
		}
	}
	if extra&extraOpen != 0 {
		if p := r.take(openModeSize); p != nil {
			c.OpenMode, c.Known = le.Uint32(p), c.Known|lustre.KnowsOpenMode
		}
	}
	if extra&extraXattr != 0 {
		c.Xattr, c.Known = text(r.take(xattrNameSize)), c.Known|lustre.KnowsXattr
	}
}

func (r *reader) owner(c *lustre.Change, uid, gid uint64) {
	if uid > math.MaxUint32 || gid > math.MaxUint32 {
		r.err = malformed("a change by the user %d of group %d", uid, gid)
		return
	}
	c.UID, c.GID, c.Known = uint32(uid), uint32(gid), c.Known|lustre.KnowsOwner
}

// name reads the name, which of a rename is two: new, NUL, old.
func (r *reader) name(c *lustre.Change, size int, rename bool) {
	b := r.take(size)
	if rename {
		fresh, old, _ := bytes.Cut(b, []byte{0})
		b, c.OldName = fresh, r.oneName(old)
	}
	c.Name = r.oneName(b)
}

// oneName refuses what is no name in a directory: it will be joined to a path.
func (r *reader) oneName(b []byte) string {
	name := string(b)
	if r.err == nil && (strings.ContainsAny(name, "/\x00") || name == "." || name == "..") {
		r.err = malformed("a change of the name %q", name)
	}
	return name
}

// AppendChange adds a record to b, as a device gives it; bigNID is with ChangeBigNID.
func AppendChange(b []byte, c lustre.Change, bigNID bool) []byte {
	name, flags := c.Name, c.Flags&changeOwnBits|changeVersion
	if rename := c.OldFile != (lustre.FID{}) || c.OldParent != (lustre.FID{}) || c.OldName != ""; rename {
		flags |= changeRename
		if c.OldName != "" {
			name += "\x00" + c.OldName
		}
	}
	if c.Known&lustre.KnowsJob != 0 {
		flags |= changeJob
	}
	extra := extrasOf(c.Known, bigNID)
	if extra != 0 {
		flags |= changeExtra
	}
	b = le.AppendUint16(b, uint16(len(name)))
	b = le.AppendUint16(b, flags)
	b = le.AppendUint32(b, uint32(c.Type))
	b = le.AppendUint64(b, c.Index)
	b = le.AppendUint64(b, 0) // cr_prev: no server sets it
	b = le.AppendUint64(b, uint64(c.Time.Unix())<<30|uint64(c.Time.Nanosecond()))
	if c.Type == lustre.ChangeMark {
		c.File = lustre.FID{Seq: uint64(c.Marker)}
	}
	b = AppendFID(AppendFID(b, c.File), c.Parent)
	if flags&changeRename != 0 {
		b = AppendFID(AppendFID(b, c.OldFile), c.OldParent)
	}
	if flags&changeJob != 0 {
		b = appendText(b, c.Job, jobSize)
	}
	return append(appendExtras(b, c, extra), name...)
}

func extrasOf(known lustre.ChangeFacts, bigNID bool) (extra uint64) {
	for fact, bit := range map[lustre.ChangeFacts]uint64{
		lustre.KnowsOwner: extraOwner, lustre.KnowsClient: extraNID, lustre.KnowsOpenMode: extraOpen, lustre.KnowsXattr: extraXattr,
	} {
		if known&fact != 0 {
			extra |= bit
		}
	}
	if bigNID && extra&extraNID != 0 {
		extra |= extraBigNID
	}
	return extra
}

func appendExtras(b []byte, c lustre.Change, extra uint64) []byte {
	if extra == 0 {
		return b
	}
	b = le.AppendUint64(b, extra)
	if extra&extraOwner != 0 {
		b = le.AppendUint64(le.AppendUint64(b, uint64(c.UID)), uint64(c.GID))
	}
	if extra&extraNID != 0 {
		b = append(b, nidBytes(c.Client, extra&extraBigNID != 0)...)
	}
	if extra&extraOpen != 0 {
		b = le.AppendUint32(b, c.OpenMode)
	}
	if extra&extraXattr != 0 {
		b = appendText(b, c.Xattr, xattrNameSize)
	}
	return b
}

// appendText adds a field of fixed size.
func appendText(b []byte, s string, size int) []byte {
	field := make([]byte, size)
	copy(field, s)
	return append(b, field...)
}
