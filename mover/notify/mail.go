package notify

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"strconv"
	"strings"
	"time"

	"github.com/wneessen/go-mail"

	"datamove.dev/mover"
)

// Mail hands messages to the mail server of the site by SMTP (RFC 5321), under TLS where the server offers it and is on another host. It has no password: mail
// servers of a site take mail of their own hosts.
type Mail struct {
	Server string // HOST:PORT
	From   string // an address
	Domain string // of users without one in their name; "" is that of From

	plain func(net.Conn) bool // where TLS is not asked for; nil is this host
	roots *x509.CertPool      // nil are those of the system
}

// sendMost is how long the handing over of one message may take.
const sendMost = time.Minute

// user is a name that may stand before an @ as it is.
var user = mover.Pattern(`^[A-Za-z0-9_][A-Za-z0-9._+-]{0,63}$`)

// address is that of a recipient, named by an address or by a name. It is mover.ErrUsage for a text that can be no address.
func (s *Mail) address(to string) (string, error) {
	if user().MatchString(to) {
		return to + "@" + cmp.Or(s.Domain, s.domain()), nil
	}
	a, err := netmail.ParseAddress(to)
	if err != nil || a.Address != to {
		return "", fmt.Errorf("%w: %s is no address, and no name of a user", mover.ErrUsage, mover.Printable(to))
	}
	return to, nil
}

// domain is that of the sender.
func (s *Mail) domain() string {
	_, domain, _ := strings.Cut(s.From, "@")
	return domain
}

// Send implements [Sender].
func (s *Mail) Send(ctx context.Context, m Message) error {
	to, err := s.address(m.To)
	if err != nil {
		return err
	}
	text, err := s.format(to, m)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sendMost)
	defer cancel()
	return s.kinded(s.send(ctx, text))
}

// format is the message of RFC 5322. Auto-Submitted (RFC 3834) tells programs to send no reply.
func (s *Mail) format(to string, m Message) (*mail.Msg, error) {
	text := mail.NewMsg(mail.WithEncoding(mail.EncodingQP), mail.WithNoDefaultUserAgent())
	if err := errors.Join(text.FromFormat("datamove", s.From), text.To(to)); err != nil {
		return nil, fmt.Errorf("%w: %w", mover.ErrUsage, err)
	}
	text.Subject(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(m.Subject, "�")))
	text.SetDate()
	text.SetGenHeader("Auto-Submitted", "auto-generated")
	text.SetBodyString(mail.TypeTextPlain, strings.ReplaceAll(strings.ToValidUTF8(m.Text, "�"), "\n", "\r\n"))
	return text, nil
}

func (s *Mail) send(ctx context.Context, text *mail.Msg) error {
	host, port, _ := net.SplitHostPort(s.Server) // the configuration was checked
	number, err := strconv.Atoi(port)
	if err != nil {
		return fmt.Errorf("%w: mail server %s: no port", mover.ErrUsage, mover.Printable(s.Server))
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Server)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // the library knows deadlines only
	security, plain := mail.TLSOpportunistic, s.plain
	if plain == nil {
		plain = loopback
	}
	if plain(conn) {
		security = mail.NoTLS
	}
	client, err := mail.NewClient(host, mail.WithPort(number), mail.WithTLSPolicy(security), mail.WithHELO(s.domain()), mail.WithTimeout(sendMost), mail.WithoutNoop(),
		mail.WithTLSConfig(&tls.Config{ServerName: host, RootCAs: s.roots, MinVersion: tls.VersionTLS12}),
		mail.WithDialContextFunc(func(context.Context, string, string) (net.Conn, error) { return conn, nil }))
	if err != nil {
		return err
	}
	session, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return err
	}
	if err = client.SendWithSMTPClient(session, text); text.IsDelivered() {
		_ = client.CloseWithSMTPClient(session)
		return nil // the server has it, whatever it answers afterwards
	}
	return err
}

// closing is the answer of a server that goes away (RFC 5321, 4.2.1).
const closing = 421

// kinded says whether another try may help: an answer of 5xx is the server's last word. One below, to the recipient or the content, is of this message alone.
func (s *Mail) kinded(err error) error {
	var answer *mail.SendError
	code := 0
	if errors.As(err, &answer) {
		code = answer.ErrorCode()
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, mover.ErrUsage):
		return err
	case code >= 500:
		return fmt.Errorf("%w: mail server %s: %w", mover.ErrRefused, s.Server, err)
	case code >= 400 && code != closing && (answer.Reason == mail.ErrSMTPRcptTo || answer.Reason == mail.ErrSMTPDataClose):
		return fmt.Errorf("%w: mail server %s: %w", ErrLater, s.Server, err)
	}
	return fmt.Errorf("%w: mail server %s: %w", mover.ErrTransient, s.Server, err)
}

// loopback reports whether a server is on this host: other hosts can not read what goes there.
func loopback(c net.Conn) bool {
	a, ok := c.RemoteAddr().(*net.TCPAddr)
	return ok && a.IP.IsLoopback()
}
