package s3

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"datamove.dev/mover"
)

// The user metadata of an object, without the prefix x-amz-meta-. This is the
// convention of AWS FSx for Lustre, DataSync and File Gateway; see "POSIX metadata
// support for data repositories" in the FSx for Lustre user guide.
const (
	metaMode  = "file-permissions" // octal st_mode, the type included
	metaOwner = "file-owner"       // decimal uid
	metaGroup = "file-group"       // decimal gid
	metaAtime = "file-atime"       // decimal nanoseconds since 1970, with the suffix "ns"
	metaMtime = "file-mtime"
	// metaRclone is how rclone keeps the modification time: seconds since 1970,
	// with a fraction. Read when metaMtime is missing.
	metaRclone = "mtime"
	// Attributes of ours, which no convention has a word for; percent-encoded.
	metaPath = "datamove-path"
	metaCRC  = "datamove-crc64nvme"
)

// ownMeta has the attributes that travel as metadata, sorted.
var ownMeta = [...]struct{ xattr, meta string }{{mover.XattrCRC, metaCRC}, {mover.XattrPath, metaPath}}

// ownMost is how long the value of one of them may be, encoded: all metadata together have
// 2 KB (docs.aws.amazon.com, "Working with object metadata"). A longer path is left out.
const ownMost = 1024

// The type bits of st_mode, as in inode(7).
const (
	typeMask    = 0o170000
	typeFile    = 0o100000
	typeDir     = 0o040000
	typeSymlink = 0o120000
)

// modeKept are the permission bits that travel. setuid and setgid do not: a
// bucket that others can write must not be able to make a program run as root.
const modeKept = 0o1777

// targetBytes is the longest target of a symlink (PATH_MAX without its NUL).
const targetBytes = 4095

// keeps are the facts that an object carries by itself.
const keeps = mover.FactMode | mover.FactOwner | mover.FactGroup | mover.FactMtime | mover.FactAtime | mover.FactCRC | mover.FactsOfObject

// encodeMeta returns the metadata for the facts of e that are known.
func encodeMeta(e *mover.Entry) map[string]string {
	m := make(map[string]string, 5)
	switch {
	case e.Known.Has(mover.FactMode):
		m[metaMode] = "0" + strconv.FormatUint(uint64(typeBits(e.Kind)|e.Mode&modeKept), 8)
	case e.Kind == mover.Symlink: // without it, a reader takes it for a file
		m[metaMode] = "0" + strconv.FormatUint(typeSymlink|0o777, 8)
	}
	if e.Known.Has(mover.FactOwner) {
		m[metaOwner] = strconv.FormatUint(uint64(e.UID), 10)
	}
	if e.Known.Has(mover.FactGroup) {
		m[metaGroup] = strconv.FormatUint(uint64(e.GID), 10)
	}
	if e.Known.Has(mover.FactMtime) {
		m[metaMtime] = encodeTime(e.Mtime)
	}
	if e.Known.Has(mover.FactAtime) {
		m[metaAtime] = encodeTime(e.Atime)
	}
	encodeOwn(m, e)
	return m
}

// encodeOwn adds the attributes of ours.
func encodeOwn(m map[string]string, e *mover.Entry) {
	if !e.Known.Has(mover.FactXattrs) {
		return
	}
	for _, own := range ownMeta {
		for _, x := range e.Xattrs {
			if text := url.PathEscape(string(x.Value)); x.Name == own.xattr && len(text) <= ownMost {
				m[own.meta] = text
			}
		}
	}
}

// decodeOwn reads them back. That the entry has no other attributes is not said by it.
func decodeOwn(e *mover.Entry, get func(name string) string) {
	for _, own := range ownMeta {
		if value, err := url.PathUnescape(get(own.meta)); err == nil && value != "" && len(value) <= ownMost {
			e.Xattrs = append(e.Xattrs, mover.Xattr{Name: own.xattr, Value: []byte(value)})
		}
	}
}

func typeBits(k mover.Kind) uint32 {
	switch k {
	case mover.Dir:
		return typeDir
	case mover.Symlink:
		return typeSymlink
	}
	return typeFile
}

// decodeMeta adds to e what the metadata says. It is hostile input: what does not
// parse is not known. It reports whether the object says that it is a symlink;
// whether it is one depends on its content too.
func decodeMeta(e *mover.Entry, get func(name string) string) (symlink bool) {
	if mode, err := strconv.ParseUint(get(metaMode), 8, 32); err == nil && get(metaMode) != "" {
		e.Mode = uint32(mode) & modeKept
		e.Known |= mover.FactMode
		symlink = mode&typeMask == typeSymlink
	}
	if uid, err := strconv.ParseUint(get(metaOwner), 10, 32); err == nil {
		e.UID = uint32(uid)
		e.Known |= mover.FactOwner
	}
	if gid, err := strconv.ParseUint(get(metaGroup), 10, 32); err == nil {
		e.GID = uint32(gid)
		e.Known |= mover.FactGroup
	}
	if t, ok := decodeTime(get(metaMtime)); ok {
		e.Mtime = t
		e.Known |= mover.FactMtime
	} else if t, ok := decodeFraction(get(metaRclone)); ok {
		e.Mtime = t
		e.Known |= mover.FactMtime
	}
	if t, ok := decodeTime(get(metaAtime)); ok {
		e.Atime = t
		e.Known |= mover.FactAtime
	}
	decodeOwn(e, get)
	return symlink
}

const second = 1_000_000_000 // nanoseconds

// encodeTime writes a time in nanoseconds, also where that is more than 64 bits.
func encodeTime(t mover.Time) string {
	sec, nsec, sign := t.Sec, int64(t.Nsec), ""
	if sec < 0 {
		sign, sec = "-", -sec
		if nsec > 0 {
			sec, nsec = sec-1, second-nsec
		}
	}
	if sec == 0 {
		return sign + strconv.FormatInt(nsec, 10) + "ns"
	}
	return fmt.Sprintf("%s%d%09dns", sign, sec, nsec)
}

func decodeTime(s string) (mover.Time, bool) {
	digits, ok := strings.CutSuffix(s, "ns")
	if !ok {
		return mover.Time{}, false
	}
	digits, negative := strings.CutPrefix(digits, "-")
	sec, nsec := "0", digits
	if len(digits) > 9 {
		sec, nsec = digits[:len(digits)-9], digits[len(digits)-9:]
	}
	return composeTime(negative, sec, nsec)
}

func decodeFraction(s string) (mover.Time, bool) {
	s, negative := strings.CutPrefix(s, "-")
	sec, fraction, _ := strings.Cut(s, ".")
	if len(fraction) > 9 {
		fraction = fraction[:9]
	}
	return composeTime(negative, sec, fraction+strings.Repeat("0", 9-len(fraction)))
}

// composeTime builds a time from the digits of its amount.
func composeTime(negative bool, secDigits, nsecDigits string) (mover.Time, bool) {
	sec, err1 := strconv.ParseUint(secDigits, 10, 62)
	nsec, err2 := strconv.ParseUint(nsecDigits, 10, 30)
	if err1 != nil || err2 != nil || nsec >= second {
		return mover.Time{}, false
	}
	t := mover.Time{Sec: int64(sec), Nsec: int32(nsec)}
	if negative {
		t.Sec = -t.Sec
		if t.Nsec > 0 {
			t.Sec, t.Nsec = t.Sec-1, second-t.Nsec
		}
	}
	return t, true
}
