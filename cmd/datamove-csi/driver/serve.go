package driver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"datamove.dev/csi"
	"datamove.dev/csi/nodeproxy"
	"datamove.dev/csi/registrar"
)

// The work that goes on beside the calls.
const (
	lookEvery     = 5 * time.Second // for file systems that were not seen yet
	othersFirst   = time.Minute     // for controllers that see all of theirs
	mountEvery    = time.Minute
	reapEvery     = time.Minute
	watchEvery    = time.Minute
	holdEvery     = time.Minute
	annotateEvery = 15 * time.Second
	leaseName     = "csi-datamove-dev-controller"
)

// beside is the work that goes on beside the calls, until ctx is over.
func beside(ctx context.Context, d *csi.Driver) {
	var all sync.WaitGroup
	all.Go(func() { d.Reap(ctx, reapEvery) })
	all.Go(func() { d.Watch(ctx, watchEvery) })
	if d.Mode != csi.Controller {
		all.Go(func() { d.KeepHeld(ctx, holdEvery) })
	}
	if d.Staging != nil && d.Mode != csi.Controller {
		all.Go(func() { d.KeepLeases(ctx) })
	}
	if d.Staging != nil && d.Cluster != nil && d.Mode != csi.Node {
		all.Go(func() { d.Annotate(ctx, annotateEvery) })
	}
	all.Wait()
}

// identity is the name under which this process leads: that of its pod, and a part that no other process has.
func identity() string {
	name, _ := os.Hostname() // without, the rest is enough
	return name + "_" + rand.Text()
}

func (o *options) run(ctx context.Context) error {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	d, cluster, err := o.driver(log)
	if err != nil {
		return err
	}
	defer d.Files.Pool.Close()
	if cluster != nil {
		defer cluster.Close()
	}
	listener, err := registrar.Listen(strings.TrimPrefix(o.endpoint, "unix://"))
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	server := grpc.NewServer(grpc.UnaryInterceptor(d.Unary))
	d.Register(server)
	serve(ctx, g, server, listener)
	if o.relay != "" {
		l, err := net.Listen("tcp", o.relay)
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		serve(ctx, g, d.RelayServer(nodeproxy.Keys(o.keys)), l)
	}
	g.Go(func() error { d.KeepMounted(ctx, mountEvery); return nil })
	if d.Mode == csi.Controller {
		g.Go(func() error { d.BecomeReady(ctx, lookEvery, othersFirst); return nil })
	}
	if cluster != nil && d.Mode == csi.Controller { // there may be several
		g.Go(func() error {
			cluster.Lead(ctx, leaseName, identity(), func(ctx context.Context) { beside(ctx, d) })
			return nil
		})
	} else {
		g.Go(func() error { beside(ctx, d); return nil })
	}
	if o.register != "" {
		r := &registrar.Registrar{Name: csi.Name, Dir: o.register, Endpoint: o.registerAs}
		g.Go(func() error { return r.Serve(ctx) })
	}
	if o.http != "" {
		g.Go(func() error { return serveHTTP(ctx, o.http, d) })
	}
	log.Info("the driver is ready", "name", csi.Name, "version", version, "mode", d.Mode, "node", d.NodeID, "endpoint", o.endpoint)
	return g.Wait()
}

// lastCalls is how long calls go on when the driver is to end. Kubernetes makes again what is cut off then.
const lastCalls = 10 * time.Second

// serve answers calls until ctx is over.
func serve(ctx context.Context, g *errgroup.Group, s *grpc.Server, l net.Listener) {
	g.Go(func() error { return s.Serve(l) })
	g.Go(func() error {
		<-ctx.Done()
		defer time.AfterFunc(lastCalls, s.Stop).Stop()
		s.GracefulStop()
		return nil
	})
}

// serveHTTP answers the kubelet's probes, and Prometheus. As long as the driver can be asked, it lives: that a file system
// hangs, or is not here, is no reason to restart it.
func serveHTTP(ctx context.Context, address string, d *csi.Driver) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !d.Ready() {
			http.Error(w, "not every file system for projects was seen here: see the log", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.Handle("GET /metrics", d.Metrics.Handler())
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
