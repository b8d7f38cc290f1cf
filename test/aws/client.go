package aws

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
)

// Through is a client whose requests go to a handler of this process, without a connection. It is what a test inside testing/synctest needs, where time stands still while a connection is open.
func Through(h http.Handler) *http.Client { return &http.Client{Transport: through{h}} }

type through struct{ http.Handler }

// RoundTrip serves the request in its own goroutine. A handler that gives up is a connection that was cut.
func (t through) RoundTrip(r *http.Request) (answer *http.Response, err error) {
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler:
			answer, err = nil, fmt.Errorf("the connection was cut: %w", io.ErrUnexpectedEOF)
			if r.Context().Err() != nil {
				err = r.Context().Err()
			}
		default:
			panic(p)
		}
	}()
	if r.Body == nil {
		r.Body = http.NoBody
	}
	defer r.Body.Close()
	served := r.Clone(r.Context())
	if served.Host == "" {
		served.Host = r.URL.Host
	}
	if served.ContentLength == 0 {
		served.Body = http.NoBody
	}
	w := &written{header: http.Header{}}
	t.ServeHTTP(w, served)
	w.WriteHeader(http.StatusOK)
	return &http.Response{
		Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// written is a reply in memory.
type written struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *written) Header() http.Header { return w.header }

func (w *written) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *written) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

// Config is one for the SDK's clients, with the owner's key and without a connection: fsx.NewFromConfig(s.Config()). Its region is the first of the server.
func (s *Server) Config() sdk.Config {
	return sdk.Config{
		Region: s.opts.Regions[0], HTTPClient: Through(s), BaseEndpoint: sdk.String("http://aws.test"),
		Credentials: Static(OwnerKey, OwnerSecret, ""),
	}
}

// Static are credentials that are always the same.
func Static(access, secret, token string) sdk.CredentialsProvider {
	return sdk.CredentialsProviderFunc(func(context.Context) (sdk.Credentials, error) {
		return sdk.Credentials{AccessKeyID: access, SecretAccessKey: secret, SessionToken: token, Source: "test"}, nil
	})
}
