// Package cluster runs the coordinator with several agents and their real processes,
// and does to them what happens in a cluster.
package cluster

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"datamove.dev/api"
	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/access"
	"datamove.dev/mover/account"
	"datamove.dev/mover/acting"
	"datamove.dev/mover/agent"
	"datamove.dev/mover/config"
	"datamove.dev/mover/ledger"
	"datamove.dev/mover/queue"
	"datamove.dev/mover/service"
	"datamove.dev/mover/shelf"
	"datamove.dev/mover/task"
	"datamove.dev/mover/worker"
)

// TestMain is also the worker that agents start, and a copy without them.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		conn, err := acting.Enter()
		if err == nil {
			err = worker.Run(context.Background(), conn, worker.Options{Stderr: os.Stderr})
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) == 5 && os.Args[1] == "alone" {
		if err := copyAlone(os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, "alone:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// cluster is a coordinator and its agents in this process.
type cluster struct {
	t      testing.TB
	dir    string // everything is below it
	conf   atomic.Pointer[config.Config]
	ledger *ledger.Ledger
	lease  time.Duration

	program  string             // of workers; "" is this one
	accounts *account.Directory // nil are those of this machine

	socket string
	server *grpc.Server
	stop   context.CancelFunc
	ran    chan struct{}
	*api.Client
	agents map[string]*member
	peers  *peers // how agents of now on give each other what they stage; nil is not at all
}

type member struct {
	stop   context.CancelFunc
	ended  chan struct{}
	conn   *grpc.ClientConn
	agent  *agent.Agent
	shut   atomic.Bool // nothing of it gets through
	breaks atomic.Bool // its conversation ends with the next work that it is given
}

// newCluster starts a coordinator with the shared tier "shared" and a node-local one,
// "scratch", and agents of the given names.
func newCluster(t testing.TB, agents ...string) *cluster {
	t.Helper()
	dir := t.TempDir()
	c := &cluster{t: t, dir: dir, lease: 2 * time.Second, socket: filepath.Join(dir, "socket"), agents: map[string]*member{}}
	for _, d := range []string{"shared", "scratch", "data"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c.conf.Store(&config.Config{Tiers: map[string]config.Tier{
		"shared":  {Level: "warm", Path: filepath.Join(dir, "shared")},
		"scratch": {Level: "hot", Path: filepath.Join(dir, "scratch"), Ephemeral: true, NodeLocal: true},
	}})
	c.start()
	t.Cleanup(c.close)
	for _, name := range agents {
		c.join(name)
	}
	return c
}

// caller is metadata that stands for what door finds out.
const callerKey = "test-caller"

func identified(ctx context.Context) context.Context {
	md, _ := metadata.FromIncomingContext(ctx)
	who := access.Caller{Name: "root", UID: uint32(os.Geteuid()), Via: access.Local}
	if v := md.Get(personKey); len(v) > 0 {
		who = access.Caller{Name: v[0], UID: people[v[0]], Via: access.Local}
	}
	if v := md.Get(callerKey); len(v) > 0 {
		who = access.Caller{Name: v[0], Agent: v[0], Via: access.Agent}
	}
	return access.With(ctx, who)
}

type identifiedStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s identifiedStream) Context() context.Context { return s.ctx }

// rules are those of the configuration as it is now.
func (c *cluster) rules() *access.Rules {
	in := access.Input{UID: uint32(os.Geteuid()), Tiers: map[string]string{}, Projects: map[string]access.Project{}}
	for name, t := range c.conf.Load().Tiers {
		in.Tiers[name] = t.Path
	}
	for name, p := range c.conf.Load().Projects {
		in.Projects[name] = access.Project{Roots: p.Roots, Members: p.Members}
	}
	r, err := access.New(in)
	if err != nil {
		panic(err) // of a test's own configuration
	}
	return r
}

// start starts the coordinator, or starts it again.
func (c *cluster) start() {
	c.t.Helper()
	var err error
	if c.ledger, err = ledger.Open(filepath.Join(c.dir, "data", "ledger"), ledger.Options{}); err != nil {
		c.t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(testWriter{c.t}, &slog.HandlerOptions{Level: slog.LevelInfo}))
	s, err := service.New(context.Background(), service.Options{
		Rules: c.rules, Ledger: c.ledger, Config: c.conf.Load, Node: "n1", Version: "test",
		Data: filepath.Join(c.dir, "data"), Lease: c.lease, Logger: log,
		Queue: func(o queue.Options) (queue.Queue, error) {
			return queue.NewJetStream(context.Background(), filepath.Join(c.dir, "data", "queue"), o)
		},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.server = grpc.NewServer(append(api.ServerOptions(),
		grpc.ChainUnaryInterceptor(func(ctx context.Context, r any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
			return h(identified(ctx), r)
		}),
		grpc.ChainStreamInterceptor(func(srv any, st grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) error {
			return h(srv, identifiedStream{st, identified(st.Context())})
		}))...)
	s.Register(c.server)
	_ = os.Remove(c.socket)
	l, err := net.Listen("unix", c.socket)
	if err != nil {
		c.t.Fatal(err)
	}
	go func() { _ = c.server.Serve(l) }()
	ctx, stop := context.WithCancel(context.Background())
	c.stop, c.ran = stop, make(chan struct{})
	ran := c.ran
	go func() {
		defer close(ran)
		_ = s.Run(ctx)
	}()
	if c.Client == nil {
		if c.Client, err = api.Dial(context.Background(), "unix://"+c.socket, api.Options{}); err != nil {
			c.t.Fatal(err)
		}
	}
}

// halt stops the coordinator as a crash does: nobody is told.
func (c *cluster) halt() {
	c.server.Stop()
	c.stop()
	<-c.ran
	if err := c.ledger.Close(); err != nil {
		c.t.Error(err)
	}
}

func (c *cluster) close() {
	for name := range c.agents {
		c.leave(name)
	}
	_ = c.Client.Close()
	c.halt()
	for _, dir := range []string{"*", "nodes/*/*"} {
		tiers, err := filepath.Glob(filepath.Join(c.dir, dir))
		if err != nil {
			c.t.Error(err)
		}
		for _, tier := range tiers {
			c.unseal(tier, "")
		}
	}
}

// unseal lets what is staged to a tier be changed by hand, as a root does who means to.
func (c *cluster) unseal(tier, at string) {
	c.t.Helper()
	if info, err := os.Stat(tier); err != nil || !info.IsDir() {
		return
	}
	if err := shelf.Unseal(context.Background(), tier, at, 0); err != nil {
		c.t.Error(err)
	}
}

// join starts an agent.
func (c *cluster) join(name string) {
	c.t.Helper()
	m := &member{ended: make(chan struct{})}
	var err error
	m.conn, err = grpc.NewClient("unix:"+c.socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, call grpc.UnaryInvoker, o ...grpc.CallOption) error {
			if m.shut.Load() {
				return status.Error(codes.Unavailable, "cut off")
			}
			return call(metadata.AppendToOutgoingContext(ctx, callerKey, name), method, req, reply, cc, o...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
			if m.shut.Load() {
				return nil, status.Error(codes.Unavailable, "cut off")
			}
			st, err := open(metadata.AppendToOutgoingContext(ctx, callerKey, name), d, cc, method, o...)
			return &shutStream{ClientStream: st, m: m}, err
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20), grpc.MaxCallSendMsgSize(16<<20)))
	if err != nil {
		c.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	if c.program != "" {
		self = c.program
	}
	a, err := agent.New(agent.Options{
		Name: name, Version: "test", Coordinator: m.conn, Data: filepath.Join(c.dir, "agents", name), Program: []string{self, "worker"}, Accounts: c.accounts,
		Config: c.confOf(name), Logger: slog.New(slog.NewTextHandler(testWriter{c.t}, nil)), Peers: c.peers.of(name), Metrics: c.peers.metrics(name),
	})
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	m.stop, m.agent = stop, a
	go func() {
		defer close(m.ended)
		_ = a.Run(ctx)
	}()
	c.agents[name] = m
	c.ready(name)
}

// ready waits until the coordinator hears an agent: one that began anew refuses to stage where it has heard nobody.
func (c *cluster) ready(name string) {
	c.t.Helper()
	c.eventually("agent "+name+" is ready", func() bool {
		l, err := c.ListAgents(context.Background(), &pb.ListAgentsRequest{})
		if err != nil {
			return false
		}
		for _, a := range l.GetAgents() {
			if a.GetName() == name && a.GetState() == pb.AgentState_AGENT_STATE_READY {
				return true
			}
		}
		return false
	})
}

// shutStream is a stream on which nothing passes while its member is cut off.
type shutStream struct {
	grpc.ClientStream
	m    *member
	over bool // it has broken for good
}

func (s *shutStream) SendMsg(v any) error {
	if s.m.shut.Load() {
		return status.Error(codes.Unavailable, "cut off")
	}
	return s.ClientStream.SendMsg(v)
}

func (s *shutStream) RecvMsg(v any) error {
	if s.over {
		return status.Error(codes.Unavailable, "broken")
	}
	err := s.ClientStream.RecvMsg(v)
	if s.m.shut.Load() {
		return status.Error(codes.Unavailable, "cut off")
	}
	if o, is := v.(*agentv1.Order); is && (o.GetLead() != nil || o.GetBatch() != nil) {
		s.over = s.m.breaks.CompareAndSwap(true, false)
	}
	return err
}

// cut parts an agent from the coordinator, mend joins them again.
func (c *cluster) cut(name string)  { c.agents[name].shut.Store(true) }
func (c *cluster) mend(name string) { c.agents[name].shut.Store(false) }

// processes are the workers of an agent for a task.
func (c *cluster) processes(name, id string) (pids []int) {
	return c.agents[name].agent.Processes(id)
}

// kill sends a signal to the processes of an agent for a task.
func (c *cluster) kill(name, id string, sig syscall.Signal) {
	c.t.Helper()
	pids := c.processes(name, id)
	if len(pids) == 0 {
		c.t.Fatalf("agent %s has no process for task %s", name, id)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil {
			c.t.Fatal(err)
		}
	}
}

// killHelper kills the process of an agent that helps with a task. Helpers come and go:
// one that has just let go has none.
func (c *cluster) killHelper(id string) {
	c.t.Helper()
	c.eventually("the process of a helper is killed", func() bool {
		for _, name := range c.now(id).GetHelpers() {
			for _, pid := range c.processes(name, id) {
				return syscall.Kill(pid, syscall.SIGKILL) == nil
			}
		}
		return false
	})
}

// slow submits a copy that reads no more than so much per second, all agents together.
func (c *cluster) slow(source, target string, bytesPerSecond int64) *pb.Task {
	c.t.Helper()
	t, err := c.SubmitTask(context.Background(), &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{
		Kind: pb.TaskKind_TASK_KIND_COPY, Source: source, Target: target, Options: &pb.Options{BytesPerSecond: bytesPerSecond},
	}})
	if err != nil {
		c.t.Fatal(err)
	}
	return t
}

// now is a task as it is now.
func (c *cluster) now(id string) *pb.Task {
	c.t.Helper()
	t, err := c.GetTask(context.Background(), &pb.GetTaskRequest{Id: id})
	if err != nil {
		c.t.Fatal(err)
	}
	return t
}

// helpers gives all agents that helped a task, when it has ended.
func (c *cluster) helpers(id string) <-chan map[string]bool {
	out := make(chan map[string]bool, 1)
	go func() {
		all := map[string]bool{}
		_, _ = c.Wait(context.Background(), id, func(t *pb.Task) {
			for _, h := range t.GetHelpers() {
				all[h] = true
			}
		})
		out <- all
	}()
	return out
}

// leave stops an agent in good order.
func (c *cluster) leave(name string) {
	m := c.agents[name]
	delete(c.agents, name)
	m.stop()
	<-m.ended
	_ = m.conn.Close()
}

func (c *cluster) eventually(what string, is func() bool) {
	c.t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("it never happens that %s", what)
		}
	}
}

// passed waits until more than so many bytes of a task have passed. How long that takes is the
// machine's business, as long as the task goes on.
func (c *cluster) passed(id string, bytes int64) {
	c.t.Helper()
	var at string
	for p := c.now(id).GetProgress(); p.GetBytesDone() <= bytes; p = c.now(id).GetProgress() {
		before := at
		c.eventually("the task goes on", func() bool {
			p := c.now(id).GetProgress()
			at = fmt.Sprint(p.GetPlanned(), p.GetFilesDone(), p.GetBytesDone())
			return at != before
		})
	}
}

// tree makes files below a directory of the cluster: many small ones and some large.
func (c *cluster) tree(name string, small, large int, largeBytes int64) string {
	c.t.Helper()
	dir := filepath.Join(c.dir, name)
	dice := rand.New(rand.NewPCG(1, uint64(small)))
	for i := range small {
		path := filepath.Join(dir, fmt.Sprintf("d%02d", i%23), fmt.Sprintf("f%05d", i))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			c.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Repeat(fmt.Sprint(i), dice.IntN(300))), 0o644); err != nil {
			c.t.Fatal(err)
		}
	}
	for i := range large {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			c.t.Fatal(err)
		}
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("large%d", i)))
		if err != nil {
			c.t.Fatal(err)
		}
		block := make([]byte, 1<<20)
		for n := int64(0); n < largeBytes; n += int64(len(block)) {
			for j := 0; j < len(block); j += 8 {
				v := dice.Uint64()
				for k := range 8 {
					block[j+k] = byte(v >> (8 * k))
				}
			}
			if _, err := f.Write(block); err != nil {
				c.t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			c.t.Fatal(err)
		}
	}
	return dir
}

// submit submits a copy.
func (c *cluster) submit(source, target string) *pb.Task {
	c.t.Helper()
	t, err := c.SubmitTask(context.Background(), &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: source, Target: target}})
	if err != nil {
		c.t.Fatal(err)
	}
	return t
}

// done waits for a task and checks that it is done.
func (c *cluster) done(id string) *pb.Task {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	t, err := c.Wait(ctx, id, nil)
	if err != nil {
		c.t.Fatalf("task %s: %v, last %v", id, err, t)
	}
	if t.GetState() != task.Done {
		c.t.Fatalf("task %s is %s: %s %v", id, task.Word(t.GetState()), t.GetError(), t.GetReport())
	}
	return t
}

// same fails when two trees differ, or when something of ours is left in the second.
func (c *cluster) same(source, target string) {
	c.t.Helper()
	a, b := contents(c.t, source), contents(c.t, target)
	for name, text := range a {
		if b[name] != text {
			c.t.Errorf("%s differs or is missing (%d bytes, %d at the target)", name, len(text), len(b[name]))
		}
		delete(b, name)
	}
	for name := range b {
		c.t.Errorf("%s is at the target only", name)
	}
}

func contents(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		all[rel] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// testWriter is the log of a test.
type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	if testing.Verbose() {
		return io.MultiWriter(os.Stderr).Write(p)
	}
	return len(p), nil
}
