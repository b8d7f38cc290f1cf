package daemon

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover/coordinator"
	"datamove.dev/mover/coordinator/clock"
	"datamove.dev/mover/coordinator/enroll"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server"
	"datamove.dev/mover/server/pki"
	"datamove.dev/mover/telemetry"
	"datamove.dev/tiering/burst/burstserver"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/catalog/catalogserver"
	"datamove.dev/tiering/dataset/datasetserver"
	"datamove.dev/tiering/policy"
	"datamove.dev/tiering/policy/policyserver"
)

// serveCoordinator is the coordinator, and the agent of its node.
func (a *app) serveCoordinator(ctx context.Context, h *host) error {
	books, err := state.Open(filepath.Join(h.at.data, "ledger"), state.Options{Logger: h.log, Committed: h.metrics.LedgerCommitted, Ballast: h.ballast})
	if err != nil {
		return err
	}
	known, err := h.openCatalog()
	if err != nil {
		return errors.Join(err, books.Close())
	}
	err = a.coordinate(ctx, h, books, known)
	if known != nil {
		err = errors.Join(err, known.Close())
	}
	return errors.Join(err, books.Close())
}

func (a *app) coordinate(ctx context.Context, h *host, books *state.Ledger, known *catalog.Catalog) error {
	o := h.doorOptions()
	o.Rules = func() server.Rules { return h.live.rules.Load() }
	o.Admit = func(id pki.Identity) error { return enroll.Admit(books, id) }
	authority, err := h.secure(&o)
	if err != nil {
		return err
	}
	cluster, err := h.cluster(authority)
	if err != nil {
		return err
	}
	ticks := clock.New(nil, nil)
	s, err := coordinator.New(ctx, coordinator.Options{
		Ledger: books, Rules: h.live.rules.Load, Config: h.live.config.Load, Audit: h.recordOf, Authority: authority, Vouch: cluster.vouch,
		Node: h.at.node, Version: buildVersion(), Data: h.at.data, Lease: h.live.config.Load().Leases.Lead,
		Reload: func(context.Context) ([]string, error) { return h.live.reload() }, Logger: h.log, Metrics: h.metrics, Clock: ticks,
	})
	if err != nil {
		return err
	}
	datasets, err := datasetserver.New(ctx, datasetserver.Options{
		Coordinator: s, Ledger: books, Config: h.live.config.Load, Rules: h.live.rules.Load, Audit: h.recordOf, Logger: h.log, Clock: ticks,
		Node: h.at.node, Data: h.at.data, Metrics: h.metrics, Catalog: known,
	})
	if err != nil {
		return err
	}
	s.UseDatasets(datasets)
	bursts := burstserver.New(burstserver.Options{
		Coordinator: s, Datasets: datasets, Ledger: books, Config: h.live.config.Load, Rules: h.live.rules.Load, Logger: h.log, Now: time.Now,
	})
	files := catalogserver.New(catalogserver.Options{
		Coordinator: s, Datasets: datasets, Node: h.at.node, Ledger: books, Config: h.live.config.Load, Rules: h.live.rules.Load, Logger: h.log, Now: time.Now, Metrics: h.metrics, Catalog: known, People: people{h.accounts},
	})
	policies := policyserver.New(policyserver.Options{
		Coordinator: s, Datasets: datasets, Server: files, Ledger: books, Config: h.live.config.Load, Rules: h.live.rules.Load, Logger: h.log, Now: time.Now, Data: h.at.data, Metrics: h.metrics, Catalog: known,
		Policies: func() []*policy.Program { return *h.live.policies.Load() }, People: people{h.accounts},
	})
	link := bursts.Link(policies.Link(files.Link(datasets.Link(s.Link()))))
	working := until("coordinator", s.Run)
	o.Register = func(r grpc.ServiceRegistrar) {
		s.Register(r)
		datasets.Register(r)
		files.Register(r)
		policies.Register(r)
		bursts.Register(r)
		agentv1.RegisterLinkServiceServer(r, link)
	}
	d, err := server.Open(o)
	if err != nil {
		return errors.Join(err, attend(over(), func() {}, working))
	}
	parts, what := append([]*part{serving(d), working}, cluster.parts()...), "coordinator"
	if !a.flags.noAgent {
		conn, err := newLink(h.at.node, nil, d.AgentDialer(h.at.node))
		if err != nil {
			return errors.Join(err, attend(over(), func() {}, parts...))
		}
		defer conn.Close()
		peers, err := h.peersOf(ctx, authority)
		if err == nil {
			var helpers []*part
			if helpers, err = h.agentParts(near{conn, link, h.at.node}, peers); err == nil {
				parts, what = append(helpers, parts...), "coordinator and agent"
			}
		}
		if err != nil {
			return errors.Join(err, attend(over(), func() {}, parts...))
		}
	}
	return h.run(ctx, what, d.Alive, d, parts...)
}

// over is a context that has ended.
func over() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// secure gives the server TLS where it listens on TCP. Elsewhere there is no authority,
// and no node can join.
func (h *host) secure(o *server.Options) (*pki.Authority, error) {
	hosts := tcpHosts(h.at.listen, h.sockets)
	if len(hosts) == 0 {
		return nil, nil
	}
	authority, err := pki.OpenAuthority(filepath.Join(h.at.data, "trust"))
	if err != nil {
		return nil, err
	}
	if authority.Created() {
		h.log.Info("a new authority signs certificates: agents that joined another one have to join again")
	}
	h.log.Info("nodes know this service by its authority", "pin", authority.Pin().String())
	server, err := authority.Server(h.at.node, namesOf(hosts)...)
	if err != nil {
		return nil, err
	}
	o.TLS = pki.ServerTLS(pki.ServerOptions{Certificate: server.Certificate, Authorities: authority.Authorities, Admit: o.Admit})
	h.metrics.Sample(func(s *telemetry.Sample) {
		if c, err := server.Certificate(); err == nil {
			s.Certificate(telemetry.CertServer, c.Leaf.NotBefore, c.Leaf.NotAfter)
			s.Certificate(telemetry.CertAuthority, began(c.Certificate, authority.Expires()), authority.Expires())
		}
	})
	return authority, nil
}

// began finds when the certificate in a chain began that ends at a time.
func began(chain [][]byte, expires time.Time) time.Time {
	for _, der := range chain {
		if c, err := x509.ParseCertificate(der); err == nil && c.NotAfter.Equal(expires) {
			return c.NotBefore
		}
	}
	return time.Time{}
}

// tcpHosts are the hosts of the addresses over TCP.
func tcpHosts(listen []string, sockets []net.Listener) (hosts []string) {
	for _, l := range sockets {
		listen = append(slices.Clone(listen), l.Addr().Network()+"://"+l.Addr().String())
	}
	for _, address := range listen {
		if target, is := strings.CutPrefix(address, "tcp://"); is {
			if name, _, err := net.SplitHostPort(target); err == nil {
				hosts = append(hosts, name)
			}
		}
	}
	return hosts
}

// namesOf are the names and addresses by which others may call this server. One that
// listens on all addresses has those of all its interfaces.
func namesOf(hosts []string) (names []string) {
	for _, name := range hosts {
		if ip := net.ParseIP(name); name != "" && (ip == nil || !ip.IsUnspecified()) {
			names = append(names, name)
			continue
		}
		if own, err := os.Hostname(); err == nil && pki.ValidName(own) {
			names = append(names, own)
		}
		all, _ := net.InterfaceAddrs() // those that can not be asked for are not in the certificate
		for _, a := range all {
			if ip, is := a.(*net.IPNet); is && !ip.IP.IsLinkLocalUnicast() {
				names = append(names, ip.IP.String())
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
