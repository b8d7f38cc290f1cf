package api

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"datamove.dev/mover"
)

// link is the way to one service. It remembers why it failed last, because gRPC
// tells that only as a piece of text.
type link struct {
	address string      // as it was given
	name    string      // of the service, for TLS: host and port, if it has them
	tls     *tls.Config // nil on a unix socket
	dialer  func(context.Context) (net.Conn, error)

	mu     sync.Mutex // guards failed
	failed error      // why there is no connection; nil when there is one
}

// newLink understands an address.
func newLink(address string, o Options) (*link, error) {
	l := &link{address: address, name: "localhost", tls: o.TLS, dialer: o.Dialer}
	if l.dialer != nil {
		return l, nil
	}
	refuse := func(why string) (*link, error) {
		return nil, &mover.Error{Op: "reach", Location: address, Err: fmt.Errorf("%w: %s", mover.ErrUsage, why)}
	}
	if path, is := strings.CutPrefix(address, "unix://"); is {
		if !strings.HasPrefix(path, "/") {
			return refuse("the path of a socket begins with /, as in unix:///run/datamove/datamoved.sock")
		}
		l.tls, l.dialer = nil, dialer("unix", path)
		return l, nil
	}
	target, is := strings.CutPrefix(address, "tcp://")
	if host, port, err := net.SplitHostPort(target); !is || err != nil || host == "" || port == "" {
		return refuse("the address of a service is unix:///path or tcp://host:port")
	}
	if o.TLS == nil {
		return refuse("tcp:// needs TLS, and so a certificate to know the service by")
	}
	l.name, l.dialer = target, dialer("tcp", target)
	return l, nil
}

func dialer(network, target string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, target)
	}
}

func (l *link) dial(ctx context.Context, _ string) (net.Conn, error) {
	conn, err := l.dialer(ctx)
	l.remember(err)
	return conn, err
}

func (l *link) remember(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = err
}

func (l *link) credentials() credentials.TransportCredentials {
	if l.tls == nil {
		return insecure.NewCredentials()
	}
	config := l.tls.Clone()
	config.MinVersion = max(config.MinVersion, tls.VersionTLS13)
	return &handshakes{credentials.NewTLS(config), l}
}

// handshakes are credentials that tell the link why they were refused.
type handshakes struct {
	credentials.TransportCredentials
	link *link
}

func (h *handshakes) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, auth, err := h.TransportCredentials.ClientHandshake(ctx, authority, raw)
	h.link.remember(err)
	return conn, auth, err
}

func (h *handshakes) Clone() credentials.TransportCredentials {
	return &handshakes{h.TransportCredentials.Clone(), h.link}
}

// unary gives requests a key that can have one, so that gRPC may repeat them, and
// translates the errors of calls.
func (l *link) unary(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker, o ...grpc.CallOption) error {
	if k, ok := req.(keyed); ok && gives(method) {
		req = withKey(k)
	}
	return l.explain(ctx, call(ctx, method, req, reply, conn, o...))
}

// stream translates the errors of streams.
func (l *link) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, begin grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := begin(ctx, desc, conn, method, o...)
	if err != nil {
		return nil, l.explain(ctx, err)
	}
	return &stream{s, ctx, l}, nil
}

// stream has the context of its call: to ask a ClientStream for its own before it
// has received something would end its retries.
type stream struct {
	grpc.ClientStream
	ctx  context.Context
	link *link
}

func (s *stream) Header() (metadata.MD, error) {
	md, err := s.ClientStream.Header()
	return md, s.link.explain(s.ctx, err)
}

func (s *stream) SendMsg(m any) error {
	return s.link.explain(s.ctx, s.ClientStream.SendMsg(m))
}

func (s *stream) RecvMsg(m any) error {
	return s.link.explain(s.ctx, s.ClientStream.RecvMsg(m))
}

func (s *stream) CloseSend() error {
	return s.link.explain(s.ctx, s.ClientStream.CloseSend())
}

// explain says of an error that the service did not say where we were going, and
// what to do about it.
func (l *link) explain(ctx context.Context, err error) error {
	err = FromStatus(err)
	var r *remote
	if !errors.As(err, &r) || r.said {
		return err
	}
	switch code := r.status.Code(); {
	case code == codes.Unavailable:
		return l.unreachable(r)
	case code == codes.Canceled && ctx.Err() != nil:
		return context.Cause(ctx)
	case code == codes.Canceled, code == codes.DeadlineExceeded: // a service may see the deadline before we do
		err = FromStatus(status.FromContextError(context.DeadlineExceeded).Err())
	}
	return &mover.Error{Op: "ask", Location: l.address, Err: err}
}

// errRefusedIdentity is that a service does not take our certificate. For an agent, which gets a new one by itself, that is no end.
var errRefusedIdentity error = refusedIdentity{}

type refusedIdentity struct{}

func (refusedIdentity) Error() string   { return mover.ErrPermission.Error() }
func (refusedIdentity) Unwrap() []error { return []error{mover.ErrPermission, mover.ErrUnreachable} }

// refusals are alerts by which a service says that it does not take our certificate (RFC 8446, 6.2). crypto/tls says
// by the first all that it has no other one for, as of a revoked certificate.
var refusals = []struct {
	alert tls.AlertError
	why   string
}{
	{42, "the service does not take this certificate: it was revoked, or is no certificate of a caller"},
	{43, "the service does not take this kind of certificate"},
	{44, "the certificate was revoked"},
	{45, "the certificate has ended, or is not yet good"},
	{46, "the service does not take this certificate"},
	{48, "the certificate was signed by an authority that the service does not know"},
	{49, "the service does not take this certificate"},
	{116, "the service wants a certificate"},
}

// refusedFor is what a service said of our certificate, by the text of an error, which is all that gRPC keeps of an alert after a handshake;
// "" is nothing.
func refusedFor(text string) string {
	for _, r := range refusals {
		if said := "remote error: " + r.alert.Error(); text == said || strings.HasSuffix(strings.TrimSuffix(text, `"`), said) {
			return r.why
		}
	}
	return ""
}

// unreachable is the error of a service that is not there.
func (l *link) unreachable(r *remote) error {
	l.mu.Lock()
	failed := l.failed
	l.mu.Unlock()
	why := r.sentence
	if failed != nil {
		why = printable(failed.Error())
	}
	kind := mover.ErrUnreachable
	switch refused := refusedFor(why); {
	case refused != "":
		kind, why = errRefusedIdentity, refused
	case errors.Is(failed, fs.ErrPermission):
		kind = mover.ErrPermission
	}
	because := fmt.Errorf("%w: %s%s", kind, cmp.Or(why, "no answer"), adviceOn(failed))
	var own interface{ Advice() string }
	if errors.As(failed, &own) {
		because = &advised{because, own.Advice()}
	}
	sentence := &mover.Error{Op: "reach", Location: l.address, Err: because}
	return &remote{sentence: sentence.Error(), cause: sentence, status: status.New(codes.Unavailable, sentence.Error())}
}

// advised has the advice of what a handshake failed for.
type advised struct {
	error
	try string
}

func (a *advised) Advice() string { return a.try }
func (a *advised) Unwrap() error  { return a.error }

// adviceOn says what is to be looked at when a connection has failed; "" is nothing.
func adviceOn(failed error) string {
	var (
		unknown *net.DNSError
		dial    *net.OpError
		plain   tls.RecordHeaderError
	)
	switch {
	case errors.Is(failed, fs.ErrPermission):
		return ""
	case errors.As(failed, &unknown) && unknown.IsNotFound:
		return "; is that the name of the host of the service?"
	case errors.As(failed, &plain):
		return "; what listens there speaks no TLS, and datamoved does: is that its port?"
	case errors.As(failed, &dial) && dial.Op == "dial":
		return "; is datamoved running? systemctl status datamoved"
	}
	return ""
}
