package s3api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/remedy"
)

// helloWithin is how long a server may take to say that it speaks TLS.
const helloWithin = 5 * time.Second

// CheckScheme says of what failed at the opening that the endpoint has the wrong scheme, where that is so: no other try will help.
func (c *Client) CheckScheme(ctx context.Context, err error) error {
	switch {
	case err == nil || c.asked == nil:
		return err
	case isCertificate(err):
		return fmt.Errorf("the endpoint %s (%s): %w", c.asked, c.askedBy, err)
	case c.asked.Scheme == "https":
		return c.otherScheme(noTLS(err), "does not speak TLS", err)
	}
	return c.otherScheme(unclear(err) && speaksTLS(ctx, c.asked), "speaks TLS", err)
}

func (c *Client) otherScheme(is bool, what string, err error) error {
	if !is {
		return err
	}
	return &caused{fmt.Errorf("%w: the endpoint %s (%s) %s", mover.ErrUsage, c.asked, c.askedBy, what), remedy.OtherScheme}
}

// noTLS reports whether a server has answered a greeting of TLS with something else.
func noTLS(err error) bool {
	var record tls.RecordHeaderError
	return errors.Is(err, http.ErrSchemeMismatch) || errors.As(err, &record)
}

// unclear reports whether an error may be that of a server that expects TLS: it hangs up, or says 400 in words that are not those of S3.
func unclear(err error) bool {
	var a *answer
	if errors.As(err, &a) {
		return a.status == http.StatusBadRequest && a.code == ""
	}
	return KindOf(err) == mover.ErrTransient
}

// speaksTLS asks a server for its certificate. Nothing is sent to it, so it may have any.
func speaksTLS(ctx context.Context, endpoint *url.URL) bool {
	ctx, cancel := context.WithTimeout(ctx, helloWithin)
	defer cancel()
	address := endpoint.Host
	if endpoint.Port() == "" {
		address = net.JoinHostPort(endpoint.Hostname(), "80")
	}
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // the question is whether there is any
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	_ = conn.Close() // nothing was sent
	return true
}
