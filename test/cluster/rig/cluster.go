package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"datamove.dev/api"
	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamoved/runners"
	"datamove.dev/mover"
	"datamove.dev/mover/agent"
	"datamove.dev/mover/agent/replicadir"
	"datamove.dev/mover/agent/sandbox"
	"datamove.dev/mover/agent/worker"
	"datamove.dev/mover/config"
	"datamove.dev/mover/coordinator"
	"datamove.dev/mover/coordinator/clock"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/server/osaccount"
	"datamove.dev/mover/task"
	"datamove.dev/test/memnet"
	"datamove.dev/test/must"
	"datamove.dev/test/patience"
	"datamove.dev/tiering/burst/burstserver"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/dataset/datasetserver"
	"datamove.dev/tiering/policy"
)

// connBytes is how much a connection in memory holds.
const connBytes = 64 << 10

// FileSystem is what the workers of [Processes] know of the file system of an open directory; nil is nothing. It is set before Main.
var FileSystem func(dir int) (mover.FileSystem, error)

// Main runs the tests of a package. Its program is also the worker of [Processes].
func Main(m *testing.M) {
	Be()
	os.Exit(m.Run())
}

// Be is the part of Main before the tests.
func Be() {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		conn, err := sandbox.Child()
		if err == nil {
			err = worker.Run(context.Background(), conn, worker.Options{Runners: runners.Of(nil), Stderr: os.Stderr, FileSystem: FileSystem})
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// Bubble runs a test in virtual time, which begins now.
func Bubble(t *testing.T, do func(*testing.T)) {
	t.Helper()
	now := time.Now().Round(0)
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(now))
		do(t)
	})
}

// Cluster is a coordinator and its agents in this process.
type Cluster struct {
	t      testing.TB
	Dir    string // everything is below it
	Conf   atomic.Pointer[config.Config]
	Lease  time.Duration // of agents; it counts from the next Start on
	Agents map[string]*Agent

	Program  []string             // of workers of agents of now on; nil are goroutines in virtual time
	Accounts *osaccount.Directory // nil are those of this machine
	home     func(ctx context.Context, tier, dir string, labels map[string]string, gid uint32) error
	Peers    *Peers          // how agents of now on give each other what they stage; nil is not at all
	Stores   *memnet.Network // object stores, and what stands for AWS, as workers reach them: the address of a worker is AGENT/PID; nil is none
	Mute     atomic.Bool     // calls of people are done and not answered, until the coordinator is killed
	real     bool
	weather  atomic.Pointer[Weather]
	ahead    atomic.Int64 // the clock of the coordinator's machine
	disk     *disk        // of the ledger; nil in real time
	refusals sync.Map     // errors, by the directory below which workers that are goroutines can not write
	catalog  bool
	known    *catalog.Catalog // of the coordinator that runs; nil is none
	policies atomic.Pointer[[]*policy.Program]

	*api.Client
	ledger   *state.Ledger
	listener atomic.Pointer[bufconn.Listener]
	server   *grpc.Server
	stop     context.CancelFunc
	ran      chan struct{}
	workers  *workers
}

// Agent is an agent of a cluster.
type Agent struct {
	Breaks atomic.Bool // its conversation ends with the next work that it is given

	stop  context.CancelFunc
	ended chan struct{}
	conn  *grpc.ClientConn
	agent *agent.Agent
	shut  atomic.Bool // nothing of it gets through
	dead  atomic.Bool // it was killed
}

// passes says why nothing of it gets through.
func (m *Agent) passes() error {
	switch {
	case m.dead.Load():
		return status.Error(codes.Internal, errKilled.Error()) // it does not try again
	case m.shut.Load():
		return status.Error(codes.Unavailable, "cut off")
	}
	return nil
}

// Options say how a cluster begins.
type Options struct {
	Dir      string                                                                                  // everything is below it; "" is a temporary directory
	Conf     *config.Config                                                                          // nil is a shared tier, "shared", and a node-local one, "scratch"; each agent has its own at ScratchOf
	Accounts *osaccount.Directory                                                                    // nil are those of this machine
	Program  []string                                                                                // of workers; nil are goroutines
	Home     func(ctx context.Context, tier, dir string, labels map[string]string, gid uint32) error // as agents have it; nil is none
	Power    bool                                                                                    // the power of the coordinator's machine may be cut
	Real     bool                                                                                    // time is real, and nothing can be killed but a Program
	Catalog  bool                                                                                    // the coordinator has a catalog and policies
}

// New starts a coordinator with the shared tier "shared" and a node-local one,
// "scratch", and agents of the given names. It is called in a bubble.
func New(t testing.TB, agents ...string) *Cluster {
	t.Helper()
	return Open(t, Options{}, agents...)
}

// Processes is New in real time, with workers that are processes of this program; see
// [Main].
func Processes(t testing.TB, agents ...string) *Cluster {
	t.Helper()
	self := must.Get(os.Executable())(t)
	return Open(t, Options{Program: []string{self, "worker"}, Real: true}, agents...)
}

// Open is New with options.
func Open(t testing.TB, o Options, agents ...string) *Cluster {
	t.Helper()
	dir := o.Dir
	if dir == "" {
		dir = t.TempDir()
	}
	c := &Cluster{t: t, Dir: dir, Lease: 2 * time.Second, Program: o.Program, Accounts: o.Accounts, home: o.Home, real: o.Real, catalog: o.Catalog, Agents: map[string]*Agent{}}
	c.workers = &workers{cluster: c, all: map[int]*goroutine{}}
	if !o.Real {
		c.disk = &disk{cluster: c, dir: c.ledgerDir(), image: filepath.Join(dir, "ledger.synced")}
	}
	if o.Power {
		c.disk.cuts = true
	}
	if o.Conf == nil {
		scratch := filepath.Join(dir, "scratch")
		if len(agents) == 1 {
			scratch = ScratchOf(dir, agents[0])
		}
		o.Conf = &config.Config{Tiers: map[string]config.Tier{
			"shared":  {Level: "warm", Path: filepath.Join(dir, "shared")},
			"scratch": {Level: "hot", Path: scratch, Ephemeral: true, NodeLocal: true},
		}}
	}
	c.Conf.Store(o.Conf)
	made := []string{c.data()}
	for _, tier := range o.Conf.Tiers {
		if tier.Path != "" {
			made = append(made, tier.Path)
		}
	}
	for _, d := range made {
		must.Do(t, os.MkdirAll(d, 0o755))
	}
	c.Start()
	t.Cleanup(c.close)
	for _, name := range agents {
		c.Join(name)
	}
	return c
}

// People have accounts on every node of a cluster that admits them.
var People = map[string]uint32{"alice": 54001, "bob": 54002}

// Accounts are those of root and of People, for a cluster in which work is done as them.
func Accounts(t testing.TB) *osaccount.Directory {
	t.Helper()
	etc := t.TempDir()
	text := "root:x:0:0::/root:/bin/sh\n"
	for name, uid := range People {
		text += fmt.Sprintf("%s:x:%d:%d::/nonexistent:/bin/sh\n", name, uid, uid)
	}
	for name, text := range map[string]string{"passwd": text, "group": "root:x:0:\n"} {
		must.Do(t, os.WriteFile(filepath.Join(etc, name), []byte(text), 0o644))
	}
	return osaccount.In(etc)
}

// Metadata stands for what the server finds out of a caller.
const (
	callerKey = "test-caller"
	personKey = "test-person"
)

// As is a context of calls by one of People.
func As(name string) context.Context {
	return AsIn(context.Background(), name)
}

func identified(ctx context.Context) context.Context {
	md, _ := metadata.FromIncomingContext(ctx)
	caller := authz.Caller{Name: "root", UID: uint32(os.Geteuid()), Via: authz.Local}
	if v := md.Get(personKey); len(v) > 0 {
		caller = authz.Caller{Name: v[0], UID: People[v[0]], Via: authz.Local}
	}
	if v := md.Get(callerKey); len(v) > 0 {
		caller = authz.Caller{Name: v[0], Agent: v[0], Via: authz.Agent}
	}
	if v := md.Get(api.ForKey); len(v) > 0 { // that the caller may is for mover/server to say
		if uid, err := strconv.ParseUint(v[0], 10, 32); err == nil {
			caller = authz.Caller{Name: nameOf(uint32(uid)), UID: uint32(uid), Via: authz.Local, By: caller.String()}
		}
	}
	return authz.With(ctx, caller)
}

// nameOf is one of People, or root; "" is another account.
func nameOf(uid uint32) string {
	for name, n := range People {
		if n == uid {
			return name
		}
	}
	if uid == uint32(os.Geteuid()) {
		return "root"
	}
	return ""
}

type identifiedStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s identifiedStream) Context() context.Context { return s.ctx }

// rules are those of the configuration as it is now.
func (c *Cluster) rules() *authz.Rules {
	in := authz.Input{UID: uint32(os.Geteuid()), Tiers: map[string]string{}, Projects: map[string]authz.Project{}}
	for name, t := range c.Conf.Load().Tiers {
		in.Tiers[name] = t.Path
	}
	for name, p := range c.Conf.Load().Projects {
		in.Projects[name] = authz.Project{Roots: p.Roots, Members: p.Members}
	}
	r, err := authz.New(in)
	if err != nil {
		panic(err) // of a test's own configuration
	}
	return r
}

func (c *Cluster) data() string      { return filepath.Join(c.Dir, "data") }
func (c *Cluster) ledgerDir() string { return filepath.Join(c.data(), "ledger") }

// Start starts the coordinator, or starts it again.
func (c *Cluster) Start() {
	c.t.Helper()
	var err error
	var o state.Options
	if c.disk != nil {
		o.Log = c.disk.log
	}
	if c.ledger, err = state.Open(c.ledgerDir(), o); err != nil {
		c.t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(testWriter{}, &slog.HandlerOptions{Level: slog.LevelInfo}))
	ticks := clock.New(c.wall, nil)
	s, err := coordinator.New(context.Background(), coordinator.Options{
		Rules: c.rules, Ledger: c.ledger, Config: c.Conf.Load, Node: "n1", Version: "test",
		Data: c.data(), Lease: c.Lease, Logger: log, Clock: ticks,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.server = grpc.NewServer(append(api.ServerOptions(),
		grpc.ChainUnaryInterceptor(func(ctx context.Context, r any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
			answer, err := h(identified(ctx), r)
			if c.Mute.Load() && len(metadata.ValueFromIncomingContext(ctx, callerKey)) == 0 {
				<-ctx.Done()
			}
			return answer, err
		}),
		grpc.ChainStreamInterceptor(func(srv any, st grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) error {
			return h(srv, identifiedStream{st, identified(st.Context())})
		}))...)
	datasets, err := datasetserver.New(context.Background(), datasetserver.Options{
		Coordinator: s, Ledger: c.ledger, Config: c.Conf.Load, Rules: c.rules, Logger: log, Clock: ticks, Node: "n1", Data: c.data(),
	})
	if err != nil {
		c.t.Fatal(err)
	}
	s.UseDatasets(datasets)
	bursts := burstserver.New(burstserver.Options{Coordinator: s, Datasets: datasets, Ledger: c.ledger, Config: c.Conf.Load, Rules: c.rules, Logger: log, Now: time.Now})
	s.Register(c.server)
	datasets.Register(c.server)
	bursts.Register(c.server)
	link := datasets.Link(s.Link())
	if c.catalog {
		link = c.servePolicies(s, datasets, link, log)
	}
	agentv1.RegisterLinkServiceServer(c.server, bursts.Link(link))
	l := bufconn.Listen(connBytes)
	c.listener.Store(l)
	server := c.server
	go func() { _ = server.Serve(l) }()
	ctx, stop := context.WithCancel(context.Background())
	c.stop, c.ran = stop, make(chan struct{})
	ran := c.ran
	go func() {
		defer close(ran)
		_ = s.Run(ctx)
	}()
	if c.Client == nil {
		if c.Client, err = c.Dial(context.Background()); err != nil {
			c.t.Fatal(err)
		}
	}
}

// Dial returns another client of the coordinator.
func (c *Cluster) Dial(ctx context.Context) (*api.Client, error) {
	return api.Dial(ctx, "memory", api.Options{Dialer: c.Connect})
}

// Connect is for clients with options of their own: api.Options.Dialer.
func (c *Cluster) Connect(ctx context.Context) (net.Conn, error) {
	return c.listener.Load().DialContext(ctx)
}

// Crash kills the coordinator: nobody is told, and its data is what it was at this
// moment. With processes it is stopped.
func (c *Cluster) Crash() {
	c.t.Helper()
	image := c.data() + ".image"
	if c.virtual() {
		synctest.Wait()
		if err := imageOf(c.data(), image); err != nil {
			c.t.Fatal(err)
		}
	}
	c.halt()
	if c.virtual() {
		if err := restore(c.data(), image); err != nil {
			c.t.Fatal(err)
		}
	}
}

// Restart kills the coordinator and starts it again.
func (c *Cluster) Restart() {
	c.t.Helper()
	c.Crash()
	c.Start()
}

func (c *Cluster) halt() {
	c.server.Stop()
	c.stop()
	<-c.ran
	if c.ledger == nil { // it could not be opened again
		return
	}
	if err := errors.Join(c.closeCatalog(), c.ledger.Close()); err != nil {
		c.t.Error(err)
	}
}

// wall is the clock of the coordinator's machine.
func (c *Cluster) wall() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// SetClock sets the clock of the coordinator's machine: it is so far ahead of what it is else.
func (c *Cluster) SetClock(ahead time.Duration) { c.ahead.Store(int64(ahead)) }

func (c *Cluster) virtual() bool { return !c.real }

func (c *Cluster) close() {
	for name := range c.Agents {
		c.Leave(name)
	}
	_ = c.Client.Close()
	c.halt()
	if c.virtual() {
		time.Sleep(time.Minute) // a check of the coordinator that callers share outlives them, for 20 s
	}
	for _, dir := range []string{"*", "nodes/*/*"} {
		tiers, err := filepath.Glob(filepath.Join(c.Dir, dir))
		if err != nil {
			c.t.Error(err)
		}
		for _, tier := range tiers {
			c.Unseal(tier)
		}
	}
}

// Unseal lets what is staged to a tier be changed by hand, as a root does who means to.
func (c *Cluster) Unseal(tier string) {
	c.t.Helper()
	if info, err := os.Stat(tier); err != nil || !info.IsDir() {
		return
	}
	if _, err := replicadir.MakeMutable(context.Background(), tier, "", 0); err != nil {
		c.t.Error(err)
	}
}

// Join starts an agent, and waits until the coordinator hears it: one that began anew
// refuses to stage where it has heard no agent.
func (c *Cluster) Join(name string) {
	c.t.Helper()
	m := &Agent{ended: make(chan struct{})}
	var err error
	m.conn, err = grpc.NewClient("passthrough:memory", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return c.Connect(ctx) }),
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, call grpc.UnaryInvoker, o ...grpc.CallOption) error {
			if err := m.passes(); err != nil {
				return err
			}
			return c.callThrough(metadata.AppendToOutgoingContext(ctx, callerKey, name), name, method, req, reply, cc, call, o...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
			if err := m.passes(); err != nil {
				return nil, err
			}
			ctx, end := context.WithCancel(metadata.AppendToOutgoingContext(ctx, callerKey, name))
			st, err := open(ctx, d, cc, method, o...)
			if err != nil {
				end()
				return nil, err
			}
			fate := func(sent bool) Fate { return c.fate(name, method, sent) }
			return &shutStream{ClientStream: &weatherStream{ClientStream: st, fate: fate, ctx: ctx, end: end}, m: m}, nil
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20), grpc.MaxCallSendMsgSize(16<<20)))
	if err != nil {
		c.t.Fatal(err)
	}
	o := agent.Options{
		Name: name, Version: "test", Coordinator: m.conn, Data: filepath.Join(c.Dir, "agents", name), Program: c.Program, Accounts: c.Accounts,
		Config: c.ConfOf(name), Logger: slog.New(slog.NewTextHandler(testWriter{}, nil)), Peers: c.Peers.of(name), Metrics: c.Peers.metrics(name), Home: c.home,
	}
	if c.Program == nil {
		o.Program, o.Ready = []string{"goroutine"}, c.workers.ready(name)
	}
	if m.agent, err = agent.New(o); err != nil {
		c.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	go func() {
		defer close(m.ended)
		_ = m.agent.Run(ctx)
	}()
	c.Agents[name] = m
	c.Ready(name)
}

// Ready waits until the coordinator gives an agent work.
func (c *Cluster) Ready(name string) {
	c.t.Helper()
	c.Until("agent "+name+" is ready", func() bool {
		l, err := c.ListAgents(context.Background(), &pb.ListAgentsRequest{})
		return err == nil && slices.ContainsFunc(l.GetAgents(), func(a *pb.Agent) bool {
			return a.GetName() == name && a.GetState() == pb.AgentState_AGENT_STATE_READY
		})
	})
}

// shutStream is a stream on which nothing passes while its agent is cut off.
type shutStream struct {
	grpc.ClientStream
	m    *Agent
	over bool // it has broken for good
}

func (s *shutStream) SendMsg(v any) error {
	if err := s.m.passes(); err != nil {
		return err
	}
	return s.ClientStream.SendMsg(v)
}

func (s *shutStream) RecvMsg(v any) error {
	if s.over {
		return status.Error(codes.Unavailable, "broken")
	}
	err := s.ClientStream.RecvMsg(v)
	if passErr := s.m.passes(); passErr != nil {
		return passErr
	}
	if o, is := v.(*agentv1.Order); is && (o.GetLead() != nil || o.GetBatch() != nil) {
		s.over = s.m.Breaks.CompareAndSwap(true, false)
	}
	return err
}

// Cut parts an agent from the coordinator, Mend joins them again.
func (c *Cluster) Cut(name string)  { c.Agents[name].shut.Store(true) }
func (c *Cluster) Mend(name string) { c.Agents[name].shut.Store(false) }

// Working are the workers of an agent for a task, by their ids.
func (c *Cluster) Working(name, id string) []int { return c.Agents[name].agent.Processes(id) }

// Kill kills the workers of an agent for a task.
func (c *Cluster) Kill(name, id string) {
	c.t.Helper()
	pids := c.Working(name, id)
	if len(pids) == 0 {
		c.t.Fatalf("agent %s has no worker for task %s", name, id)
	}
	c.KillWorkers(pids...)
}

// KillWorkers kills some workers; those that have ended are no error.
func (c *Cluster) KillWorkers(pids ...int) {
	c.t.Helper()
	for _, g := range c.workers.of(pids) {
		if err := g.die(); err != nil {
			c.t.Fatal(err)
		}
	}
	if c.virtual() {
		return
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			c.t.Fatal(err)
		}
	}
}

// Refuse has what workers write below a directory fail, as with mover.ErrFull; nil lets them.
func (c *Cluster) Refuse(dir string, err error) {
	if err == nil {
		c.refusals.Delete(dir)
		return
	}
	c.refusals.Store(dir, err)
}

// refused is why nothing can be written at a path.
func (c *Cluster) refused(path string) (err error) {
	c.refusals.Range(func(dir, why any) bool {
		if mover.Within(path, dir.(string)) {
			err = &mover.Error{Op: "write", Name: path, Err: why.(error)}
		}
		return err == nil
	})
	return err
}

// KillHelper kills the worker of an agent that helps with a task. Helpers come and go:
// one that has just let go has none.
func (c *Cluster) KillHelper(id string) {
	c.t.Helper()
	c.Until("the worker of a helper is killed", func() bool {
		for _, name := range c.Now(id).GetHelpers() {
			if pids := c.Working(name, id); len(pids) > 0 {
				c.KillWorkers(pids...)
				return true
			}
		}
		return false
	})
}

// Idle is the worker of an agent that waits for the next task, when there is one.
func (c *Cluster) Idle(name string) int {
	c.t.Helper()
	c.Until("a worker waits for a task", func() bool { return len(c.workers.idle(name)) == 1 })
	return c.workers.idle(name)[0].pid
}

// KillIdle kills that worker.
func (c *Cluster) KillIdle(name string) {
	c.t.Helper()
	c.KillWorkers(c.Idle(name))
}

// Sleep stops the workers of an agent for a task: they come to nothing any more until Wake, which gets what Sleep returned.
func (c *Cluster) Sleep(name, id string) []int {
	c.t.Helper()
	synctest.Wait()
	pids := c.Working(name, id)
	if len(pids) == 0 {
		c.t.Fatalf("agent %s has no worker for task %s", name, id)
	}
	c.SleepWorkers(pids...)
	return pids
}

// SleepWorkers stops some workers.
func (c *Cluster) SleepWorkers(pids ...int) {
	for _, g := range c.workers.of(pids) {
		g.life.sleep()
	}
}

// Wake has workers go on.
func (c *Cluster) Wake(pids []int) {
	for _, g := range c.workers.of(pids) {
		g.life.wake()
	}
}

// KillAgent kills an agent, and with it its workers. Join starts it again.
func (c *Cluster) KillAgent(name string) {
	c.t.Helper()
	synctest.Wait()
	m := c.Agents[name]
	delete(c.Agents, name)
	m.dead.Store(true)
	for _, g := range c.workers.ofAgent(name) {
		if err := g.die(); err != nil {
			c.t.Fatal(err)
		}
	}
	m.stop()
	<-m.ended
	_ = m.conn.Close()
}

// Leave stops an agent in good order.
func (c *Cluster) Leave(name string) {
	m := c.Agents[name]
	delete(c.Agents, name)
	m.stop()
	<-m.ended
	_ = m.conn.Close()
}

// How long Until waits in virtual time, where that costs nothing, and what takes so long never
// happens.
const (
	virtualPatience = time.Hour
	lookEvery       = 20 * time.Millisecond
)

// Until waits until something is so. It fails when that can not be expected any more,
// and says where everything stands.
func (c *Cluster) Until(what string, is func() bool) {
	c.t.Helper()
	if !c.virtual() {
		if !patience.While(patience.New(c.progress), is) {
			c.t.Fatalf("it never happens that %s\n%s", what, c.progress())
		}
		return
	}
	pause := lookEvery
	for begun := time.Now(); !is(); pause = max(lookEvery, time.Since(begun)/50) { // a long wait needs few looks
		if time.Since(begun) > virtualPatience {
			c.t.Fatalf("it never happens that %s\n%s", what, c.progress())
		}
		time.Sleep(pause)
	}
}

// progress is where everything stands.
func (c *Cluster) progress() string {
	var b strings.Builder
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for t, err := range c.Tasks(ctx, &pb.ListTasksRequest{}) {
		if err != nil {
			fmt.Fprintf(&b, "the tasks: %v\n", err)
			break
		}
		p := t.GetProgress()
		fmt.Fprintf(&b, "task %s: %s %s, lead %q, helpers %q, %d tries, revision %d, %d files %d bytes done; %s %s\n",
			t.GetId(), task.Word(t.GetState()), t.GetPhase(), t.GetAgent(), t.GetHelpers(), t.GetTries(), t.GetRevision(), p.GetFilesDone(), p.GetBytesDone(), t.GetWhy(), t.GetError())
	}
	l, err := c.ListAgents(ctx, &pb.ListAgentsRequest{})
	if err != nil {
		fmt.Fprintf(&b, "the agents: %v\n", err)
	}
	for _, a := range l.GetAgents() {
		fmt.Fprintf(&b, "agent %s: %s\n", a.GetName(), a.GetState())
	}
	return b.String()
}

// testWriter is the log of a test.
type testWriter struct{}

func (testWriter) Write(p []byte) (int, error) {
	if testing.Verbose() {
		return io.MultiWriter(os.Stderr).Write(p)
	}
	return len(p), nil
}

// ended waits for the end of a task.
func (c *Cluster) ended(id string) *pb.Task {
	c.t.Helper()
	type end struct {
		*pb.Task
		error
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	waited := make(chan end, 1)
	go func() {
		t, err := c.Wait(ctx, id, nil)
		waited <- end{t, err}
	}()
	var got end
	c.Until("task "+id+" ends", func() bool {
		select {
		case got = <-waited:
			return true
		default:
			return false
		}
	})
	if got.error != nil {
		c.t.Fatal(errors.Join(fmt.Errorf("task %s, last %v", id, got.Task), got.error))
	}
	return got.Task
}
