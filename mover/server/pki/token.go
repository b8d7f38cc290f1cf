package pki

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"time"

	"datamove.dev/mover"
)

// A join token is one word:
//
//	dmj1.NODE.PAYLOAD
//
// The payload is the secret, the pin of the authority, and the first bytes of the
// SHA-256 of all that stands before the last of them, in base32 of lower case: 96
// characters, no padding.
const (
	tokenPrefix  = "dmj"
	tokenVersion = "1"
	secretBytes  = 24
	sumBytes     = 4
	payloadBytes = secretBytes + len(Pin{}) + sumBytes

	// DefaultTTL and MaxTTL say how long a token is good.
	DefaultTTL = time.Hour
	MaxTTL     = 24 * time.Hour
)

var base32Lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Token is the right of one node to join once. It prints as [secret]; Text is what
// goes to the node.
type Token struct {
	Name   string // of the node
	Pin    Pin    // of the authority
	secret [secretBytes]byte
}

// TokenRecord is what the service remembers of a token: not the secret.
type TokenRecord struct {
	ID      string            // as of Token.ID
	Name    string            // of the node
	Hash    [sha256.Size]byte // of the text
	Expires time.Time
	Used    time.Time // zero: not yet. The store of the record sets it, once
}

// NewToken makes a token for a node. A ttl of 0 is [DefaultTTL].
func (a *Authority) NewToken(name string, ttl time.Duration) (Token, TokenRecord, error) {
	if err := (Identity{Role: Agent, Name: name}).check(); err != nil {
		return Token{}, TokenRecord{}, err
	}
	if ttl == 0 {
		ttl = DefaultTTL
	}
	if ttl < 0 || ttl > MaxTTL {
		return Token{}, TokenRecord{}, fmt.Errorf("%w: a join token is good for at most %v, not %v", mover.ErrUsage, MaxTTL, ttl)
	}
	t := Token{Name: name, Pin: a.Pin()}
	_, _ = rand.Read(t.secret[:]) // never fails
	return t, TokenRecord{ID: t.ID(), Name: name, Hash: t.hash(), Expires: time.Now().Add(ttl)}, nil
}

// Text returns the token as it is written, in one word.
func (t Token) Text() string {
	payload := append(t.secret[:], t.Pin[:]...)
	return t.head() + base32Lower.EncodeToString(append(payload, t.sum(payload)...))
}

func (t Token) head() string { return tokenPrefix + tokenVersion + "." + t.Name + "." }

// sum finds typing errors. It is no secret and proves nothing.
func (t Token) sum(payload []byte) []byte {
	sum := sha256.Sum256(append([]byte(t.head()), payload...))
	return sum[:sumBytes]
}

func (t Token) hash() [sha256.Size]byte { return sha256.Sum256([]byte(t.Text())) }

// ID names the record of a token. It tells nothing of the secret.
func (t Token) ID() string {
	hash := t.hash()
	return hex.EncodeToString(hash[:8])
}

// Format prints [secret], whatever the verb.
func (t Token) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "[secret]") }

// IsToken reports whether a text begins as a join token does, whatever comes then. Any other text is
// a token of another issuer.
func IsToken(text string) bool { return strings.HasPrefix(strings.TrimSpace(text), tokenPrefix) }

// ParseToken reads what Text wrote; space around it is left out.
func ParseToken(text string) (Token, error) {
	wrong := func(why string) (Token, error) {
		return Token{}, fmt.Errorf("%w: join token: %s", mover.ErrUsage, why)
	}
	text = strings.TrimSpace(text)
	if len(text) > len("dmj1..")+maxName+base32Lower.EncodedLen(payloadBytes) {
		return wrong("it is too long")
	}
	head, rest, _ := strings.Cut(text, ".")
	version, ok := strings.CutPrefix(head, tokenPrefix)
	if !ok {
		return wrong("it does not begin with " + tokenPrefix + tokenVersion + ".")
	}
	if version != tokenVersion {
		return wrong(fmt.Sprintf("version %q is not known here: update datamove on this node, or copy the token again", version))
	}
	dot := strings.LastIndexByte(rest, '.')
	if dot < 0 || !ValidName(rest[:dot]) {
		return wrong("there is no name of a node in it: copy it again")
	}
	t := Token{Name: rest[:dot]}
	if n, want := len(rest[dot+1:]), base32Lower.EncodedLen(payloadBytes); n != want {
		return wrong(fmt.Sprintf("its last part has %d characters, not %d: copy it again, wholly", n, want))
	}
	payload, err := base32Lower.DecodeString(rest[dot+1:])
	if err != nil || len(payload) != payloadBytes {
		return wrong("it is mistyped: copy it again")
	}
	copy(t.secret[:], payload)
	copy(t.Pin[:], payload[secretBytes:])
	if t.Text() != text {
		return wrong("it is mistyped: copy it again")
	}
	return t, nil
}

// Check reports whether a node may join with a token, now. Until the secret is
// known to be right, nothing is told.
func (r TokenRecord) Check(t Token, node string) error {
	hash := t.hash()
	if subtle.ConstantTimeCompare(hash[:], r.Hash[:]) != 1 {
		return ErrToken
	}
	if t.Name != r.Name || node != r.Name {
		return fmt.Errorf("%w: the join token is for node %s", mover.ErrPermission, mover.Printable(r.Name))
	}
	if !r.Used.IsZero() {
		return fmt.Errorf("%w: the join token was used at %s: make a new one", mover.ErrPermission, stamp(r.Used))
	}
	if !time.Now().Before(r.Expires) {
		return fmt.Errorf("%w: the join token ended at %s: make a new one", mover.ErrPermission, stamp(r.Expires))
	}
	return nil
}

// ErrToken is all that is said of a token that is not known.
var ErrToken = fmt.Errorf("%w: this join token is not known here", mover.ErrPermission)
