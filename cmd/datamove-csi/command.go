package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"datamove.dev/api"
	"datamove.dev/csi"
	"datamove.dev/csi/files"
	"datamove.dev/csi/hand"
	"datamove.dev/csi/registrar"
	"datamove.dev/csi/stage"
	"datamove.dev/mover"
)

// options are the command line.
type options struct {
	endpoint, mode, node, config string
	register, registerAs         string
	probe                        string
	limit                        time.Duration
}

func command() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:           "datamove-csi",
		Short:         "the CSI driver " + csi.Name,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("it takes no %q: see datamove-csi --help", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage("%w", err) })
	f := c.Flags()
	f.StringVar(&o.endpoint, "endpoint", "unix:///csi/csi.sock", "socket that the driver answers on")
	f.StringVar(&o.mode, "mode", string(csi.All), "services that it has: all, controller or node")
	f.StringVar(&o.node, "node-id", os.Getenv("NODE_NAME"), "name of this node in Kubernetes")
	f.StringVar(&o.config, "config", "/etc/datamove/csi.yaml", "configuration of file systems and grants")
	f.StringVar(&o.register, "register", "", "directory where the kubelet looks for drivers (plugins_registry); \"\" leaves that to a node-driver-registrar")
	f.StringVar(&o.registerAs, "register-endpoint", "", "path of the socket as the kubelet sees it")
	f.StringVar(&o.probe, "probe", "", "address that answers /healthz, as :9808; \"\" is none")
	f.DurationVar(&o.limit, "call-limit", 20*time.Second, "time after which a file system counts as hung")
	return c
}

func usage(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{mover.ErrUsage}, args...)...)
}

// exitCode follows datamove: 130 interrupted, 2 for words that are wrong, 1 otherwise.
func exitCode(err error) int {
	switch {
	case errors.Is(err, context.Canceled):
		return 130
	case errors.Is(err, mover.ErrUsage):
		return 2
	}
	return 1
}

// driver makes what answers.
func (o *options) driver(log *slog.Logger) (*csi.Driver, error) {
	mode := csi.Mode(o.mode)
	switch {
	case mode != csi.All && mode != csi.Controller && mode != csi.Node:
		return nil, usage("--mode is %q: it has to be all, controller or node", o.mode)
	case o.node == "" && mode != csi.Controller:
		return nil, usage("--node-id is missing")
	case o.register != "" && o.registerAs == "":
		return nil, usage("--register needs --register-endpoint: the kubelet may see the socket under another path")
	}
	text, err := os.ReadFile(o.config)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	config, err := csi.ParseConfig(text)
	if err != nil {
		return nil, fmt.Errorf("configuration %s: %w", o.config, err)
	}
	d := csi.New(csi.Options{Config: config, Files: &files.Files{Crew: &hand.Crew{Logger: log}, Limit: o.limit}, Mode: mode, NodeID: o.node, Version: version, Logger: log})
	if config.Service != "" {
		dial := func(ctx context.Context) (*api.Client, error) { return api.Dial(ctx, config.Service, api.Options{}) }
		d.Staging = &stage.Mover{Dial: dial, Node: o.node}
	}
	return d, nil
}

func (o *options) run(ctx context.Context) error {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	d, err := o.driver(log)
	if err != nil {
		return err
	}
	defer d.Files.Crew.Close()
	path, ok := strings.CutPrefix(o.endpoint, "unix://")
	if !ok || path == "" {
		return usage("--endpoint is %q: it has to be unix:///path", o.endpoint)
	}
	listener, err := registrar.Listen(path)
	if err != nil {
		return err
	}
	d.MountAll(ctx)
	g, ctx := errgroup.WithContext(ctx)
	server := grpc.NewServer(grpc.UnaryInterceptor(d.Unary))
	d.Register(server)
	g.Go(func() error { return server.Serve(listener) })
	g.Go(func() error { <-ctx.Done(); server.GracefulStop(); return nil })
	g.Go(func() error { return d.Reap(ctx, time.Minute) })
	if d.Staging != nil && d.Mode != csi.Controller {
		g.Go(func() error { d.KeepLeases(ctx); return nil })
	}
	if o.register != "" {
		r := &registrar.Registrar{Name: csi.Name, Dir: o.register, Endpoint: o.registerAs}
		g.Go(func() error { return r.Serve(ctx) })
	}
	if o.probe != "" {
		g.Go(func() error { return probe(ctx, o.probe, d) })
	}
	log.Info("the driver is ready", "name", csi.Name, "version", version, "mode", d.Mode, "node", d.NodeID, "endpoint", o.endpoint)
	return g.Wait()
}

// probe answers the kubelet's liveness probe: as long as the driver can be asked, it lives.
func probe(ctx context.Context, address string, d *csi.Driver) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = s.Close() })
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
