package coordinator

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/config"
	"datamove.dev/mover/coordinator/queue"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/auditlog"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/server/pki"
	"datamove.dev/mover/telemetry"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/policy"
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
	Vouch    func(ctx context.Context, token string) (node string, err error)
	Node     string // this node: that of callers on our socket
	Version  string
	Data     string                                              // a directory: manifests lie below it
	Lease    time.Duration                                       // how long an agent may be silent; 0 means 30 s
	Reload   func(context.Context) (changed []string, err error) // reads the configuration again; nil can not
	Logger   *slog.Logger                                        // nil means no log
	Metrics  *telemetry.Metrics                                  // nil counts nothing
	Catalog  *catalog.Catalog                                    // what is in the tiers; nil is no catalog
	Policies func() []*policy.Program                            // of this moment; nil has none
	People   policy.People                                       // names of accounts; nil: they are numbers

	look   func(*unseen) error  // of tests: replaces the looks of agents; nil has agents look
	wall   func() time.Time     // of tests: the clock of the machine
	steady func() time.Duration // of tests: the time that has passed
}

// Service is a coordinator. Register makes it answer, Run makes it work.
type Service struct {
	pb.UnimplementedTaskServiceServer
	pb.UnimplementedDatasetServiceServer
	pb.UnimplementedTierServiceServer
	pb.UnimplementedAgentServiceServer
	pb.UnimplementedPolicyServiceServer
	pb.UnimplementedCatalogServiceServer
	pb.UnimplementedUsageServiceServer
	pb.UnimplementedAdminServiceServer
	agentv1.UnimplementedLinkServiceServer
	agentv1.UnimplementedEnrollServiceServer

	o       Options
	log     *slog.Logger
	ledger  *state.Ledger
	queue   *queue.Queue
	lease   time.Duration
	started time.Time

	forgottenMu sync.Mutex    // of the file
	kick        chan struct{} // there may be something to give out
	watch       watchers
	pages       chan struct{} // that are read at this moment
	kinds       map[pb.TaskKind]Kind
	kept        // of datasets
	seen        // by metrics
	stewardship
	extensions
	holdings holdings // of accounts
	outbox   outbox
	hearings hearings

	realPaths realPaths

	mu     sync.Mutex
	agents map[string]*node      // by name; guarded by mu, as all below
	leads  map[string]*lead      // by task; changed by addLead and dropLead
	slots  usedSlots             // of agents, by leads
	swarms map[string]*tracked   // by swarmID
	flows  map[string]*taskQueue // of queued tasks
	left   map[string]*parts     // by task without a lead, while processes of the last one may read

	limits   []limit // of limitsOf
	limitsOf *config.Config
	limited  bool // agents were told of limits or weights
	now      func() time.Time
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
	s := &Service{
		o: o, log: o.Logger, ledger: o.Ledger, lease: cmp.Or(o.Lease, 30*time.Second), started: time.Now(), kick: make(chan struct{}, 1), pages: make(chan struct{}, pagesMost),
		stewardship: stewardship{stirred: make(chan struct{}, 1)},
		outbox:      outbox{more: make(chan struct{}, 1)},
		agents:      map[string]*node{}, leads: map[string]*lead{}, slots: usedSlots{}, swarms: map[string]*tracked{}, flows: map[string]*taskQueue{}, left: map[string]*parts{}, now: time.Now,
	}
	s.kinds = s.taskKinds()
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if err := s.defaults(); err != nil {
		return nil, err
	}
	s.queue = queue.New(queue.Options{Flows: flowsMost, Refill: s.refill, Logger: s.log})
	if err := errors.Join(s.keepForgotten(), s.prepare(ctx), s.countHoldings(ctx), s.takeUp(ctx)); err != nil {
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
	return os.MkdirAll(s.manifests(), 0o700)
}

// manifests is where the manifests of datasets lie, by digest.
func (s *Service) manifests() string { return filepath.Join(s.o.Data, "manifests") }

// Register makes the service answer on a server, but for agentv1.LinkService: it implements that, and a server beside it may add to it.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	pb.RegisterTaskServiceServer(r, s)
	pb.RegisterDatasetServiceServer(r, s)
	pb.RegisterTierServiceServer(r, s)
	pb.RegisterAgentServiceServer(r, s)
	pb.RegisterPolicyServiceServer(r, s)
	pb.RegisterCatalogServiceServer(r, s)
	pb.RegisterUsageServiceServer(r, s)
	pb.RegisterAdminServiceServer(r, s)
	agentv1.RegisterEnrollServiceServer(r, s)
}

// Run gives out work and looks after leases until ctx ends. Conversations go on until
// their server ends them.
func (s *Service) Run(ctx context.Context) error {
	var looking sync.WaitGroup
	looking.Go(func() { s.endForgottenBound(ctx); s.discover(ctx) })
	looking.Go(func() { s.makeSpots(ctx) })
	looking.Go(func() { s.tend(ctx) })
	looking.Go(func() { s.countTasks(ctx) })
	looking.Go(func() { s.steward(ctx) })
	looking.Go(func() { s.postman(ctx) })
	defer s.o.Metrics.Sample(s.sample)()
	defer looking.Wait()
	tick := time.NewTicker(min(s.lease/4, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.kick:
		case <-tick.C:
			s.tellLimits()
		}
		s.dispatch(ctx)
	}
}

// hurry has work given out at once.
func (s *Service) hurry() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

func (s *Service) conf() *config.Config { return s.o.Config() }
func (s *Service) rules() *authz.Rules  { return s.o.Rules() }
