package auditlog

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"datamove.dev/mover"
)

// Record is one decision, as the server tells it. Texts may be anything that a
// caller sent.
type Record struct {
	HasUID    bool     // UID is known; without it the caller has no account here, or is the service itself
	UID       uint32   // of the actor
	Actor     string   // the name of the account that the call is for
	Agent     string   // which agent asserted the actor; "" when the actor called for itself
	By        string   // the caller, when it called for the actor; "" when that is the actor
	Peer      string   // the address that the call came from; "" of an internal action
	Method    string   // of gRPC in full, or an internal action as "lease.expire"
	Object    string   // what it was about: a task id, a dataset, a tier
	Locations []string // the addresses concerned, the source first
	Allowed   bool
	Code      string // the gRPC code or the kind of error, where it is denied
	Reason    string // for people: the rule that decided
}

// Kind says what a line is.
type Kind string

// The kinds of lines.
const (
	Header   Kind = "header"   // the first line of a file
	Decision Kind = "decision" // a record
	Cut      Kind = "cut"      // the log was opened, and a half-written end cut off
)

// Entry is one line of a log.
type Entry struct {
	Sequence       uint64
	Kind           Kind
	Time           time.Time // what the clock said
	Previous, Hash Hash

	Record        // of a decision; Locations are there only when the log keeps them
	Digest Hash   // of the locations, or of what was cut off; zero is none
	Bytes  int64  // how many were cut off
	Chain  string // of a header: the name of the log
}

// Hash is a SHA-256.
type Hash [sha256.Size]byte

// String prints a hash in hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Head is the last line of a log, or of its beginning. It stands for all lines up
// to it, and prints as SEQUENCE:HASH.
type Head struct {
	Sequence uint64
	Hash     Hash
}

func (h Head) String() string { return fmt.Sprintf("%d:%v", h.Sequence, h.Hash) }

// ParseHead reads what Head prints.
func ParseHead(s string) (Head, error) {
	number, digits, _ := strings.Cut(s, ":")
	sequence, err1 := strconv.ParseUint(number, 10, 64)
	hash, err2 := hex.DecodeString(digits)
	if err1 != nil || err2 != nil || len(hash) != sha256.Size || sequence == 0 {
		return Head{}, fmt.Errorf("%w: %q is no head: want SEQUENCE:HASH, with 64 hexadecimal digits", mover.ErrUsage, s)
	}
	return Head{sequence, Hash(hash)}, nil
}

// Bounds of what is written, in bytes before it is escaped.
const (
	maxText      = 512
	maxLocations = 16 << 10 // of one record, together
	perLocation  = 8        // that each of them takes beside its text, so that their number is bounded
)

// decided makes an entry of what a caller tells: bounded, and without secrets.
func decided(r Record, keep bool) Entry {
	for _, text := range []*string{&r.Actor, &r.Agent, &r.By, &r.Peer, &r.Method, &r.Object, &r.Code, &r.Reason} {
		*text = clip(withoutSecret(*text), maxText)
	}
	e := Entry{Kind: Decision, Record: r, Digest: digest(r.Locations)}
	e.Locations = nil
	if keep {
		e.Locations = clipAll(r.Locations)
	}
	return e
}

// digest identifies locations without telling them.
func digest(locations []string) (h Hash) {
	if len(locations) == 0 {
		return h
	}
	sum := sha256.New()
	for _, location := range locations {
		_, _ = io.WriteString(sum, withoutSecret(location)+"\x00") // a hash takes everything
	}
	return Hash(sum.Sum(nil))
}

const ellipsis = "…"

// clip cuts a text that is too long, between two characters.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return strings.Clone(s) // what a request holds is not held any longer
	}
	end := max(limit-len(ellipsis), 0)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + ellipsis
}

// clipAll keeps as many locations as there is room for.
func clipAll(locations []string) (kept []string) {
	room := maxLocations
	for _, location := range locations {
		if room <= 0 {
			return append(kept, ellipsis)
		}
		text := clip(withoutSecret(location), room)
		room -= len(text) + perLocation
		kept = append(kept, text)
	}
	return kept
}

// withoutSecret takes out of an address what may be a key or a password, and does
// not belong there.
func withoutSecret(s string) string {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || scheme == "" || strings.ContainsAny(scheme, "/: ") {
		return s
	}
	if strings.HasPrefix(strings.ToLower(scheme), "http") {
		if address, _, signed := strings.Cut(rest, "?"); signed {
			rest = address + "?[secret]"
		}
	}
	authority, path, slash := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		authority = "[secret]" + authority[at:]
	}
	if slash {
		path = "/" + path
	}
	return scheme + "://" + authority + path
}
