// Package burstserver is the part of a coordinator that has bursts: permissions, records, what agents ask
// for tasks of bursts, and the accounts of teams. Its state is in the ledger; its locks are its own.
package burstserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
)

// Coordinator is what a Server needs of the coordinator of its tasks.
type Coordinator interface {
	// Submit accepts a task of the caller in ctx. also, if not nil, changes the ledger together with it.
	Submit(ctx context.Context, spec *pb.TaskSpec, key string, also func(*state.Tx, *pb.Task) error) (*pb.Task, error)
	// Assigned returns the task that the agent in ctx leads in an epoch, or mover.ErrHeld.
	Assigned(ctx context.Context, id string, epoch uint64) (*pb.Task, error)
	// BurstTask returns the id of a running task that changes the burst of a name; "" is none.
	BurstTask(name string) string
	// AddChore has the coordinator do something every so often, while it runs.
	AddChore(every time.Duration, what string, do func(context.Context) error)
}

// Datasets is what a Server needs of the server of datasets.
type Datasets interface {
	// NearestReplica returns where a task of a caller reads a dataset, and the node for which that holds.
	NearestReplica(c authz.Caller, dataset string, by *pb.TaskSpec) (at, node string, err error)
	// CheckLabels adds a check of the labels of a lease: an error of may refuses the lease.
	CheckLabels(may func(c authz.Caller, labels map[string]string) error)
}

// Options are what a Server is made of. All are needed.
type Options struct {
	Coordinator Coordinator
	Datasets    Datasets
	Ledger      *state.Ledger
	Config      func() *config.Config
	Rules       func() *authz.Rules
	Logger      *slog.Logger
	Now         func() time.Time
}

// Server implements pb.BurstServiceServer, and ReadBurst, KeepBurst and Spend of agentv1.LinkServiceServer.
type Server struct {
	pb.UnimplementedBurstServiceServer
	o Options
	accounts
}

// How often the server brings home what jobs save, and charges what bursts have by the hour.
const (
	followEvery = 5 * time.Second
	chargeEvery = 10 * time.Minute
)

// New returns a server. The coordinator does its chores.
func New(o Options) *Server {
	s := &Server{o: o}
	o.Coordinator.AddChore(followEvery, "bring home what jobs of bursts have saved", s.BringHome)
	o.Coordinator.AddChore(chargeEvery, "charge what bursts have by the hour", s.Charge)
	o.Datasets.CheckLabels(s.MayLabel)
	return s
}

// Register makes the server answer on r.
func (s *Server) Register(r grpc.ServiceRegistrar) { pb.RegisterBurstServiceServer(r, s) }

// Link returns base with the calls of agents for tasks of bursts.
func (s *Server) Link(base agentv1.LinkServiceServer) agentv1.LinkServiceServer {
	return &link{base, s}
}

type link struct {
	agentv1.LinkServiceServer
	s *Server
}

func (l *link) ReadBurst(ctx context.Context, r *agentv1.ReadBurstRequest) (*agentv1.ReadBurstResponse, error) {
	return l.s.ReadBurst(ctx, r)
}

func (l *link) KeepBurst(ctx context.Context, r *agentv1.KeepBurstRequest) (*agentv1.KeepBurstResponse, error) {
	return l.s.KeepBurst(ctx, r)
}

func (l *link) Spend(ctx context.Context, r *agentv1.SpendRequest) (*agentv1.SpendResponse, error) {
	return l.s.Spend(ctx, r)
}

// noAccount is a name that no account has.
const noAccount = "\x00nobody"

// ignoreMissing returns err, unless it is mover.ErrNotExist.
func ignoreMissing(err error) error {
	if errors.Is(err, mover.ErrNotExist) {
		return nil
	}
	return err
}

// refusal is an error of a kind that prints without the name of the kind.
func refusal(kind error, format string, args ...any) error {
	return &sentence{fmt.Sprintf(format, args...), kind}
}

type sentence struct {
	text string
	kind error
}

func (s *sentence) Error() string { return s.text }
func (s *sentence) Unwrap() error { return s.kind }
