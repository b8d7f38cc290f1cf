package manifest

import (
	"encoding/base64"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// scan reads the JSON of one line. It is strict where encoding/json is not: a field
// that is there twice, in another case, or not known, and text that is no UTF-8 are
// errors, since an entry must not mean two things. The first error stays; reading
// goes on with zero values and ends at the end of the line.
type scan struct {
	line []byte
	at   int
	why  string // the first error; "" is none
}

func (s *scan) fail(why string) {
	if s.why == "" {
		s.why = why
	}
	s.at = len(s.line)
}

// peek returns the next byte that is no blank; 0 at the end.
func (s *scan) peek() byte {
	for s.at < len(s.line) {
		c := s.line[s.at]
		if c != ' ' && c != '\t' && c != '\r' {
			return c
		}
		s.at++
	}
	return 0
}

func (s *scan) expect(c byte) {
	if s.peek() != c {
		s.fail("it is not the JSON that is expected")
		return
	}
	s.at++
}

// more reports whether another element of an object or array follows, which end
// closes. first is true before the first one.
func (s *scan) more(end byte, first bool) bool {
	c := s.peek()
	if c == end {
		s.at++
		return false
	}
	if !first {
		s.expect(',')
	}
	return s.why == ""
}

// object calls field with each key of an object; it reads the value.
func (s *scan) object(field func(key string)) {
	s.expect('{')
	for first := true; s.more('}', first); first = false {
		key := s.bytes()
		s.expect(':')
		if s.why == "" {
			field(string(key))
		}
	}
}

// array calls element before each element of an array; it reads it.
func (s *scan) array(element func()) {
	s.expect('[')
	for first := true; s.more(']', first); first = false {
		element()
	}
}

func (s *scan) text() string { return string(s.bytes()) }

// bytes reads a string. The result is good until the next call where the string has
// escapes, and as long as the line where it has none.
func (s *scan) bytes() []byte {
	s.expect('"')
	for i := s.at; i < len(s.line); i++ {
		switch c := s.line[i]; {
		case c == '"':
			text := s.line[s.at:i]
			s.at = i + 1
			if !utf8.Valid(text) {
				s.fail("a text is not UTF-8")
			}
			return text
		case c == '\\':
			return s.escaped()
		case c < ' ':
			s.fail("a text has a control byte")
			return nil
		}
	}
	s.fail("a text does not end")
	return nil
}

// escaped reads the rest of a string that has escapes.
func (s *scan) escaped() []byte {
	var text []byte
	for s.at < len(s.line) {
		c := s.line[s.at]
		s.at++
		switch {
		case c == '"':
			if !utf8.Valid(text) {
				s.fail("a text is not UTF-8")
			}
			return text
		case c == '\\':
			text = s.escape(text)
		case c < ' ':
			s.fail("a text has a control byte")
		default:
			text = append(text, c)
		}
	}
	s.fail("a text does not end")
	return nil
}

// escape appends what stands behind a backslash.
func (s *scan) escape(text []byte) []byte {
	if s.at == len(s.line) {
		return text
	}
	c := s.line[s.at]
	s.at++
	if c == 'u' {
		r := s.unit()
		if utf16.IsSurrogate(r) {
			if s.at+1 < len(s.line) && s.line[s.at] == '\\' && s.line[s.at+1] == 'u' {
				s.at += 2
				r = utf16.DecodeRune(r, s.unit())
			}
			if utf16.IsSurrogate(r) || r == utf8.RuneError {
				s.fail("half a surrogate pair")
			}
		}
		return utf8.AppendRune(text, r)
	}
	const from, to = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	if i := strings.IndexByte(from, c); i >= 0 {
		return append(text, to[i])
	}
	s.fail("an escape is not known")
	return text
}

// unit reads four hexadecimal digits.
func (s *scan) unit() rune {
	if len(s.line)-s.at < 4 {
		s.fail("an escape is cut off")
		return 0
	}
	n, err := strconv.ParseUint(string(s.line[s.at:s.at+4]), 16, 16)
	if err != nil {
		s.fail("an escape is not hexadecimal")
		return 0
	}
	s.at += 4
	return rune(n)
}

// base64 reads a string of base64.
func (s *scan) base64() []byte {
	text := s.bytes()
	b := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Strict().Decode(b, text)
	if err != nil {
		s.fail("base64 is expected")
		return nil
	}
	return b[:n]
}

// number reads a whole number from 0 to most.
func (s *scan) number(most uint64) uint64 {
	s.peek()
	start, n := s.at, uint64(0)
	for ; s.at < len(s.line); s.at++ {
		d := uint64(s.line[s.at] - '0')
		if d > 9 {
			break
		}
		if n > (math.MaxUint64-d)/10 {
			s.fail("a number is too large")
			return 0
		}
		n = n*10 + d
	}
	if s.at == start || s.line[start] == '0' && s.at > start+1 {
		s.fail("a number is expected")
		return 0
	}
	if n > most {
		s.fail("a number is too large")
		return 0
	}
	return n
}

func (s *scan) length() int64 { return int64(s.number(math.MaxInt64)) }

// based reads a string with exactly the digits of a number.
func (s *scan) based(base, digits, bits int) uint64 {
	text := s.bytes()
	n, err := strconv.ParseUint(string(text), base, bits)
	if err != nil || len(text) != digits || strings.ContainsAny(string(text), "ABCDEF_+") {
		s.fail("a number in a text is not as it must be")
		return 0
	}
	return n
}

// end wants nothing behind what was read.
func (s *scan) end() {
	if s.peek(); s.at < len(s.line) {
		s.fail("there is more behind the object")
	}
}
