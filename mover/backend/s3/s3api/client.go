package s3api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"datamove.dev/mover"
)

// MaxParallel is how many calls are worth having in flight to one store; the client keeps that many idle connections at least.
const MaxParallel = 128

// Client makes the calls on one bucket, as its options say where it is and with which keys. All methods may be called from many goroutines.
type Client struct {
	Store             // as plain, and what has to be asked again where the keys may be followed by others
	plain     Store   // amazon or onprem
	opts      Options // with what the environment says
	transport *transport
	keys      renewer
	amazon    bool     // the store is AWS
	origin    string   // of the keys, for people
	endpoint  string   // URL, or "aws"
	copies    string   // what two clients have in common where the store copies from one to the other
	asked     *url.URL // the endpoint; nil is AWS
	askedBy   string   // what names it
}

// Dial finds out where the store is, and makes the client of it. No server of the store is called; the keys of a
// profile may come from STS or SSO. Errors are mover.ErrUsage of options, and mover.ErrPermission where there are no keys.
func Dial(ctx context.Context, o Options) (*Client, error) {
	env, roots, err := o.trusting(ctx)
	if err != nil {
		return nil, err
	}
	endpoint, err := o.complete(env)
	if err != nil {
		return nil, err
	}
	secure := endpoint == nil || endpoint.Scheme == "https" // AWS itself is asked over TLS
	t := newTransport(max(MaxParallel, o.Parallel), o.Stall, secure, roots)
	if o.Dial != nil {
		t.base.DialContext = o.Dial
	}
	if o.ConnectTo != nil {
		t.leadTo(o.ConnectTo)
	}
	c := &Client{opts: o, transport: t, amazon: isAmazon(endpoint), asked: endpoint, askedBy: cmp.Or(env.says(&o), "endpoint:")}
	if err := c.connect(ctx, env); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Client) connect(ctx context.Context, env ambient) error {
	o := &c.opts
	keys, err := o.keys(ctx, env)
	if err != nil {
		return err
	}
	c.keys, c.transport.keys = keys, keys
	v, err := keys.Retrieve(ctx)
	if _, unsigned := keys.(anonymous); err != nil && !unsigned {
		if KindOf(err) == nil {
			err = fmt.Errorf("%w: no credentials: %w", mover.ErrPermission, err)
		}
		return err
	}
	c.origin, c.endpoint, c.copies = o.origin(v), "aws", "aws "+o.Region
	if c.asked != nil {
		c.endpoint = c.asked.String()
		c.copies = c.endpoint
		warnPlain(ctx, o.Logger, c.asked)
	}
	c.copies += " " + v.AccessKeyID
	if o.Client == ClientAWS {
		c.plain = newAmazon(o, c.asked, keys, c.transport)
	} else if c.plain, err = newOnprem(o, c.asked, keys, c.transport); err != nil {
		return fmt.Errorf("%w: %w", mover.ErrUsage, err)
	}
	c.Store = c.plain
	switch keys.(type) {
	case static, anonymous:
	default:
		c.Store = renewed{c.plain}
	}
	return nil
}

// Close closes the idle connections.
func (c *Client) Close() { c.transport.base.CloseIdleConnections() }

// Options are those of Dial, with their defaults and with what the environment says.
func (c *Client) Options() Options { return c.opts }

// Amazon reports whether the store is AWS.
func (c *Client) Amazon() bool { return c.amazon }

// Endpoint is the URL of the store, or "aws".
func (c *Client) Endpoint() string { return c.endpoint }

// Copies reports whether the store can copy an object of another client: the endpoint and the access key are the same.
func (c *Client) Copies(from *Client) bool { return c.copies == from.copies }

// Keys are what calls are signed with, also of other services.
func (c *Client) Keys() aws.CredentialsProvider { return c.keys }

// HTTP is a client over the connections of this one, for another service; within bounds a call, answer and body.
func (c *Client) HTTP(within time.Duration) *http.Client {
	return &http.Client{Timeout: within, CheckRedirect: stay, Transport: c.transport.base}
}

// Server is what the server calls itself, once it has answered.
func (c *Client) Server() string { return c.transport.first.Load().server }

// ClockSkew is how far the clock of this machine was ahead of the server's at its first answer.
func (c *Client) ClockSkew() time.Duration { return c.transport.first.Load().skew }

// NotBefore is what the server's clock showed at a moment of ours, or up to three seconds less. It is called after a first answer.
func (c *Client) NotBefore(t time.Time) time.Time { return c.transport.first.Load().notBefore(t) }

// Sending is how long bodies in memory were on their way, and until their answers, as mover.Sender has it.
func (c *Client) Sending() (onTheWay, all time.Duration) {
	return time.Duration(c.transport.onTheWay.Load()), time.Duration(c.transport.answered.Load())
}

// Describe adds to the error of an operation what the answer of the store says beside its kind: when it may be asked
// again, and, where a right is missing, with which keys it was asked.
func (c *Client) Describe(e *mover.Error) {
	var a *answer
	if !errors.As(e.Err, &a) {
		return
	}
	e.After = a.after
	if a.kind == mover.ErrPermission {
		a.keys = c.origin
	}
}

// warnedPlain are the endpoints that this process was warned of.
var warnedPlain sync.Map

// warnPlain says once that an endpoint is talked to in the clear. To this machine
// itself nothing crosses a wire.
func warnPlain(ctx context.Context, log *slog.Logger, endpoint *url.URL) {
	host := endpoint.Hostname()
	if endpoint.Scheme != "http" || host == "localhost" || net.ParseIP(host).IsLoopback() || !log.Enabled(ctx, slog.LevelWarn) {
		return
	}
	if _, before := warnedPlain.LoadOrStore(endpoint.String(), true); !before {
		log.WarnContext(ctx, "plain http: every host on the way can read and change what is sent", "endpoint", endpoint.String())
	}
}
