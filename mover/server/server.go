package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/reflection"

	"datamove.dev/api"
	"datamove.dev/mover"
	"datamove.dev/mover/server/auditlog"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/server/pki"
	"datamove.dev/mover/telemetry"
)

// Rules decide what a caller may call. *authz.Rules are some.
type Rules interface {
	MayCall(c authz.Caller, method string) authz.Decision
	MayActFor(c authz.Caller, uid uint32) authz.Decision
	Person(commonName string) (name string, ok bool)
	Roles(c authz.Caller) []string
}

// Options are a server's. Rules, Accounts, Audit, and Register or Forward have to be given.
type Options struct {
	Listen    []string       // unix:///path or tcp://host:port
	Activated []net.Listener // that systemd opened for us; one of them takes the place of its address in Listen
	Scrape    string         // host:port of metrics and health for the network, without TLS; "" is none
	Page      string         // loopback host:port of metrics and the page without TLS; "" is none

	Rules    func() Rules // of this moment
	Accounts Accounts
	Audit    func(context.Context, auditlog.Record) error // writes down a decision; an error denies
	TLS      *tls.Config                                  // as of pki.ServerTLS; tcp:// needs it
	Admit    func(pki.Identity) error                     // asked at each call by certificate; nil lets all of them in

	Register func(grpc.ServiceRegistrar) // adds the services
	Forward  grpc.ClientConnInterface    // the connection that answers where Register is nil, see [Passing]
	Web      http.Handler                // the page; nil is none
	Health   func(context.Context) error // what is told on Scrape; nil asks Alive
	Server   []grpc.ServerOption         // what else gRPC is to do, as a stats handler for traces

	Limits  Limits
	Metrics *telemetry.Metrics // nil counts nothing
	Logger  *slog.Logger       // nil means no log

	pair func() (ours, theirs net.Conn, err error) // of tests
}

// Limits are the sizes of crowds. The zero value works.
type Limits struct {
	Connections  int           // by unix sockets, and by TCP; 0 means 4096 each
	EachPeer     int           // connections of one uid, address or certificate; 0 means 256
	Calls        int           // open calls of one caller, as streams are; 0 means 256
	Short        int           // of them those of one person that are no streams; 0 means 32
	Rate         int           // calls per second of one person, twice as many at once; 0 means 500
	AgentRate    int           // of an agent, root, and the uid that runs the service; 0 means 20,000
	StrangerRate int           // of an address over TCP without a certificate; 0 means 20
	Patience     time.Duration // with a peer that connects and says nothing, or sends headers slowly; 0 means 10 s
	Unread       int64         // bytes of answers that one person has not read; 0 means 32 MiB
	Longest      time.Duration // that a call may take which is no stream; 0 means a minute
}

func (l Limits) orDefaults() Limits {
	return Limits{
		Connections: cmp.Or(l.Connections, min(4096, maxFiles()/4)), EachPeer: cmp.Or(l.EachPeer, 256), Calls: cmp.Or(l.Calls, 256), Short: cmp.Or(l.Short, 32),
		Rate: cmp.Or(l.Rate, 500), AgentRate: cmp.Or(l.AgentRate, 20_000), StrangerRate: cmp.Or(l.StrangerRate, 20),
		Unread: cmp.Or(l.Unread, 32<<20), Patience: cmp.Or(l.Patience, 10*time.Second), Longest: cmp.Or(l.Longest, time.Minute),
	}
}

// maxFiles is how many files this process may have open.
func maxFiles() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(limit.Cur)
}

// Sizes that need no setting.
const (
	maxCallers     = 10_000
	maxStrangers   = 64 // connections over TCP without a certificate, and of each address
	eachStranger   = 4
	maxPageConns   = 128
	maxScrapers    = 64
	eachScraper    = 8
	personStreams  = 32       // calls on one connection
	agentStreams   = 8192     // an agent has one connection for all that it does
	maxHeader      = 16 << 10 // of HTTP/1
	maxPersonWords = 32 << 10 // of headers of a call
	maxAgentWords  = 512 << 10
	personMessage  = 2 << 20 // a request of a person; no change of the ledger has more than half of it
	deniedRate     = 5       // denials of a caller that are recorded, per second
	deniedBurst    = 1000    // and at once
	personRead     = 4 << 10 // buffers of a connection
	personWrite    = 8 << 10
)

// Server lets callers in. Open makes one, Serve runs it.
type Server struct {
	o      Options
	log    *slog.Logger
	limits Limits
	self   uint32 // that runs us

	entrances []entrance
	people    *grpc.Server // many connections with few calls
	agents    *grpc.Server // few with many: our own HTTP side is one of them
	web       *http.Server
	toPeople  *passage
	toAgents  *passage
	toWeb     *passage
	health    *health.Server

	callers   *callers
	locals    *connLimit // on unix sockets
	arrivals  *connLimit // over TCP, until they are known
	remotes   *connLimit // over TCP, with a certificate
	strangers *connLimit // over TCP, without
	onPage    *connLimit
	scrapers  *connLimit

	arriving sync.WaitGroup // accept loops, and connections that are not yet handed over
	ctx      context.Context
	cancel   context.CancelFunc // ends what arrives, and what lasts
	stop     func()             // the entrances

	mu      sync.Mutex
	gateway http.Handler // made for the first request that needs it; guarded by mu, as all below
	inner   *api.Client
}

// Open opens every address. Before Serve, clients can connect, and none is let in.
func Open(o Options) (*Server, error) {
	if o.Rules == nil || o.Accounts == nil || o.Audit == nil || (o.Register == nil) == (o.Forward == nil) {
		return nil, errors.New("server: rules, accounts, audit, and either services or a server to forward to are needed")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.pair == nil {
		o.pair = pair
	}
	l := o.Limits.orDefaults()
	d := &Server{
		o: o, log: o.Logger, limits: l, self: uint32(os.Geteuid()),
		toPeople: newPassage("people"), toAgents: newPassage("agents"), toWeb: newPassage("web"),
		callers: newCallers(maxCallers), locals: newConnLimit(l.Connections, l.EachPeer), arrivals: newConnLimit(l.Connections, l.EachPeer),
		remotes: newConnLimit(l.Connections, l.EachPeer), strangers: newConnLimit(maxStrangers, eachStranger), onPage: newConnLimit(maxPageConns, maxPageConns), scrapers: newConnLimit(maxScrapers, eachScraper),
		health: health.NewServer(),
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.stop = sync.OnceFunc(d.closeEntrances)
	if err := d.open(); err != nil {
		d.cancel()
		d.stop()
		return nil, err
	}
	d.serve()
	return d, nil
}

// open opens the entrances.
func (d *Server) open() error {
	ready := slices.Clone(d.o.Activated)
	for _, l := range ready {
		d.entrances = append(d.entrances, entrance{Listener: l, remote: l.Addr().Network() == "tcp"})
	}
	for _, address := range d.o.Listen {
		if slices.ContainsFunc(ready, func(l net.Listener) bool { return addressOf(l) == address }) {
			continue
		}
		l, err := listen(address)
		if err != nil {
			return err
		}
		d.entrances = append(d.entrances, entrance{Listener: l, remote: l.Addr().Network() == "tcp"})
	}
	if d.o.TLS == nil && slices.ContainsFunc(d.entrances, func(e entrance) bool { return e.remote }) {
		return fmt.Errorf("%w: tcp:// needs TLS", mover.ErrUsage)
	}
	for _, bare := range []entrance{{page: true}, {scrape: true}} {
		address := d.o.Page
		if bare.scrape {
			address = d.o.Scrape
		}
		if address == "" {
			continue
		}
		l, err := openTCP(address)
		if err != nil {
			return &mover.Error{Op: "listen on", Location: address, Err: err}
		}
		bare.Listener = l
		d.entrances = append(d.entrances, bare)
	}
	return nil
}

// serve makes the servers.
func (d *Server) serve() {
	d.people = d.server(personStreams, maxPersonWords, grpc.MaxRecvMsgSize(personMessage), grpc.ReadBufferSize(personRead), grpc.WriteBufferSize(personWrite),
		experimental.BufferPool(mem.NopBufferPool{})) // a pool keeps a MiB for each answer that has not left

	d.agents = d.server(agentStreams, maxAgentWords)
	d.web = &http.Server{
		Handler: http.HandlerFunc(d.serveHTTP), ConnContext: webContext, ErrorLog: slog.NewLogLogger(d.log.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: d.limits.Patience, IdleTimeout: time.Minute, MaxHeaderBytes: maxHeader,
	}
	if d.o.Register == nil {
		return
	}
	for _, s := range []*grpc.Server{d.people, d.agents} {
		d.o.Register(s)
		grpc_health_v1.RegisterHealthServer(s, d.health)
		reflection.Register(s)
	}
}

func (d *Server) server(streams, words uint32, more ...grpc.ServerOption) *grpc.Server {
	codec := messages
	if d.o.Forward != nil {
		codec = frames{}
	}
	o := append(api.ServerOptions(), // first, so that it translates the errors of all others
		grpc.Creds(handshakes{}), grpc.InTapHandle(d.arrive), grpc.MaxConcurrentStreams(streams), grpc.MaxHeaderListSize(words),
		grpc.ChainUnaryInterceptor(d.unary), grpc.ChainStreamInterceptor(d.stream),
		grpc.UnknownServiceHandler(d.unknown), d.o.Metrics.ServerOption(),
		grpc.ForceServerCodecV2(counting{codec}))
	return grpc.NewServer(slices.Concat(o, more, d.o.Server)...)
}

// Addresses are where the server listens, with the ports that it got.
func (d *Server) Addresses() []string {
	var all []string
	for _, e := range d.entrances {
		if !e.page && !e.scrape {
			all = append(all, addressOf(e))
		}
	}
	return all
}

// PageAddress is host:port of the page; "" where there is none.
func (d *Server) PageAddress() string {
	for _, e := range d.entrances {
		if e.page {
			return e.Addr().String()
		}
	}
	return ""
}

// ScrapeAddress is host:port of metrics for the network; "" where there is none.
func (d *Server) ScrapeAddress() string {
	for _, e := range d.entrances {
		if e.scrape {
			return e.Addr().String()
		}
	}
	return ""
}

// Serve lets callers in until Stop, and returns when all of them are gone.
func (d *Server) Serve() error {
	var all sync.WaitGroup
	errs := make([]error, 3)
	all.Go(func() { errs[0] = d.people.Serve(d.toPeople) })
	all.Go(func() { errs[1] = d.agents.Serve(d.toAgents) })
	all.Go(func() { errs[2] = d.web.Serve(d.toWeb) })
	for _, e := range d.entrances {
		d.arriving.Go(func() { d.accept(e) })
	}
	all.Wait()
	d.arriving.Wait()
	for i, err := range errs {
		if errors.Is(err, http.ErrServerClosed) || errors.Is(err, grpc.ErrServerStopped) || errors.Is(err, net.ErrClosed) {
			errs[i] = nil
		}
	}
	return errors.Join(errs...)
}

// Stop lets no caller in any more, and ends streams, so that their clients try again. It
// waits until calls that are under way have their answers, or ctx ends.
func (d *Server) Stop(ctx context.Context) {
	d.health.Shutdown()
	d.cancel()
	d.stop()
	over := context.AfterFunc(ctx, func() {
		_ = d.web.Close()
		d.people.Stop()
		d.agents.Stop()
	})
	defer over()
	_ = d.web.Shutdown(ctx) // it calls the others, so it goes first
	var all sync.WaitGroup
	all.Go(d.people.GracefulStop)
	all.Go(d.agents.GracefulStop)
	all.Wait()
	for _, p := range []*passage{d.toPeople, d.toAgents, d.toWeb} {
		p.close()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inner != nil {
		_ = d.inner.Close()
	}
}

func (d *Server) closeEntrances() {
	for _, e := range d.entrances {
		_ = e.Close() // there is no caller to tell
	}
}
