// Package notify tells people by mail what concerns them. It hands each message to the mail server of the site by SMTP (RFC 5321), under TLS where the server offers
// it and is on another host. It asks for no password: mail servers of a site take mail of their own hosts.
package notify

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"net"
	netmail "net/mail"
	"net/smtp"
	"net/textproto"
	"strings"
	"time"

	"datamove.dev/mover"
)

// Message is one to one person: an answer about another mailbox says nothing about this one.
type Message struct {
	To      string // an address, or the name of a user of the domain of the Sender
	Subject string
	Text    string
}

// Sender hands messages to a server.
type Sender struct {
	Server string // HOST:PORT
	From   string // an address
	Domain string // of people without one in their name; "" is that of From

	plain func(net.Conn) bool // where TLS is not asked for; nil is this host
	roots *x509.CertPool      // nil are those of the system
}

// sendMost is how long the handing over of one message may take.
const sendMost = time.Minute

// person is a name that may stand before an @ as it is.
var person = mover.Pattern(`^[A-Za-z0-9_][A-Za-z0-9._+-]{0,63}$`)

// Address is that of a user named by an address, or by a name. It is mover.ErrUsage for a text that can be no address.
func (s *Sender) Address(who string) (string, error) {
	if person().MatchString(who) {
		_, domain, _ := strings.Cut(s.From, "@")
		return who + "@" + cmp.Or(s.Domain, domain), nil
	}
	a, err := netmail.ParseAddress(who)
	if err != nil || a.Address != who {
		return "", fmt.Errorf("%w: %s is no address, and no name of a person", mover.ErrUsage, mover.Printable(who))
	}
	return who, nil
}

// ErrLater is mover.ErrTransient of one message: the server takes others, and this one perhaps later, as with greylisting or a mailbox that is full.
var ErrLater = fmt.Errorf("%w: not this message now", mover.ErrTransient)

// Send hands over a message. It is mover.ErrTransient when another try may help (ErrLater: of this message). It is mover.ErrRefused when the server does not take it, and mover.ErrUsage for a text
// that can be no address.
func (s *Sender) Send(ctx context.Context, m Message) error {
	to, err := s.Address(m.To)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendMost)
	defer cancel()
	return s.kinded(s.send(ctx, to, s.format(to, m)))
}

// kinded says whether another try may help: an answer of 5xx is the server's last word.
func (s *Sender) kinded(err error) error {
	var answer *textproto.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &answer) && answer.Code >= 500:
		return fmt.Errorf("%w: mail server %s: %w", mover.ErrRefused, s.Server, err)
	case errors.Is(err, ErrLater):
		return fmt.Errorf("mail server %s: %w", s.Server, err)
	}
	return fmt.Errorf("%w: mail server %s: %w", mover.ErrTransient, s.Server, err)
}

func (s *Sender) send(ctx context.Context, to string, text []byte) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", s.Server)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()
	host, _, _ := net.SplitHostPort(s.Server) // it was dialled
	c, err := smtp.NewClient(conn, host)
	if err != nil {
		return err
	}
	defer c.Close()
	_, domain, _ := strings.Cut(s.From, "@")
	if err := c.Hello(domain); err != nil {
		return err
	}
	plain := s.plain
	if plain == nil {
		plain = loopback
	}
	if offers, _ := c.Extension("STARTTLS"); offers && !plain(conn) {
		if err := c.StartTLS(&tls.Config{ServerName: host, RootCAs: s.roots}); err != nil {
			return err
		}
	}
	if err := c.Mail(s.From); err != nil {
		return err
	}
	if err := c.Rcpt(to); err != nil {
		return fmt.Errorf("%s: %w", to, later(err))
	}
	w, err := c.Data()
	if err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	if err := w.Close(); err != nil { // it has it, or not
		return later(err)
	}
	_ = c.Quit() // it has it
	return nil
}

// closing is the answer of a server that goes away.
const closing = 421

// later makes an answer to one message ErrLater, where it is not the server's last word, or of the server itself.
func later(err error) error {
	var answer *textproto.Error
	if errors.As(err, &answer) && answer.Code < 500 && answer.Code != closing {
		return fmt.Errorf("%w: %w", ErrLater, err)
	}
	return err
}

// loopback says whether a server is on this host: other hosts can not read what goes there.
func loopback(c net.Conn) bool {
	a, ok := c.RemoteAddr().(*net.TCPAddr)
	return ok && a.IP.IsLoopback()
}

// format is the message of RFC 5322. Auto-Submitted (RFC 3834) says that it is no reply, and that programs shall not answer it.
func (s *Sender) format(to string, m Message) []byte {
	var b bytes.Buffer
	subject := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(m.Subject, "�"))
	for _, line := range [][2]string{
		{"From", "datamove <" + s.From + ">"}, {"To", to}, {"Subject", mime.QEncoding.Encode("utf-8", subject)}, {"Date", time.Now().Format(time.RFC1123Z)},
		{"Auto-Submitted", "auto-generated"}, {"MIME-Version", "1.0"}, {"Content-Type", "text/plain; charset=utf-8"}, {"Content-Transfer-Encoding", "quoted-printable"},
	} {
		fmt.Fprintf(&b, "%s: %s\r\n", line[0], line[1])
	}
	b.WriteString("\r\n")
	w := quotedprintable.NewWriter(&b)
	_, _ = w.Write([]byte(strings.ReplaceAll(strings.ToValidUTF8(m.Text, "�"), "\n", "\r\n"))) // into memory
	_ = w.Close()
	return b.Bytes()
}
