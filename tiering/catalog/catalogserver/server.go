// Package catalogserver is the part of a coordinator that has the catalog of the tiers: questions about files, scans, change feeds, and what is
// known of checkpoints. Its state is in the ledger and the catalog; its locks are its own.
package catalogserver

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/config"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/telemetry"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/policy"
	"datamove.dev/tiering/policy/treecontext"
)

// Coordinator is what a Server needs of the coordinator of its tasks.
type Coordinator interface {
	// NewTask returns a task of the service itself, which is not stored yet.
	NewTask(spec *pb.TaskSpec) *pb.Task
	// OwnTasks are the tasks of the service itself that have not ended.
	OwnTasks() state.TaskFilter
	// Submitted has a task assigned that was stored; nil is none.
	Submitted(ctx context.Context, t *pb.Task)
	// Cancel cancels a task of the service itself.
	Cancel(ctx context.Context, t *pb.Task) error
	// Assigned returns the task that the agent in ctx leads in an epoch, or mover.ErrHeld.
	Assigned(ctx context.Context, id string, epoch uint64) (*pb.Task, error)
	// Sends is Assigned for an agent that begins to send. It does one such thing at a time, until it calls done.
	Sends(ctx context.Context, id string, epoch uint64) (t *pb.Task, done func(), err error)
	// Reaching are the nodes that are connected and reach a tier, sorted.
	Reaching(tier string) []string
	// AddChore has the coordinator do something every so often, while it runs.
	AddChore(every time.Duration, what string, do func(context.Context) error)
	// AddLoop has the coordinator run a loop until its context ends.
	AddLoop(run func(context.Context))
	// OnDone has done asked about a task that its agent calls done: why it is not.
	OnDone(done func(t *pb.Task) error)
}

// Datasets is what a Server needs of the server of datasets.
type Datasets interface {
	// Tree reads what is known of a tree beside the catalog.
	Tree(tree catalog.Tree) (*treecontext.Context, error)
}

// Options are what a Server is made of. Coordinator, Datasets, Ledger, Config, Rules, Logger, Now and Node are needed.
type Options struct {
	Coordinator Coordinator
	Datasets    Datasets
	Ledger      *state.Ledger
	Config      func() *config.Config
	Rules       func() *authz.Rules
	Logger      *slog.Logger
	Now         func() time.Time
	Node        string             // this node: that of callers on its socket
	Metrics     *telemetry.Metrics // nil counts nothing
	Catalog     *catalog.Catalog   // nil is no catalog
	People      policy.People      // names of accounts; nil: they are numbers
}

// Server implements pb.CatalogServiceServer, and PutWalk, Follow and TellCheckpoints of agentv1.LinkServiceServer.
type Server struct {
	pb.UnimplementedCatalogServiceServer
	o        Options
	c        Coordinator
	ledger   *state.Ledger
	log      *slog.Logger
	now      func() time.Time
	hearings hearings
	seen     []func() // of checkpoints

	// Of the chores alone: when a task for a tree was asked for last.
	scanAsked, partAsked, followAsked, sightsAsked map[catalog.Tree]time.Time
}

// How often the server looks after the catalog.
const (
	scanEvery   = 30 * time.Second
	followEvery = 5 * time.Second
	sweepEvery  = time.Hour
)

// New returns a server. The coordinator does its chores.
func New(o Options) *Server {
	s := &Server{o: o, c: o.Coordinator, ledger: o.Ledger, log: o.Logger, now: o.Now}
	s.c.AddChore(scanEvery, "keep the catalog fresh", s.KeepScanned)
	s.c.AddChore(scanEvery, "verify the catalog", s.KeepVerified)
	s.c.AddChore(followEvery, "keep the tasks that follow changes", s.KeepFollowed)
	s.c.AddChore(followEvery, "keep the tasks that look for checkpoints", s.KeepCheckpointTasks)
	s.c.AddChore(sweepEvery, "forget the catalog of tiers that are no more", s.ForgetTrees)
	s.c.AddChore(sweepEvery, "forget checkpoints for which no task looks", s.ForgetCheckpoints)
	s.c.AddLoop(s.sampled)
	s.c.OnDone(s.Done)
	return s
}

// OnCheckpoints has do called after checkpoints were recorded. It is called before the coordinator runs.
func (s *Server) OnCheckpoints(do func()) { s.seen = append(s.seen, do) }

func (s *Server) checkpointsSeen() {
	for _, do := range s.seen {
		do()
	}
}

func (s *Server) conf() *config.Config { return s.o.Config() }

// Scan has a tree scanned, if no scan of it is under way.
func (s *Server) Scan(ctx context.Context, tree catalog.Tree) error {
	_, err := s.treeTask(ctx, scans, tree.Tier, tree.Node, "")
	return err
}

// Register makes the server answer on r.
func (s *Server) Register(r grpc.ServiceRegistrar) { pb.RegisterCatalogServiceServer(r, s) }

// Link returns base with the calls of agents for scans, feeds and checkpoints.
func (s *Server) Link(base agentv1.LinkServiceServer) agentv1.LinkServiceServer {
	return &link{base, s}
}

type link struct {
	agentv1.LinkServiceServer
	s *Server
}

func (l *link) PutWalk(stream grpc.ClientStreamingServer[agentv1.PutWalkRequest, agentv1.PutWalkResponse]) error {
	return l.s.PutWalk(stream)
}

func (l *link) Follow(stream grpc.BidiStreamingServer[agentv1.FollowRequest, agentv1.FollowResponse]) error {
	return l.s.Follow(stream)
}

func (l *link) TellCheckpoints(ctx context.Context, r *agentv1.TellCheckpointsRequest) (*agentv1.TellCheckpointsResponse, error) {
	return l.s.TellCheckpoints(ctx, r)
}
