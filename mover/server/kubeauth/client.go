package kubeauth

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"datamove.dev/mover"
)

// Where a pod finds its API server.
const (
	inPod     = "/var/run/secrets/kubernetes.io/serviceaccount/"
	hostKey   = "KUBERNETES_SERVICE_HOST"
	portKey   = "KUBERNETES_SERVICE_PORT"
	patience  = 10 * time.Second // for an answer
	maxAnswer = 1 << 20
)

// Options are the address of the API server, and our own token. The zero value is that of a pod.
type Options struct {
	Server string              // https://host:port; "" is what the environment of a pod says
	CA     string              // file with the authority of its certificate; "" is that of a pod
	Token  string              // file with our token, which may be renewed; "" is that of a pod
	Getenv func(string) string // nil is os.Getenv
}

// Client asks one API server.
type Client struct {
	server, token string
	http          *http.Client
}

// New makes a client. It asks nothing yet.
func New(o Options) (*Client, error) {
	getenv := o.Getenv
	if getenv == nil {
		getenv = os.Getenv
	}
	server := o.Server
	if server == "" {
		host, port := getenv(hostKey), getenv(portKey)
		if host == "" || port == "" {
			return nil, fmt.Errorf("%w: this is no pod (%s is not set), so the server has to be named", mover.ErrUsage, hostKey)
		}
		server = "https://" + net.JoinHostPort(host, port)
	}
	if u, err := url.Parse(server); err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%w: the server is %s: it has to be https://host:port", mover.ErrUsage, mover.Printable(server))
	}
	ca := cmp.Or(o.CA, inPod+"ca.crt")
	text, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%w: there is no certificate in %s", mover.ErrUsage, mover.Printable(ca))
	}
	return &Client{server: strings.TrimRight(server, "/"), token: cmp.Or(o.Token, inPod+"token"), http: &http.Client{
		Timeout:       patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute,
		},
	}}, nil
}

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// call sends a body and reads the answer. What failed is of kind ErrTransient: either the server is not
// there, or an administrator has to give us rights. The caller tries again.
func (c *Client) call(ctx context.Context, method, path, contentType string, body, answer any) error {
	fail := func(err error) error {
		return &mover.Error{Op: strings.ToLower(method), Location: c.server + path, Err: errors.Join(mover.ErrTransient, err)}
	}
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, c.server+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	token, err := os.ReadFile(c.token)
	if err != nil {
		return fail(err)
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "datamoved")
	response, err := c.http.Do(r)
	if err != nil {
		return fail(err)
	}
	defer response.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fail(err)
	}
	if response.StatusCode/100 != 2 {
		return fail(refusal(response.Status, reply))
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(reply, answer); err != nil {
		return fail(err)
	}
	return nil
}

// refusal is what a server says with an error: a Status of meta/v1.
func refusal(code string, reply []byte) error {
	var status struct{ Message string }
	if err := json.Unmarshal(reply, &status); err != nil || status.Message == "" {
		return errors.New(code)
	}
	return fmt.Errorf("%s: %s", code, mover.Printable(status.Message))
}
