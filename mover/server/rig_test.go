package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/server/auditlog"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/server/osaccount"
	"datamove.dev/mover/server/pki"
	"datamove.dev/mover/telemetry"
	"datamove.dev/test/must"
)

func TestMain(m *testing.M) {
	if run := children[os.Getenv("DOOR_CHILD")]; run != nil {
		run()
		return
	}
	goleak.VerifyTestMain(m)
}

// children are what this test binary does when a test starts it as a process of its own.
var children = map[string]func(){}

// ada and bob have accounts on this node, and ada the certificate laptop.
var (
	ada = osaccount.Account{UID: 61001, GID: 61001, Name: "ada", GroupNames: []string{"vision"}}
	bob = osaccount.Account{UID: 61002, GID: 61002, Name: "bob"}
)

// accounts are those of a node on whose sockets always the same person calls.
type accounts struct {
	mu   sync.Mutex
	peer osaccount.Account // guarded by mu, as the next
	err  error
}

func (a *accounts) set(who osaccount.Account, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.peer, a.err = who, err
}

func (a *accounts) Peer(context.Context, *net.UnixConn) (osaccount.Account, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.peer, a.err
}

func (a *accounts) Named(_ context.Context, name string) (osaccount.Account, error) {
	for _, who := range []osaccount.Account{ada, bob} {
		if who.Name == name {
			return who, nil
		}
	}
	return osaccount.Account{}, fmt.Errorf("%w: %s has no account", mover.ErrPermission, name)
}

func (a *accounts) Numbered(ctx context.Context, uid uint32) (osaccount.Account, error) {
	for _, who := range []osaccount.Account{ada, bob, {UID: 990, Name: "datamove"}} {
		if who.UID == uid {
			return who, nil
		}
	}
	return osaccount.Account{}, fmt.Errorf("%w: uid %d has no account", mover.ErrPermission, uid)
}

// records is an audit log in memory.
type records struct {
	mu  sync.Mutex
	all []auditlog.Record // guarded by mu, as the next
	err error
}

func (r *records) append(_ context.Context, one auditlog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	r.all = append(r.all, one)
	return nil
}

func (r *records) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

// take returns the records since the last call.
func (r *records) take() []auditlog.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all
	r.all = nil
	return all
}

// desk is a service that tells who called it.
type desk struct {
	datamovev1.UnimplementedTaskServiceServer
	datamovev1.UnimplementedDatasetServiceServer
	datamovev1.UnimplementedTierServiceServer
	datamovev1.UnimplementedAgentServiceServer
	datamovev1.UnimplementedPolicyServiceServer
	datamovev1.UnimplementedCatalogServiceServer
	datamovev1.UnimplementedBurstServiceServer
	datamovev1.UnimplementedUsageServiceServer
	datamovev1.UnimplementedAdminServiceServer
	agentv1.UnimplementedLinkServiceServer
	agentv1.UnimplementedEnrollServiceServer

	audit func(context.Context, auditlog.Record) error // nil writes nothing down
	hold  chan struct{}                                // until it is closed, ResumeTask of "held" waits

	mu    sync.Mutex
	calls []authz.Caller // guarded by mu
}

func (s *desk) register(r grpc.ServiceRegistrar) {
	datamovev1.RegisterTaskServiceServer(r, s)
	datamovev1.RegisterDatasetServiceServer(r, s)
	datamovev1.RegisterTierServiceServer(r, s)
	datamovev1.RegisterAgentServiceServer(r, s)
	datamovev1.RegisterPolicyServiceServer(r, s)
	datamovev1.RegisterCatalogServiceServer(r, s)
	datamovev1.RegisterBurstServiceServer(r, s)
	datamovev1.RegisterUsageServiceServer(r, s)
	datamovev1.RegisterAdminServiceServer(r, s)
	agentv1.RegisterLinkServiceServer(r, s)
	agentv1.RegisterEnrollServiceServer(r, s)
}

// saw notes the caller of a call.
func (s *desk) saw(ctx context.Context) authz.Caller {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, authz.From(ctx))
	return authz.From(ctx)
}

// take returns who called since the last time.
func (s *desk) take() []authz.Caller {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

func (s *desk) GetInfo(ctx context.Context, _ *datamovev1.GetInfoRequest) (*datamovev1.Info, error) {
	c := s.saw(ctx)
	return &datamovev1.Info{Caller: &datamovev1.Account{Name: c.Name, Uid: c.UID}}, nil
}

func (s *desk) SubmitTask(ctx context.Context, r *datamovev1.SubmitTaskRequest) (*datamovev1.Task, error) {
	s.saw(ctx)
	return &datamovev1.Task{Id: "t1", Spec: r.GetSpec()}, nil
}

// GetTask knows no task but those of others.
func (s *desk) GetTask(ctx context.Context, r *datamovev1.GetTaskRequest) (*datamovev1.Task, error) {
	s.saw(ctx)
	err := &mover.Error{Op: "show", Location: "task " + r.GetId(), Err: fmt.Errorf("%w: it is somebody else's", mover.ErrPermission)}
	if s.audit != nil {
		_ = s.audit(ctx, auditlog.Record{Object: r.GetId(), Reason: "owner"})
	}
	return nil, err
}

// CancelTask panics.
func (s *desk) CancelTask(context.Context, *datamovev1.CancelTaskRequest) (*datamovev1.Task, error) {
	panic("secret things")
}

// WatchTask sends three tasks, or, for "forever", one, and waits.
func (s *desk) WatchTask(r *datamovev1.WatchTaskRequest, stream datamovev1.TaskService_WatchTaskServer) error {
	s.saw(stream.Context())
	for i := range 3 {
		if err := stream.Send(&datamovev1.Task{Id: fmt.Sprint(i)}); err != nil {
			return err
		}
		if r.GetId() == "forever" {
			<-stream.Context().Done()
			return stream.Context().Err()
		}
	}
	return &mover.Error{Op: "watch", Location: "task " + r.GetId(), Err: mover.ErrNotExist}
}

// PauseTask waits until the call has to end, for "forever".
func (s *desk) PauseTask(ctx context.Context, r *datamovev1.PauseTaskRequest) (*datamovev1.Task, error) {
	s.saw(ctx)
	if r.GetId() != "forever" {
		return &datamovev1.Task{}, nil
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// ResumeTask takes as long as the test wants.
func (s *desk) ResumeTask(ctx context.Context, r *datamovev1.ResumeTaskRequest) (*datamovev1.Task, error) {
	s.saw(ctx)
	if r.GetId() == "held" {
		<-s.hold
	}
	return &datamovev1.Task{Id: "resumed"}, nil
}

func (s *desk) Confirm(ctx context.Context, _ *agentv1.ConfirmRequest) (*agentv1.ConfirmResponse, error) {
	s.saw(ctx)
	return &agentv1.ConfirmResponse{}, nil
}

func (s *desk) Join(ctx context.Context, _ *agentv1.JoinRequest) (*agentv1.Certificate, error) {
	s.saw(ctx)
	return &agentv1.Certificate{}, nil
}

// rig is a door with everything around it.
type rig struct {
	*Server
	t             testing.TB
	desk          *desk
	records       *records
	accounts      *accounts
	authority     *pki.Authority
	authorityFile string
	socket        string // unix:// address

	mu      sync.Mutex
	revoked map[string]bool // names of certificates; guarded by mu, as the next
	rules   *authz.Rules
}

// input is the configuration of most tests.
func input() authz.Input {
	return authz.Input{
		UID:   uint32(os.Geteuid()),
		Roles: map[string]authz.Role{"operator": {Members: []string{"bob"}, May: []string{"task.*"}}},
		Users: map[string]string{"laptop": "ada"},
	}
}

// newRig starts a door with a socket, TLS on a port, and a page; change may change that.
func newRig(t testing.TB, change ...func(*Options)) *rig {
	t.Helper()
	r := unstarted(t, change...)
	r.run()
	return r
}

// unstarted is a rig that does not serve yet.
func unstarted(t testing.TB, change ...func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, desk: &desk{}, records: &records{}, accounts: &accounts{peer: ada}, revoked: map[string]bool{}}
	r.configure(input())
	dir := filepath.Join(t.TempDir(), "trust")
	r.authorityFile = filepath.Join(dir, "authority.pem")
	var err error
	if r.authority, err = pki.OpenAuthority(dir); err != nil {
		t.Fatal(err)
	}
	server, err := r.authority.Server("node-0", "127.0.0.1")
	must.Do(t, err)
	r.socket = "unix://" + filepath.Join(shortDir(t), "door", "s")
	o := Options{
		Listen: []string{r.socket, "tcp://127.0.0.1:0"}, Page: "127.0.0.1:0",
		Rules: func() Rules { return r.current() }, Accounts: r.accounts, Audit: r.records.append,
		TLS:      pki.ServerTLS(pki.ServerOptions{Certificate: server.Certificate, Authorities: r.authority.Authorities}),
		Admit:    r.admit,
		Register: r.desk.register,
		Metrics:  telemetry.New(telemetry.Options{}),
		Web:      http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "the page") }),
	}
	for _, f := range change {
		f(&o)
	}
	if r.Server, err = Open(o); err != nil {
		t.Fatal(err)
	}
	return r
}

// run serves until the test is over.
func (r *rig) run() {
	served := make(chan error, 1)
	go func() { served <- r.Serve() }()
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		r.Stop(ctx)
		if err := <-served; err != nil {
			r.t.Errorf("Serve returned %v", err)
		}
		for _, c := range []*connLimit{r.locals, r.arrivals, r.remotes, r.strangers, r.onPage, r.scrapers} {
			if n := c.size(); n != 0 {
				r.t.Errorf("%d connections are still counted", n)
			}
		}
	})
}

// shortDir is a directory whose name leaves room for that of a socket.
func shortDir(t testing.TB) string {
	t.Helper()
	dir := must.Get(os.MkdirTemp("/tmp", "door"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (r *rig) configure(in authz.Input) {
	rules := must.Get(authz.New(in))(r.t)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rules = rules
}

func (r *rig) current() *authz.Rules {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rules
}

func (r *rig) revoke(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.revoked[name] = true
}

func (r *rig) admit(id pki.Identity) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.revoked[id.Name] {
		return fmt.Errorf("%w: the certificate of %s is revoked", mover.ErrPermission, id.Name)
	}
	return nil
}

// port is the address over TCP.
func (r *rig) port() string {
	i := slices.IndexFunc(r.Addresses(), func(a string) bool { return strings.HasPrefix(a, "tcp://") })
	return strings.TrimPrefix(r.Addresses()[i], "tcp://")
}

// certificate makes a key and has the authority sign it, or authority itself.
func certificate(t testing.TB, a *pki.Authority, id pki.Identity) *pki.Store {
	t.Helper()
	k, err := pki.OpenStore(filepath.Join(t.TempDir(), "k"), id, pki.StoreOptions{})
	must.Do(t, err)
	err = k.Obtain(context.Background(), func(_ context.Context, csr []byte) ([]byte, []byte, error) {
		i, err := a.Issue(csr, id, 0)
		return i.Certificate, i.Authority, err
	})
	must.Do(t, err)
	return k
}

// tlsAs is how somebody with a certificate calls; nil has none.
func (r *rig) tlsAs(k *pki.Store) *tls.Config {
	o := pki.ClientOptions{Authorities: r.authority.Authorities}
	if k != nil {
		o.Certificate = k.Certificate
	}
	return pki.ClientTLS(o)
}

func (r *rig) agent(name string) *tls.Config {
	return r.tlsAs(certificate(r.t, r.authority, pki.Identity{Role: pki.Agent, Name: name}))
}

func (r *rig) user(commonName string) *tls.Config {
	return r.tlsAs(certificate(r.t, r.authority, pki.Identity{Role: pki.User, Name: commonName}))
}

// dial connects by gRPC: with TLS to the port, without to the socket.
func (r *rig) dial(config *tls.Config) *grpc.ClientConn {
	r.t.Helper()
	target, creds := "unix:"+strings.TrimPrefix(r.socket, "unix://"), insecure.NewCredentials()
	if config != nil {
		target, creds = "passthrough:///"+r.port(), credentials.NewTLS(config)
	}
	conn := must.Get(grpc.NewClient(target, grpc.WithTransportCredentials(creds), grpc.WithNoProxy(), grpc.WithDisableRetry()))(r.t)
	r.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// browse is a client for HTTP/1.1: over the socket, over TLS, or to the page.
func (r *rig) browse(dial func(context.Context) (net.Conn, error)) *http.Client {
	to := func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }
	tr := &http.Transport{DialContext: to, DialTLSContext: to}
	r.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func (r *rig) overSocket() *http.Client {
	return r.browse(func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", strings.TrimPrefix(r.socket, "unix://"))
	})
}

func (r *rig) overTLS(config *tls.Config) *http.Client {
	config = config.Clone()
	config.NextProtos = []string{"http/1.1"}
	return r.browse(func(ctx context.Context) (net.Conn, error) {
		return (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", r.port())
	})
}

func (r *rig) onLoopback() *http.Client {
	return r.browse(func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", r.PageAddress())
	})
}

func info(conn grpc.ClientConnInterface) (*datamovev1.Info, error) {
	return datamovev1.NewAdminServiceClient(conn).GetInfo(context.Background(), &datamovev1.GetInfoRequest{})
}

// pipes is a listener whose connections stay in the process.
type pipes struct {
	network string
	conns   chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func newPipes(network string) *pipes {
	return &pipes{network: network, conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (p *pipes) dial() net.Conn {
	ours, theirs := net.Pipe()
	p.conns <- theirs
	return ours
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error    { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr  { return p }
func (p *pipes) Network() string { return p.network }
func (p *pipes) String() string  { return "127.0.0.1:1" }

var errDisk = errors.New("the disk is gone")

func confirm(conn grpc.ClientConnInterface) (*agentv1.ConfirmResponse, error) {
	return agentv1.NewLinkServiceClient(conn).Confirm(context.Background(), &agentv1.ConfirmRequest{})
}

// inner connects by a dialer of the server.
func inner(t testing.TB, dial func(context.Context) (net.Conn, error)) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///inside", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) }))
	must.Do(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// eventually waits for what happens soon after something else, in another goroutine.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// size is how many connections there are, of all peers.
func (c *connLimit) size() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.of {
		n += k
	}
	return n
}
