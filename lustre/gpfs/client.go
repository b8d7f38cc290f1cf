package gpfs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// Client speaks scalemgmt/v2, the REST API of the GUI of Storage Scale.
type Client struct {
	base        *url.URL
	credentials string // a path
	timeout     time.Duration
	http        *http.Client
	// pause waits, and is what tests shorten.
	pause func(context.Context, time.Duration) error
}

// NewClient returns a client for o.URL. It asks nothing yet, but for the files it needs.
func NewClient(o Options) (*Client, error) {
	base, err := url.Parse(o.URL)
	switch {
	case err != nil, base.Scheme != "https", base.Host == "", base.User != nil, base.RawQuery != "", strings.Trim(base.Path, "/") != "":
		return nil, fmt.Errorf("the GUI of Storage Scale: %w: its address is https://HOST[:PORT] and nothing more", ErrName)
	case o.CredentialsFile == "":
		return nil, errors.New("the GUI of Storage Scale: a file with its credentials is needed")
	}
	if _, err := ReadCredentials(o.CredentialsFile); err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CABundle != "" {
		if config.RootCAs, err = roots(o.CABundle); err != nil {
			return nil, err
		}
	}
	transport := &http.Transport{
		TLSClientConfig:     config,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxConnsPerHost:     4, // the GUI serves people, too
		// Calls are few and seconds apart. No connection is kept, so nothing has to be closed,
		// and net/http has no reason to send a request twice by itself.
		DisableKeepAlives: true,
		// A reply that is small on the wire and large in memory is not asked for.
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
	}
	return &Client{
		base:        base,
		credentials: o.CredentialsFile,
		timeout:     callTimeout,
		pause:       pause,
		http: &http.Client{
			Transport: transport,
			// Where to the GUI sends us is told and not followed: the password is for this host.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

func roots(bundle string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(bundle)
	if err != nil {
		return nil, fmt.Errorf("certificates for the GUI of Storage Scale: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("certificates for the GUI of Storage Scale: %q has none in PEM", bundle)
	}
	return pool, nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
