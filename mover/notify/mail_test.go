package notify

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"mime"
	"net"
	"net/http/httptest"
	netmail "net/mail"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mime/quotedprintable"

	"github.com/emersion/go-smtp"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// site is a mail server that takes mail for some people.
type site struct {
	secure bool // mail that is not under TLS is refused

	mu   sync.Mutex
	got  []letter // guarded by mu
	busy int      // so many more are told to come again; guarded by mu
}

type letter struct {
	from string
	to   []string
	text string
}

func (s *site) NewSession(c *smtp.Conn) (smtp.Session, error) {
	_, encrypted := c.TLSConnectionState()
	return &session{site: s, encrypted: encrypted}, nil
}

type session struct {
	*site
	letter
	encrypted bool
}

func (s *session) Reset()        { s.letter = letter{} }
func (s *session) Logout() error { return nil }
func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	s.from = from
	if s.secure && !s.encrypted {
		return &smtp.SMTPError{Code: 530, Message: "TLS first"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy > 0 {
		s.busy--
		return &smtp.SMTPError{Code: 451, Message: "come again"}
	}
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if strings.HasPrefix(to, "nobody@") {
		return &smtp.SMTPError{Code: 550, Message: "no such user"}
	}
	s.to = append(s.to, to)
	return nil
}

func (s *session) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, letter{s.from, s.to, string(text)})
	return err
}

// serve begins the server. conf is what it has for TLS; nil is none.
func (s *site) serve(t *testing.T, conf *tls.Config) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := smtp.NewServer(s)
	server.Domain, server.TLSConfig = "mail.site", conf
	server.MaxLineLength = 1000
	go func() { _ = server.Serve(l) }() // until it is closed
	t.Cleanup(func() { _ = server.Close() })
	return l.Addr().String()
}

// TestSend: what a person gets is what was meant, whatever is in it; who can not get it is told.
func TestSend(t *testing.T) {
	s := &site{}
	sender := &Mail{Server: s.serve(t, nil), From: "datamove@site.example"}
	long := strings.Repeat("x", 5000) + " ü"
	m := Message{Subject: "Ü\r\nBcc: all@x " + strings.Repeat("long ", 40), Text: ".\n.dot\n" + long + "\n\xff\n"}
	for to, want := range map[string]error{"ada": nil, "grace@elsewhere.example": nil, "nobody": mover.ErrRefused, "a b": mover.ErrUsage, "eve\r\nBcc: all@x": mover.ErrUsage, "": mover.ErrUsage, "A <a@x>": mover.ErrUsage} {
		m.To = to
		if err := sender.Send(t.Context(), m); !errors.Is(err, want) {
			t.Errorf("to %q: %v", to, err)
		}
	}
	var to []string
	for _, one := range s.got {
		to = append(to, one.to...)
		if one.from != sender.From {
			t.Errorf("it is from %s", one.from)
		}
	}
	slices.Sort(to)
	if !slices.Equal(to, []string{"ada@site.example", "grace@elsewhere.example"}) {
		t.Fatalf("%q", to)
	}
	got, err := netmail.ReadMessage(strings.NewReader(s.got[0].text))
	must.Do(t, err)
	if got.Header.Get("Bcc") != "" || len(got.Header) != 9 {
		t.Errorf("%v", got.Header)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(got.Header.Get("Subject"))
	if want := "Ü  Bcc: all@x " + strings.TrimSpace(strings.Repeat("long ", 40)); err != nil || strings.TrimSpace(subject) != want {
		t.Errorf("%q, want %q", subject, want)
	}
	text, err := io.ReadAll(quotedprintable.NewReader(got.Body))
	if want := ".\n.dot\n" + long + "\n�\n"; err != nil || strings.ReplaceAll(string(text), "\r\n", "\n") != want {
		t.Errorf("%q", text)
	}
}

// TestSendAgain: whether another try may help is told.
func TestSendAgain(t *testing.T) {
	s := &site{busy: 1}
	sender := &Mail{Server: s.serve(t, nil), From: "datamove@site.example", Domain: "people.example"}
	m := Message{To: "ada", Subject: "x", Text: "y\n"}
	if err := sender.Send(t.Context(), m); !errors.Is(err, mover.ErrTransient) {
		t.Errorf("a busy server: %v", err)
	}
	if err := sender.Send(t.Context(), m); err != nil || len(s.got) != 1 || s.got[0].to[0] != "ada@people.example" {
		t.Errorf("%v, %+v", err, s.got)
	}
	if err := sender.Send(t.Context(), Message{To: "nobody"}); !errors.Is(err, mover.ErrRefused) || errors.Is(err, mover.ErrTransient) {
		t.Errorf("nobody: %v", err)
	}
	if err := sender.Send(t.Context(), Message{To: "<a>"}); !errors.Is(err, mover.ErrUsage) {
		t.Errorf("no address: %v", err)
	}
	silent := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := (&Mail{Server: silent.Addr().String(), From: sender.From}).Send(ctx, m); !errors.Is(err, mover.ErrTransient) {
		t.Errorf("a server that says nothing: %v", err)
	}
}

// TestSecure: on another host mail goes under TLS where it is offered, to a server whose certificate is good, and else not at all.
func TestSecure(t *testing.T) {
	web := httptest.NewUnstartedServer(nil) // it has a certificate for 127.0.0.1
	web.StartTLS()
	defer web.Close()
	s := &site{secure: true}
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	sender := &Mail{Server: s.serve(t, &tls.Config{Certificates: web.TLS.Certificates}), From: "datamove@site.example", plain: func(net.Conn) bool { return false }, roots: roots}
	m := Message{To: "ada", Subject: "x", Text: "y\n"}
	if err := sender.Send(t.Context(), m); err != nil || len(s.got) != 1 {
		t.Errorf("%v, %+v", err, s.got)
	}
	sender.roots = x509.NewCertPool()
	if err := sender.Send(t.Context(), m); err == nil || len(s.got) != 1 {
		t.Errorf("with a certificate of an unknown authority: %v, %+v", err, s.got)
	}
	sender.plain = nil
	if err := sender.Send(t.Context(), m); !errors.Is(err, mover.ErrRefused) {
		t.Errorf("in the clear: %v", err)
	}
}
