package manifest

import (
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"unicode/utf8"

	"datamove.dev/mover"
)

// appendEntry appends the line of e, without its newline. link is the first name of
// e's group of hard links, or "". The canonical form leaves out what differs between
// equal copies.
func appendEntry(b []byte, e *mover.Entry, link string, canonical bool) []byte {
	b = append(b, '{')
	b = appendText(b, "name", e.Name)
	b = append(b, `,"kind":"`...)
	b = append(b, e.Kind.String()...)
	b = append(b, '"')
	if e.Kind == mover.File {
		b = append(b, `,"size":`...)
		b = strconv.AppendInt(b, e.Size, 10)
	}
	b = appendFacts(b, e, canonical)
	if e.Kind == mover.CharDevice || e.Kind == mover.BlockDevice {
		b = append(b, `,"rdev":`...)
		b = strconv.AppendUint(b, e.Rdev, 10)
	}
	if e.Kind == mover.Symlink {
		b = appendText(append(b, ','), "target", e.Target)
	}
	if e.Kind == mover.File && e.Known.Has(mover.FactCRC) {
		b = append(b, `,"crc64nvme":"`...)
		var sum [8]byte
		for i := range sum {
			sum[i] = byte(e.CRC >> (56 - 8*i))
		}
		b = append(hex.AppendEncode(b, sum[:]), '"')
	}
	if !canonical {
		b = appendIdentity(b, e)
	}
	if link != "" {
		b = appendText(append(b, ','), "link", link)
	}
	if !canonical && linked(e) {
		b = append(b, `,"links":`...)
		b = strconv.AppendUint(b, uint64(e.Nlink), 10)
	}
	if all := e.AllXattrs(); e.Known.Has(mover.FactXattrs) || len(all) > 0 {
		b = appendXattrs(b, all)
	}
	if !canonical && e.Kind == mover.File && e.Known.Has(mover.FactHoles) {
		b = appendSegments(b, e.Data)
	}
	return append(b, '}')
}

// linked reports whether e has other names.
func linked(e *mover.Entry) bool {
	return e.Kind != mover.Dir && e.Nlink > 1 && e.Known.Has(mover.FactLinks)
}

func appendFacts(b []byte, e *mover.Entry, canonical bool) []byte {
	if e.Known.Has(mover.FactMode) {
		b = append(b, `,"mode":"`...)
		for shift := 9; shift >= 0; shift -= 3 {
			b = append(b, '0'+byte(e.Mode>>shift&7))
		}
		b = append(b, '"')
	}
	if e.Known.Has(mover.FactOwner) {
		b = append(b, `,"uid":`...)
		b = strconv.AppendUint(b, uint64(e.UID), 10)
	}
	if e.Known.Has(mover.FactGroup) {
		b = append(b, `,"gid":`...)
		b = strconv.AppendUint(b, uint64(e.GID), 10)
	}
	if e.Known.Has(mover.FactMtime) {
		b = appendTime(b, `,"mtime":"`, e.Mtime)
	}
	if !canonical && e.Known.Has(mover.FactAtime) {
		b = appendTime(b, `,"atime":"`, e.Atime)
	}
	if !canonical && e.Known.Has(mover.FactCtime) {
		b = appendTime(b, `,"ctime":"`, e.Ctime)
	}
	return b
}

func appendIdentity(b []byte, e *mover.Entry) []byte {
	if e.ETag != "" {
		b = appendString(append(b, `,"etag":`...), e.ETag)
	}
	if e.Version != "" {
		b = appendString(append(b, `,"versionid":`...), e.Version)
	}
	return b
}

const second = 1_000_000_000 // nanoseconds

// appendTime writes a time as a decimal number of seconds. A time before 1970 has
// seconds that are rounded down and nanoseconds that are added to them; the number
// is what both amount to.
func appendTime(b []byte, key string, t mover.Time) []byte {
	b = append(b, key...)
	sec, nsec := t.Sec, int64(t.Nsec)
	if sec < 0 && nsec > 0 {
		sec, nsec = sec+1, second-nsec
		if sec == 0 {
			b = append(b, '-')
		}
	}
	b = strconv.AppendInt(b, sec, 10)
	b = append(b, '.')
	for unit := int64(second / 10); unit > 0; unit /= 10 {
		b = append(b, '0'+byte(nsec/unit%10))
	}
	return append(b, '"')
}

func appendXattrs(b []byte, all []mover.Xattr) []byte {
	b = append(b, `,"xattrs":[`...)
	for i := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(append(b, '{'), "name", all[i].Name)
		b = append(b, `,"value":"`...)
		b = base64.StdEncoding.AppendEncode(b, all[i].Value)
		b = append(b, `"}`...)
	}
	return append(b, ']')
}

func appendSegments(b []byte, data []mover.Segment) []byte {
	b = append(b, `,"data":[`...)
	for i, s := range data {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(b, '['), s.Start, 10)
		b = strconv.AppendInt(append(b, ','), s.End, 10)
		b = append(b, ']')
	}
	return append(b, ']')
}

// appendText writes a field of bytes: as text where they are UTF-8, and otherwise in
// base64 with "64" behind the key.
func appendText(b []byte, key, value string) []byte {
	b = append(b, '"')
	b = append(b, key...)
	if utf8.ValidString(value) {
		return appendString(append(b, `":`...), value)
	}
	b = append(b, `64":"`...)
	b = base64.StdEncoding.AppendEncode(b, []byte(value))
	return append(b, '"')
}

// appendString writes a JSON string (RFC 8259), with no more escapes than it needs.
func appendString(b []byte, s string) []byte {
	const digits = "0123456789abcdef"
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[start:i]...)
		start = i + 1
		if c < ' ' {
			b = append(b, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		} else {
			b = append(b, '\\', c)
		}
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}
