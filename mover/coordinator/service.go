package coordinator

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/config"
	"datamove.dev/mover/coordinator/clock"
	"datamove.dev/mover/coordinator/enroll"
	"datamove.dev/mover/coordinator/queue"
	"datamove.dev/mover/coordinator/ratelimit"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/coordinator/taskkind"
	"datamove.dev/mover/coordinator/taskorder"
	"datamove.dev/mover/coordinator/usage"
	"datamove.dev/mover/server/auditlog"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/server/pki"
	"datamove.dev/mover/telemetry"
)

// Options are what a coordinator needs. Ledger, Node and Data have to be given.
type Options struct {
	Ledger    *state.Ledger
	Rules     func() *authz.Rules                          // of this moment; nil is no configuration, run by our uid
	Config    func() *config.Config                        // of this moment; nil is an empty one
	Audit     func(context.Context, auditlog.Record) error // nil records nothing
	Authority *pki.Authority                               // nil refuses each join
	// Vouch says of which node a join token is that is none of ours; nil knows none. What it does not
	// believe is of kind mover.ErrPermission.
	Vouch   func(ctx context.Context, token string) (node string, err error)
	Node    string // this node: that of callers on our socket
	Version string
	Data    string                                              // a directory: manifests lie below it
	Lease   time.Duration                                       // how long an agent may be silent; 0 means 30 s
	Reload  func(context.Context) (changed []string, err error) // reads the configuration again; nil can not
	Logger  *slog.Logger                                        // nil means no log
	Metrics *telemetry.Metrics                                  // nil counts nothing
	Clock   *clock.Clock                                        // nil is that of the machine
}

// Service is a coordinator. Register makes it answer, Run makes it work.
type Service struct {
	pb.UnimplementedTaskServiceServer
	*core
	watch watchers
	pages chan struct{} // that are read at this moment
	extensions

	scheduler *scheduler
	agents    *agentServer
	paths     *pathResolver
	usage     *usage.Server
	steering  *steering
	explainer *explainer
	enroll    *enroll.Server
	metrics   *metricsCollector
	admin     *adminServer
}

// core is what all parts of the coordinator have in common.
type core struct {
	o       Options
	log     *slog.Logger
	ledger  *state.Ledger
	lease   time.Duration
	started time.Time
	now     func() time.Time
	clock   *clock.Clock
}

// flowsMost is how many lines of tasks the queue has at one time. The others are in the
// ledger, and come when it is their turn.
const flowsMost = 4096

// New returns a coordinator over a ledger. What was running when the ledger was closed
// is taken up again: its agents have a lease's time to say that they are still at it.
func New(ctx context.Context, o Options) (*Service, error) {
	if o.Ledger == nil || o.Node == "" || o.Data == "" {
		return nil, errors.New("service: ledger, node and data are needed")
	}
	shared := &core{o: o, log: o.Logger, ledger: o.Ledger, lease: cmp.Or(o.Lease, 30*time.Second), started: time.Now(), clock: o.Clock}
	if shared.clock == nil {
		shared.clock = clock.New(nil, nil)
	}
	shared.now = shared.clock.Wall
	s := &Service{core: shared, extensions: extensions{kinds: map[pb.TaskKind]taskkind.Kind{}}, pages: make(chan struct{}, pagesMost)}
	s.scheduler = &scheduler{
		core: shared, c: s, kick: make(chan struct{}, 1),
		agents: map[string]*node{}, leads: map[string]*lead{}, slots: usedSlots{}, swarms: map[string]*tracked{}, flows: map[string]*taskQueue{}, left: map[string]*ratelimit.Parts{},
	}
	s.scheduler.order = taskorder.New(shared.ledger, shared.conf, s.scheduler.canBegin)
	s.agents = &agentServer{core: shared, c: s}
	s.paths = &pathResolver{core: shared, c: s}
	s.metrics = &metricsCollector{core: shared, c: s}
	s.admin = &adminServer{core: shared, c: s}
	s.steering, s.explainer = &steering{core: shared, c: s}, &explainer{core: shared, c: s}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if err := s.defaults(); err != nil {
		return nil, err
	}
	var err error
	if s.enroll, err = enroll.New(enroll.Options{
		Ledger: s.ledger, Rules: s.rules, Authority: s.o.Authority, Vouch: s.o.Vouch, Data: s.o.Data, Logger: s.log, Now: s.now,
	}); err != nil {
		return nil, err
	}
	if s.usage, err = usage.New(ctx, usage.Options{Ledger: s.ledger, Config: s.conf, Rules: s.rules, Agents: s.scheduler, Now: s.now}); err != nil {
		return nil, err
	}
	s.scheduler.queue = queue.New(queue.Options{Flows: flowsMost, Refill: s.scheduler.refill, Logger: s.log})
	if err := errors.Join(s.scheduler.takeUp(ctx)); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Service) defaults() error {
	if s.o.Config == nil {
		empty := &config.Config{}
		s.o.Config = func() *config.Config { return empty }
	}
	if s.o.Rules == nil {
		rules, err := authz.New(authz.Input{UID: uint32(os.Geteuid())})
		if err != nil {
			return err
		}
		s.o.Rules = func() *authz.Rules { return rules }
	}
	if s.o.Audit == nil {
		s.o.Audit = func(context.Context, auditlog.Record) error { return nil }
	}
	return s.ledger.View(func(tx *state.Tx) error {
		stored, err := state.LastTime(tx)
		if err == nil {
			s.clock.Begin(stored)
		}
		return err
	})
}

// Register makes the service answer on a server, but for agentv1.LinkService: see Link.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	pb.RegisterTaskServiceServer(r, s)
	pb.RegisterAgentServiceServer(r, s.agents)
	pb.RegisterUsageServiceServer(r, s.usage)
	pb.RegisterAdminServiceServer(r, s.admin)
	agentv1.RegisterEnrollServiceServer(r, s.enroll)
}

// Run gives out work and looks after leases until ctx ends. Conversations go on until
// their server ends them.
func (s *Service) Run(ctx context.Context) error {
	var looking sync.WaitGroup
	looking.Go(func() { s.scheduler.endForgottenBound(ctx); s.scheduler.discover(ctx) })
	looking.Go(func() { s.tend(ctx) })
	looking.Go(func() { s.metrics.countTasks(ctx) })
	for _, run := range s.loops {
		looking.Go(func() { run(ctx) })
	}
	defer s.o.Metrics.Sample(s.metrics.sample)()
	defer looking.Wait()
	tick := time.NewTicker(min(s.lease/4, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.scheduler.kick:
		case <-tick.C:
			s.scheduler.tellLimits()
		}
		s.scheduler.dispatch(ctx)
	}
}

// hurry has work given out at once.
func (s *Service) hurry() {
	select {
	case s.scheduler.kick <- struct{}{}:
	default:
	}
}

func (s *core) conf() *config.Config { return s.o.Config() }
func (s *core) rules() *authz.Rules  { return s.o.Rules() }
