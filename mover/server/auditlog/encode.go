package auditlog

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"unicode/utf16"
)

const (
	formatName = "datamove-audit"
	version    = 1

	timeLayout = "2006-01-02T15:04:05.000000000Z"

	// maxLine holds every record: a byte becomes six at most.
	maxLine = 128 << 10
)

// The end of a line: the hash, which does not count in itself.
const (
	hashField = `,"hash":"`
	lineEnd   = `"}`
	sealBytes = len(hashField) + 2*sha256.Size + len(lineEnd)
)

// appendEntry appends the line of e with its newline, and gives e its hash.
func appendEntry(b []byte, e *Entry) []byte {
	start := len(b)
	b = append(b, `{"sequence":`...)
	b = strconv.AppendUint(b, e.Sequence, 10)
	b = appendField(b, "kind", string(e.Kind))
	b = appendField(b, "time", e.Time.UTC().Format(timeLayout))
	b = appendHash(b, "previous", e.Previous)
	switch e.Kind {
	case Header:
		b = appendField(b, "format", formatName)
		b = appendNumber(b, "version", version)
		b = appendField(b, "chain", e.Chain)
	case Cut:
		b = appendNumber(b, "bytes", e.Bytes)
		b = appendHash(b, "digest", e.Digest)
	case Decision:
		b = appendDecision(b, e)
	}
	e.Hash = hashOf(append(b[start:], '}'))
	b = append(b, hashField...)
	b = hex.AppendEncode(b, e.Hash[:])
	return append(b, lineEnd+"\n"...)
}

func appendDecision(b []byte, e *Entry) []byte {
	if e.HasUID {
		b = appendNumber(b, "uid", int64(e.UID))
	}
	b = appendField(b, "actor", e.Actor)
	b = appendField(b, "agent", e.Agent)
	b = appendField(b, "by", e.By)
	b = appendField(b, "peer", e.Peer)
	b = appendField(b, "method", e.Method)
	b = appendField(b, "object", e.Object)
	if e.Digest != (Hash{}) {
		b = appendHash(b, "digest", e.Digest)
	}
	if len(e.Locations) > 0 {
		b = append(b, `,"locations":[`...)
		for i, location := range e.Locations {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendText(b, location)
		}
		b = append(b, ']')
	}
	b = appendField(b, "decision", verdict(e.Allowed))
	b = appendField(b, "code", e.Code)
	return appendField(b, "reason", e.Reason)
}

func verdict(allowed bool) string {
	if allowed {
		return "allow"
	}
	return "deny"
}

// appendField appends a text, unless it is empty.
func appendField(b []byte, key, text string) []byte {
	if text == "" {
		return b
	}
	return appendText(appendKey(b, key), text)
}

func appendKey(b []byte, key string) []byte {
	b = append(b, ',', '"')
	b = append(b, key...)
	return append(b, '"', ':')
}

func appendNumber(b []byte, key string, n int64) []byte {
	return strconv.AppendInt(appendKey(b, key), n, 10)
}

func appendHash(b []byte, key string, h Hash) []byte {
	b = append(appendKey(b, key), '"')
	b = hex.AppendEncode(b, h[:])
	return append(b, '"')
}

// appendText appends a string of JSON in ASCII. It is our own because the standard
// one may change what it escapes, and a line must never read differently.
func appendText(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s { // bytes that are not UTF-8 come as U+FFFD
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r >= 0x20 && r <= 0x7e:
			b = append(b, byte(r))
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			b = appendUnit(appendUnit(b, high), low)
		default:
			b = appendUnit(b, r)
		}
	}
	return append(b, '"')
}

func appendUnit(b []byte, unit rune) []byte {
	return append(b, '\\', 'u', hexDigit(unit>>12), hexDigit(unit>>8), hexDigit(unit>>4), hexDigit(unit))
}

func hexDigit(n rune) byte { return "0123456789abcdef"[n&15] }

// hashOf is the hash of a line without its hash.
func hashOf(object []byte) Hash { return sha256.Sum256(object) }
