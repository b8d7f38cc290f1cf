package coordinator

import (
	"bufio"
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
)

// adminServer answers operators.
type adminServer struct {
	pb.UnimplementedAdminServiceServer
	*core
	c *Service
}

// GetInfo implements pb.AdminServiceServer.
func (s *adminServer) GetInfo(ctx context.Context, r *pb.GetInfoRequest) (*pb.Info, error) {
	c := authz.From(ctx)
	i := &pb.Info{
		Version: s.o.Version, Node: s.o.Node, StartTime: timestamppb.New(s.started), Term: s.ledger.Term(),
		Caller: &pb.Account{Name: c.Name, Uid: c.UID}, Roles: s.rules().Roles(c), Projects: s.rules().Projects(c),
	}
	if err := s.ledger.Admits(); err != nil {
		i.Full = err.Error()
	}
	s.c.scheduler.mu.Lock()
	i.TasksRunning, i.Agents = int64(len(s.c.scheduler.leads)), int32(len(s.c.scheduler.agents))
	i.TasksStanding, i.BytesPerSecond = s.working()
	s.c.scheduler.mu.Unlock()
	if r.GetHistorySince() != nil {
		i.History = s.c.metrics.rates.since(r.GetHistorySince().AsTime())
	}
	if n, counted := s.c.metrics.counted(task.Queued); counted {
		i.TasksQueued = n
		return i, nil
	}
	err := s.ledger.View(func(tx *state.Tx) error {
		n, err := state.CountTasks(tx, state.TaskFilter{States: []pb.TaskState{task.Queued}})
		i.TasksQueued = int64(n)
		return err
	})
	return i, err
}

// working counts the tasks that run until they are cancelled, and sums the rates of all. scheduler.mu is held.
func (s *adminServer) working() (standing int64, bytesPerSecond float64) {
	for _, l := range s.c.scheduler.leads {
		if task.Of(l.task.GetSpec()).Standing {
			standing++
		}
		bytesPerSecond += l.task.GetProgress().GetBytesPerSecond()
	}
	return standing, bytesPerSecond
}

// Backup implements pb.AdminServiceServer.
func (s *adminServer) Backup(_ *pb.BackupRequest, stream grpc.ServerStreamingServer[pb.BackupChunk]) error {
	w := bufio.NewWriterSize(backupChunks{stream}, 64<<10)
	if err := s.ledger.Backup(w); err != nil {
		return err
	}
	return w.Flush()
}

type backupChunks struct {
	stream grpc.ServerStreamingServer[pb.BackupChunk]
}

func (c backupChunks) Write(p []byte) (int, error) {
	for sent := 0; sent < len(p); {
		n := min(len(p)-sent, 64<<10)
		if err := c.stream.Send(&pb.BackupChunk{Data: p[sent : sent+n]}); err != nil {
			return sent, err
		}
		sent += n
	}
	return len(p), nil
}

// Reload implements pb.AdminServiceServer.
func (s *adminServer) Reload(ctx context.Context, _ *pb.ReloadRequest) (*pb.ReloadResponse, error) {
	if s.o.Reload == nil {
		return nil, mover.ErrUnsupported
	}
	changed, err := s.o.Reload(ctx)
	s.c.scheduler.tellLimits()
	return &pb.ReloadResponse{Changed: changed}, err
}

// IssueIdentity implements pb.AdminServiceServer.
func (s *adminServer) IssueIdentity(ctx context.Context, r *pb.IssueIdentityRequest) (*pb.IssuedIdentity, error) {
	return s.c.enroll.IssueIdentity(ctx, r)
}

// RevokeIdentity implements pb.AdminServiceServer.
func (s *adminServer) RevokeIdentity(ctx context.Context, r *pb.RevokeIdentityRequest) (*pb.RevokeIdentityResponse, error) {
	return s.c.enroll.RevokeIdentity(ctx, r)
}
