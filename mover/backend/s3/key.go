package s3

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"datamove.dev/mover"
)

// KeyBytes is the longest key that S3 takes, in bytes of UTF-8.
const KeyBytes = 1024

// own is the segment under which we keep what is ours below a prefix: the lock,
// the manifest, the probes. It is hidden from walks at every depth, because a tree
// may lie below the prefix of another one, and such a name of the user is escaped.
const own = ".datamove"

// isOwn reports whether a key, relative to a prefix, is of what is ours.
func isOwn(rel string) bool {
	for seg := range strings.SplitSeq(rel, "/") {
		if seg == own {
			return true
		}
	}
	return false
}

// EncodeKey returns the key, relative to the prefix of the place, for a name.
//
// A segment is kept as it is unless it has bytes that S3 or its servers treat
// badly (control bytes, invalid UTF-8, U+FFFD, which some servers list in place
// of what they can not show) or could be mistaken for one that had. Then
// those bytes, and '%' before two hexadecimal digits, are written %XX. So "a%3A"
// stays as it is, as other tools write it, and "a%01" becomes "a%2501". The
// segment ".datamove" becomes "%2Edatamove".
func EncodeKey(name string) (string, error) {
	if !mover.ValidName(name) {
		return "", fmt.Errorf("%q is not a name below a root: %w", name, mover.ErrUsage)
	}
	if plain(name) && !isOwn(name) {
		return name, nil
	}
	segs := strings.Split(name, "/")
	for i, seg := range segs {
		segs[i] = encodeSegment(seg)
	}
	return strings.Join(segs, "/"), nil
}

// DecodeKey is the inverse of EncodeKey. A key that EncodeKey gives for no name
// is refused: two keys for one name would be two files in one place.
func DecodeKey(key string) (string, error) {
	name := key
	if !plain(key) {
		segs := strings.Split(key, "/")
		for i, seg := range segs {
			segs[i] = decodeSegment(seg)
		}
		name = strings.Join(segs, "/")
	}
	if back, err := EncodeKey(name); err != nil || back != key {
		return "", fmt.Errorf("key %q does not name a file: %w", key, mover.ErrUsage)
	}
	return name, nil
}

// Names of what has none.
const (
	first = "\x01"         // the content of a directory's marker: the name comes first in the directory
	keyed = first + "key:" // before a key, or what is left of one below good directories
)

// nameless is a valid name for a key that names nothing: its last good directory, and the rest in one escaped segment.
func nameless(key string) string {
	dir := ""
	for rest := key; ; {
		seg, more, found := strings.Cut(rest, "/")
		name, err := DecodeKey(seg)
		if err != nil || !found || seg == "" {
			return mover.Join(dir, keyed+strings.ReplaceAll(escape(rest), "/", "%2F"))
		}
		dir, rest = mover.Join(dir, name), more
	}
}

// rawKey is the inverse of nameless: the key, relative to the prefix of the place, that a name is of. Other names are of none, and those of
// markers, which belong to their directories.
func rawKey(name string) (key string, ok bool) {
	dir, base := mover.Parent(name)
	rest, ok := strings.CutPrefix(base, keyed)
	if !ok {
		return "", false
	}
	if dir, err := EncodeKey(dir); err != nil {
		return "", false
	} else if dir != "" {
		key = dir + "/"
	}
	key += unescape(rest)
	if named, err := nameOf(key); err == nil || named != name || isOwn(key) || strings.HasSuffix(key, "/") {
		return "", false
	}
	return key, true
}

// nameOf is the name of an object, as a walk tells of it. err says why the key leads to no name.
func nameOf(key string) (name string, err error) {
	if name, err = DecodeKey(key); err != nil {
		return nameless(key), err
	}
	if _, taken := rawKey(name); taken {
		return nameless(key), fmt.Errorf("key %q has the name of another one: %w", key, mover.ErrUsage)
	}
	return name, nil
}

// plain reports whether all bytes of s are ASCII that is never escaped.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7F || c == '%' {
			return false
		}
	}
	return true
}

func encodeSegment(seg string) string {
	if seg == own {
		return "%2E" + own[1:]
	}
	if escaped := escape(seg); escaped != seg && (hasBad(seg) || unescape(seg) != seg && escape(unescape(seg)) == seg || seg == "%2E"+own[1:]) {
		return escaped
	}
	return seg
}

func decodeSegment(seg string) string {
	if seg == "%2E"+own[1:] {
		return own
	}
	if name := unescape(seg); encodeSegment(name) == seg {
		return name
	}
	return seg // only looks escaped
}

// escape writes every bad byte, and '%' before two hexadecimal digits, as %XX.
func escape(seg string) string {
	var b strings.Builder
	for i := 0; i < len(seg); {
		n, bad := badAt(seg, i)
		if bad || seg[i] == '%' && hexAt(seg, i+1) {
			for _, c := range []byte(seg[i : i+n]) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		} else {
			b.WriteString(seg[i : i+n])
		}
		i += n
	}
	return b.String()
}

// unescape turns every %XX into its byte.
func unescape(seg string) string {
	if strings.IndexByte(seg, '%') < 0 {
		return seg
	}
	b := make([]byte, 0, len(seg))
	for i := 0; i < len(seg); i++ {
		if seg[i] == '%' && hexAt(seg, i+1) {
			b = append(b, unhex(seg[i+1])<<4|unhex(seg[i+2]))
			i += 2
			continue
		}
		b = append(b, seg[i])
	}
	return string(b)
}

func hasBad(seg string) bool {
	for i := 0; i < len(seg); {
		n, bad := badAt(seg, i)
		if bad {
			return true
		}
		i += n
	}
	return false
}

// badAt says how long the character at i is and whether it must be escaped.
func badAt(s string, i int) (n int, bad bool) {
	if c := s[i]; c < utf8.RuneSelf {
		return 1, c < 0x20 || c == 0x7F
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	return n, r == utf8.RuneError
}

// hexAt reports whether two digits of the kind that escape writes stand at i.
func hexAt(s string, i int) bool { return i+1 < len(s) && isHex(s[i]) && isHex(s[i+1]) }

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'A' <= c && c <= 'F' }

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c - 'A' + 10
}

// shelfIn returns the directory below the place that a key of our own lies in.
func shelfIn(rel string) (dir string, found bool) {
	dir, _, found = strings.Cut("/"+rel, "/"+own+"/")
	return strings.TrimPrefix(dir, "/"), found && dir != ""
}
