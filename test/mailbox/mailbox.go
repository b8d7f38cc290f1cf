// Package mailbox has a mail server for tests.
package mailbox

import (
	"io"
	"mime/quotedprintable"
	"net"
	netmail "net/mail"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/emersion/go-smtp"

	"datamove.dev/test/must"
)

// Mailbox is a mail server that takes everything, when it is not away.
type Mailbox struct {
	Address string // HOST:PORT

	mu   sync.Mutex
	away bool     // guarded by mu
	full string   // a mailbox that is full; guarded by mu
	got  []string // TO|SUBJECT|TEXT; guarded by mu
}

func (b *Mailbox) NewSession(*smtp.Conn) (smtp.Session, error) { return &posting{Mailbox: b}, nil }

type posting struct {
	*Mailbox
	to []string
}

func (p *posting) Reset()        { p.to = nil }
func (p *posting) Logout() error { return nil }
func (p *posting) Mail(string, *smtp.MailOptions) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away {
		return &smtp.SMTPError{Code: 421, Message: "later"}
	}
	return nil
}

func (p *posting) Rcpt(to string, _ *smtp.RcptOptions) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if to == p.full {
		return &smtp.SMTPError{Code: 452, Message: "mailbox full"}
	}
	p.to = append(p.to, to)
	return nil
}

func (p *posting) Data(r io.Reader) error {
	m, err := netmail.ReadMessage(r)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.got = append(p.got, strings.Join(p.to, ",")+"|"+m.Header.Get("Subject")+"|"+strings.ReplaceAll(string(text), "\r\n", "\n"))
	return err
}

// SetAway has the server refuse everything for now, or take it again.
func (b *Mailbox) SetAway(away bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = away
}

// Take returns what has come since the last call, sorted.
func (b *Mailbox) Take() (got []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	got, b.got = b.got, nil
	slices.Sort(got)
	return got
}

// SetFull names an address that takes nothing for now; "" is none.
func (b *Mailbox) SetFull(address string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.full = address
}

// Start starts a server that ends with the test.
func Start(t testing.TB) *Mailbox {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	b := &Mailbox{Address: l.Addr().String()}
	server := smtp.NewServer(b)
	server.Domain = "mail.site"
	go func() { _ = server.Serve(l) }() // until it is closed
	t.Cleanup(func() { _ = server.Close() })
	return b
}
