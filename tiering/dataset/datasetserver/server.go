// Package datasetserver is the part of a coordinator that has datasets: their versions and replicas, leases and pins, staging and release, and what
// lies on tiers. It has the kinds of tasks that make, read, change and remove replicas.
//
// # Promises
//
// A caller leases, awaits or copies a replica of this service only if it may read one of the
// sources of the replica. A look of the last seconds shows that (mayHave). A look is a short task that checks whether
// an account may read a source of a replica now. It grants the account access to the replica.
//
// The ledger is the truth: decisions are made in the change that records them. What is in memory (where replicas lie, recent looks, how full tiers are)
// is made of it and of what agents say. Locks are private, and none is held across a call to the coordinator or the ledger, but for that of the
// index of replicas while it is made.
package datasetserver

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/config"
	"datamove.dev/mover/coordinator/clock"
	"datamove.dev/mover/coordinator/placement"
	"datamove.dev/mover/coordinator/quota"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/coordinator/taskkind"
	"datamove.dev/mover/server/auditlog"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/telemetry"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/dataset"
)

// Coordinator is what a Server needs of the coordinator of its tasks.
type Coordinator interface {
	Tasks
	Agents
	// AddKind has the coordinator do tasks of a kind.
	AddKind(of pb.TaskKind, kind taskkind.Kind)
	// AddChore has the coordinator do something every so often, while it runs.
	AddChore(every time.Duration, what string, do func(context.Context) error)
	// AddLoop has the coordinator run a loop until its context ends.
	AddLoop(run func(context.Context))
}

// Tasks are those of the coordinator.
type Tasks interface {
	// Submit accepts a task of the caller in ctx. also changes the ledger together with it.
	Submit(ctx context.Context, spec *pb.TaskSpec, key string, also func(*state.Tx, *pb.Task) error) (*pb.Task, error)
	// Admit checks a request of a caller, and completes it.
	Admit(c authz.Caller, spec *pb.TaskSpec) (*pb.TaskSpec, error)
	// MayHold reports why a caller may not have one more of a resource.
	MayHold(c authz.Caller, what quota.Resource) error
	// Claim stores a new task of a caller, and its key.
	Claim(tx *state.Tx, c authz.Caller, t *pb.Task, asked *pb.TaskSpec, key string) error
	// Submitted has a task assigned that was stored; nil is none.
	Submitted(ctx context.Context, t *pb.Task)
	// HandOn has a task that was paused or cancelled go on for an account that waits for it.
	HandOn(tx *state.Tx, t *pb.Task) (bool, error)
	// Resumed has a task assigned that was paused.
	Resumed(ctx context.Context, t *pb.Task)
	// Task returns a task as it is now.
	Task(id string) (*pb.Task, error)
	// EachRunning calls do with each running task. do must not wait, and must not keep the task.
	EachRunning(do func(*pb.Task))
	// Watch tells when a task may have changed, until done is called.
	Watch(id string) (changed <-chan struct{}, done func(), err error)
	// Cancel cancels a task.
	Cancel(ctx context.Context, t *pb.Task) error
	// Fail ends a task in a change.
	Fail(tx *state.Tx, t *pb.Task, why error) error
	// Waits notes why a queued task is not given out.
	Waits(ctx context.Context, t *pb.Task, why string)
}

// Agents are those of the coordinator.
type Agents interface {
	// Assigned returns the task that the agent in ctx leads in an epoch, or mover.ErrHeld.
	Assigned(ctx context.Context, id string, epoch uint64) (*pb.Task, error)
	// Sends is Assigned for an agent that begins to send. It does one such thing at a time, until it calls done.
	Sends(ctx context.Context, id string, epoch uint64) (t *pb.Task, done func(), err error)
	// Proved notes what the agent in ctx has found for the task that it leads in an epoch.
	Proved(ctx context.Context, id string, epoch uint64, found taskkind.Result) (*pb.Task, error)
	// WhileNoneSends calls do with what agents have found, unless one sends something. Before do returns none begins to, and no task ends.
	WhileNoneSends(do func(found []taskkind.Result) error) error
	// Reachable reports whether an agent could work on a request of a caller now.
	Reachable(c authz.Caller, spec *pb.TaskSpec) bool
	// ReadyAgents are the agents that could act for an account, with the tiers that they reach, and "/" for the paths of their node.
	ReadyAgents(owner *pb.Account) []*pb.Agent
	// Reaching are the nodes that are connected and reach a tier, sorted.
	Reaching(tier string) []string
	// Rooms are the latest reports of agents on the room of a tier: one for each node, or one for all.
	Rooms(tier string, eachNode bool) []placement.Room
}

// Options are what a Server is made of. Coordinator, Ledger, Config, Rules, Logger, Clock, Node and Data are needed.
type Options struct {
	Coordinator Coordinator
	Ledger      *state.Ledger
	Config      func() *config.Config
	Rules       func() *authz.Rules
	Audit       func(context.Context, auditlog.Record) error // nil records nothing
	Logger      *slog.Logger
	Clock       *clock.Clock       // the time by which leases and pins end
	Node        string             // this node: that of callers on its socket
	Data        string             // a directory: manifests lie below it
	Metrics     *telemetry.Metrics // nil counts nothing
	Catalog     *catalog.Catalog   // nil is no catalog

	// Look replaces the looks of agents; nil has agents look. Tests set it.
	Look func(*Unseen) error
}

// core is what all parts of the server have in common.
type core struct {
	o       Options
	c       Coordinator
	ledger  *state.Ledger
	log     *slog.Logger
	now     func() time.Time
	started time.Time
	clock   *clock.Clock

	server    *Server
	records   *records
	access    *accessProber
	room      *roomKeeper
	manifests *manifestStore
}

func (s *core) conf() *config.Config { return s.o.Config() }
func (s *core) rules() *authz.Rules  { return s.o.Rules() }

// here is the node of a caller.
func (s *core) here(c authz.Caller) string { return cmp.Or(c.Agent, s.o.Node) }

// Server has datasets, their versions and replicas, leases and pins. It implements pb.DatasetServiceServer and pb.TierServiceServer, and PutManifest and
// ReadManifest of agentv1.LinkServiceServer.
type Server struct {
	pb.UnimplementedDatasetServiceServer
	pb.UnimplementedTierServiceServer
	*core
	kinds  map[pb.TaskKind]taskkind.Kind
	labels []func(c authz.Caller, labels map[string]string) error
	said   time.Duration // of watchClock alone
}

// How often what is looked after.
const (
	tendEvery   = time.Second
	cacheEvery  = 5 * time.Second
	orphanEvery = 30 * time.Second
	sweepEvery  = time.Hour
	retryPause  = 5 * time.Minute // after a removal that has failed
)

// New returns a server. The coordinator does its chores and its kinds of tasks. Leases that could not be renewed while there was no server last a
// little longer.
func New(ctx context.Context, o Options) (*Server, error) {
	if o.Audit == nil {
		o.Audit = func(context.Context, auditlog.Record) error { return nil }
	}
	core := &core{o: o, c: o.Coordinator, ledger: o.Ledger, log: o.Logger, now: o.Clock.Wall, started: time.Now(), clock: o.Clock}
	s := &Server{core: core, kinds: map[pb.TaskKind]taskkind.Kind{}}
	core.server, core.records, core.access = s, &records{core: core}, &accessProber{core: core}
	core.room = &roomKeeper{core: core, freedAt: map[string]time.Time{}, cameAt: map[string]time.Time{}}
	core.manifests = &manifestStore{core: core, dir: filepath.Join(o.Data, "manifests")}
	if err := errors.Join(os.MkdirAll(core.manifests.dir, 0o700), s.resume(ctx), core.manifests.sweepTemporary()); err != nil {
		return nil, err
	}
	maps.Copy(s.kinds, s.datasetKinds())
	maps.Copy(s.kinds, s.records.transferKinds())
	for of, kind := range s.kinds {
		s.c.AddKind(of, kind)
	}
	s.c.AddChore(tendEvery, "watch the clock", func(context.Context) error { s.said = s.watchClock(s.said); return nil })
	s.c.AddChore(tendEvery, "end leases", s.EndLeases)
	s.c.AddChore(cacheEvery, "keep caches", func(ctx context.Context) error { s.room.keepCaches(ctx); return nil })
	s.c.AddChore(orphanEvery, "end leases of tasks that are over", s.OrphanLeases)
	s.c.AddChore(orphanEvery, "end pins", s.EndPins)
	s.c.AddChore(orphanEvery, "forget looks that are over", s.access.forgetLooks)
	s.c.AddChore(orphanEvery, "remove again what could not be removed", func(ctx context.Context) error { return s.RetryRemovals(ctx, s.now().Add(-retryPause)) })
	s.c.AddChore(sweepEvery, "remove manifests that nobody needs", func(context.Context) error { return s.SweepManifests(s.now().Add(-ManifestYoung)) })
	s.c.AddLoop(s.MakeIndex)
	s.c.AddLoop((&storeMetrics{core: core}).sampled)
	return s, nil
}

// Register makes the server answer on r.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	pb.RegisterDatasetServiceServer(r, s)
	pb.RegisterTierServiceServer(r, s)
}

// Link returns base with the calls of agents for manifests.
func (s *Server) Link(base agentv1.LinkServiceServer) agentv1.LinkServiceServer {
	return &link{base, s}
}

type link struct {
	agentv1.LinkServiceServer
	s *Server
}

func (l *link) PutManifest(stream grpc.ClientStreamingServer[agentv1.PutManifestRequest, agentv1.PutManifestResponse]) error {
	return l.s.PutManifest(stream)
}

func (l *link) ReadManifest(r *agentv1.ReadManifestRequest, stream grpc.ServerStreamingServer[agentv1.ReadManifestResponse]) error {
	return l.s.ReadManifest(r, stream)
}

// SweepManifests removes manifests of before a time that were left behind.
func (s *Server) SweepManifests(older time.Time) error { return s.manifests.sweep(older) }

// PutReplica stores the record of a replica.
func (s *Server) PutReplica(tx *state.Tx, r *pb.Replica) error { return s.records.putReplica(tx, r) }

// MakeRoom has replicas evicted from a tier that is fuller than its marks.
func (s *Server) MakeRoom(ctx context.Context, row *pb.Tier, marks dataset.Watermarks) error {
	return s.room.makeRoom(ctx, row, marks, s.room.viewAll)
}

// MakeIndex makes the index of replicas before a change needs it.
func (s *Server) MakeIndex(ctx context.Context) { s.records.makeIndex(ctx) }

// Update makes a durable change, with all the looks that it needs.
func (s *Server) Update(ctx context.Context, do func(*state.Tx) error) error {
	return s.access.updateWithProbe(ctx, do)
}
