// Package policyserver is the part of a coordinator that has policies: it plans them, runs them when it is time, tells owners of what a run takes away,
// and answers agents that do what a run lists. Its state is in the ledger and in plan files; its locks are its own.
package policyserver

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/grpc"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/coordinator/placement"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/notify"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/telemetry"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/catalog/query"
	"datamove.dev/tiering/policy"
	"datamove.dev/tiering/policy/treecontext"
)

// Coordinator is what a Server needs of the coordinator of its tasks.
type Coordinator interface {
	// NewTask returns a task of the service itself, which is not stored yet.
	NewTask(spec *pb.TaskSpec) *pb.Task
	// Submitted has a task assigned that was stored; nil is none.
	Submitted(ctx context.Context, t *pb.Task)
	// Assigned returns the task that the agent in ctx leads in an epoch, or mover.ErrHeld.
	Assigned(ctx context.Context, id string, epoch uint64) (*pb.Task, error)
	// Rooms are the latest reports of agents on the room of a tier: one for each node, or one for all.
	Rooms(tier string, eachNode bool) []placement.Room
	// Reaching are the nodes that are connected and reach a tier, sorted.
	Reaching(tier string) []string
	// AddChore has the coordinator do something every so often, while it runs.
	AddChore(every time.Duration, what string, do func(context.Context) error)
	// AddLoop has the coordinator run a loop until its context ends.
	AddLoop(run func(context.Context))
	// OnTaskEnd has do called in the change in which a task ends.
	OnTaskEnd(do func(tx *state.Tx, t *pb.Task) error)
	// OnTaskEnded has do called after that change.
	OnTaskEnded(do func(t *pb.Task))
}

// Catalog is what a Server needs of the server of the catalog.
type Catalog interface {
	// Question reads a question of the caller in ctx about the catalog, limited to what the caller may see.
	Question(ctx context.Context, asked *pb.Question) (query.Reader, query.Question, error)
	// AsOf is the moment of which the facts about a tree are.
	AsOf(of *catalog.State) time.Time
	// Scan has a tree scanned, if no scan of it is under way.
	Scan(ctx context.Context, tree catalog.Tree) error
	// OnCheckpoints has do called after checkpoints were recorded.
	OnCheckpoints(do func())
}

// Datasets is what a Server needs of the server of datasets.
type Datasets interface {
	// RemoveReplica stores a task that removes a replica, or reports why the replica has to stay.
	RemoveReplica(tx *state.Tx, r *pb.Replica, labels map[string]string, evict bool) (*pb.Task, error)
	// Tree reads what is known of a tree beside the catalog.
	Tree(tree catalog.Tree) (*treecontext.Context, error)
}

// Options are what a Server is made of. Coordinator, Datasets, Server, Ledger, Config, Rules, Logger, Now and Data are needed.
type Options struct {
	Coordinator Coordinator
	Datasets    Datasets
	Server      Catalog
	Ledger      *state.Ledger
	Config      func() *config.Config
	Rules       func() *authz.Rules
	Logger      *slog.Logger
	Now         func() time.Time
	Data        string                   // a directory: plans lie below it
	Metrics     *telemetry.Metrics       // nil counts nothing
	Catalog     *catalog.Catalog         // nil is no catalog
	Policies    func() []*policy.Program // of this moment; nil has none
	People      policy.People            // names of accounts; nil: they are numbers
}

// Server implements pb.PolicyServiceServer, and ReadItems of agentv1.LinkServiceServer.
type Server struct {
	pb.UnimplementedPolicyServiceServer
	o       Options
	c       Coordinator
	ledger  *state.Ledger
	log     *slog.Logger
	now     func() time.Time
	started time.Time
	controller
	notifier *notify.Notifier
	hops     hopCache
}

const (
	complete    = pb.CheckpointState_CHECKPOINT_STATE_COMPLETE
	verified    = pb.CheckpointState_CHECKPOINT_STATE_VERIFIED
	filesAtOnce = 500 // are in one message
)

// refused says whether an error is the answer of a rule, and not a failure.
func refused(err error) bool {
	return errors.Is(err, mover.ErrRefused) || errors.Is(err, mover.ErrHeld) || errors.Is(err, mover.ErrConflict) || errors.Is(err, mover.ErrNotExist)
}

// How often the server looks after what plans and runs have kept.
const (
	sweepEvery = time.Hour
	keptEvery  = 30 * time.Second
)

// New returns a server. The coordinator does its chores.
func New(o Options) *Server {
	s := &Server{o: o, c: o.Coordinator, ledger: o.Ledger, log: o.Logger, now: o.Now, started: o.Now(),
		controller: controller{stirred: make(chan struct{}, 1)}}
	s.notifier = notify.New(s.channels, o.Logger)
	s.c.AddChore(sweepEvery, "remove plans that no run needs", s.SweepPlans)
	s.c.AddChore(keptEvery, "remove what runs have kept long enough", s.EndKept)
	s.c.AddLoop(s.control)
	s.c.AddLoop(s.notifier.Run)
	s.c.AddLoop(s.sampled)
	s.c.OnTaskEnd(s.taskEnds)
	s.c.OnTaskEnded(s.brought)
	o.Server.OnCheckpoints(s.wake)
	return s
}

func (s *Server) conf() *config.Config { return s.o.Config() }

// Register makes the server answer on r.
func (s *Server) Register(r grpc.ServiceRegistrar) { pb.RegisterPolicyServiceServer(r, s) }

// Link returns base with the calls of agents for tasks of runs.
func (s *Server) Link(base agentv1.LinkServiceServer) agentv1.LinkServiceServer {
	return &link{base, s}
}

type link struct {
	agentv1.LinkServiceServer
	s *Server
}

func (l *link) ReadItems(r *agentv1.ReadItemsRequest, out grpc.ServerStreamingServer[agentv1.ReadItemsResponse]) error {
	return l.s.ReadItems(r, out)
}
