package service

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/mover/server/osaccount"
)

func pageCommand(a *cli.App) *cobra.Command {
	var port uint16
	cmd := &cobra.Command{
		Use:   "page [flags]",
		Short: "Show the page of the service to your browser, until ^C",
		Long: `Page prints an address on this machine. A browser of yours that opens it sees the
page of the service, and what you do there you do as yourself, as on the command line.
Connections of other accounts are closed, and so are those of other machines.
From elsewhere, ssh leads there: ssh -L PORT:127.0.0.1:PORT HOST.

Nothing has to be configured. A page that is always there, for everybody on a machine
to read, is "metrics" and a role with the member viewer in the configuration of the
service.`,
		Example: "  datamove service page\n  datamove service page --port 8080",
		Args:    cobra.NoArgs,
	}
	cmd.RunE = a.Do(func(ctx context.Context, _ []string) error { return page(ctx, a, port) })
	cmd.Flags().Uint16Var(&port, "port", 0, "of the address; 0 is one that is free")
	return cmd
}

// page serves the page of the service to this person until ctx ends.
func page(ctx context.Context, a *cli.App, port uint16) error {
	c, err := a.Client(ctx) // it says what is wrong, if there is no service
	if err != nil {
		return err
	}
	_ = c.Close() // nothing was asked
	proxy, err := pageProxy(a)
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return &mover.Error{Op: "listen on", Location: fmt.Sprintf("port %d", port), Err: err}
	}
	fmt.Fprintf(a.Out, "http://%s/\n", l.Addr())
	fmt.Fprintln(a.Err, "That is for you alone, on this machine, until ^C.")
	server := &http.Server{Handler: proxy, ReadHeaderTimeout: 10 * time.Second, ErrorLog: proxy.ErrorLog}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(osaccount.OwnOnly{Listener: l}); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// pageProxy leads to the HTTP side of the service. Requests pass as they are: that they
// name this machine, and come from no other site, is seen to where they arrive.
func pageProxy(a *cli.App) (*httputil.ReverseProxy, error) {
	address, err := a.Service()
	if err != nil {
		return nil, err
	}
	address = cmp.Or(address, a.DefaultAddress())
	scheme, dial := "http", func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", strings.TrimPrefix(address, "unix://"))
	}
	if cli.IsRemote(address) {
		secure, err := a.Identity()
		if err != nil {
			return nil, err
		}
		secure.NextProtos = []string{"http/1.1"}
		dialer := tls.Dialer{Config: secure}
		dial = func(ctx context.Context) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", strings.TrimPrefix(address, "tcp://"))
		}
	}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = scheme, "service", r.In.Host
		},
		Transport:     &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }, MaxIdleConns: 8, IdleConnTimeout: time.Minute, DisableCompression: true},
		FlushInterval: -1, // streams are told at once
		ErrorLog:      log.New(discard{}, "", 0),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "the service can not be reached: "+cli.Shown(err.Error()), http.StatusBadGateway)
		},
	}, nil
}

// discard takes what the HTTP server says of connections: the page tells what matters.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
