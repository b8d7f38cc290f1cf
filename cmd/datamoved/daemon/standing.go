package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"datamove.dev/mover"
	"datamove.dev/mover/server/pki"
)

const (
	standingEvery = time.Minute     // between two looks while the coordinator can not be reached
	standingTime  = 5 * time.Second // that a look may take
)

// standing says, when the coordinator can not be reached, whether that is because it
// refuses this node, or is another one: waiting would not mend that, but joining again may.
func (h *host) standing(ctx context.Context, conn *grpc.ClientConn, target string, secure *tls.Config, again func(context.Context) error) error {
	for looked := (time.Time{}); ; {
		state := conn.GetState()
		if state == connectivity.TransientFailure && time.Since(looked) > standingEvery {
			looked = time.Now()
			h.mend(ctx, target, secure, again)
		}
		if !conn.WaitForStateChange(ctx, state) {
			return nil
		}
	}
}

// mend has a node join again that is refused, or says that it is.
func (h *host) mend(ctx context.Context, target string, secure *tls.Config, again func(context.Context) error) {
	err := refused(ctx, target, secure)
	if err == nil {
		return
	}
	switch failed := again(ctx); {
	case failed == nil:
		return
	case !errors.Is(failed, errNoAgain):
		h.log.Warn("this node could not join again", "coordinator", target, "err", failed)
	}
	h.log.Error("this node is refused; it goes on trying", "coordinator", target, "err", err, "try", tryRefused(err, h.at.node))
	h.manager.status("refused by %s: %v", target, err)
}

// tryRefused is what lets a refused node in: the clocks come before another certificate where one of them may be wrong.
func tryRefused(err error, node string) string {
	if errors.Is(err, errDates) || errors.As(err, new(*pki.Lapsed)) {
		return rightTime + newToken(node)
	}
	return newToken(node)
}

// errDates is that a coordinator finds the certificate of a node over, or not begun.
var errDates = fmt.Errorf("%w: by the clock of the coordinator, the certificate of this node has ended or has not begun", mover.ErrPermission)

// expired is the alert of that (RFC 8446, 6.2).
const expired = tls.AlertError(45)

// preface is what a client of HTTP/2 says first, with no settings of its own.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// refused says why a coordinator that is there does not talk to this node; nil when it
// does, or when it is not there.
func refused(ctx context.Context, target string, secure *tls.Config) error {
	ctx, cancel := context.WithTimeout(ctx, standingTime)
	defer cancel()
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", target)
	if err != nil {
		return nil
	}
	defer raw.Close()
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	conn := tls.Client(raw, secure)
	err = conn.HandshakeContext(ctx)
	if err == nil { // the server judges after that: what it says first tells
		if _, err = io.WriteString(conn, preface); err == nil {
			_, err = conn.Read(make([]byte, 1))
		}
	}
	var remote *net.OpError
	switch {
	case errors.Is(err, mover.ErrPermission): // we refuse it
		return err
	case errors.As(err, &remote) && remote.Op == "remote error" && remote.Err.Error() == expired.Error():
		if own, _ := secure.GetClientCertificate(nil); own != nil && own.Leaf != nil {
			return fmt.Errorf("%w; it is good from %s until %s, and the clock of this machine says %s", errDates,
				own.Leaf.NotBefore.UTC().Format(time.RFC3339), own.Leaf.NotAfter.UTC().Format(time.RFC3339), time.Now().UTC().Format(time.RFC3339))
		}
		return errDates
	case errors.As(err, &remote) && remote.Op == "remote error":
		return fmt.Errorf("%w: it does not take the certificate of this node, which was forgotten or revoked, or is of another service: %w", mover.ErrPermission, err)
	}
	return nil
}
