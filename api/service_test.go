package api

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// service is a small one, whose tasks outlive its servers as a ledger would.
type service struct {
	datamovev1.UnimplementedTaskServiceServer
	datamovev1.UnimplementedDatasetServiceServer
	datamovev1.UnimplementedAdminServiceServer

	accepted func()         // called when a task is stored and not yet answered; nil is nothing
	watchers sync.WaitGroup // calls of WatchTask

	mu      sync.Mutex // guards all below
	tasks   []*datamovev1.Task
	keys    []string // of all submissions that came
	asked   []proto.Message
	from    []metadata.MD // of asked
	changed chan struct{} // closed when a task changes
	errs    []error       // what GetTask and WatchTask answer first
}

func newService() *service { return &service{changed: make(chan struct{})} }

func (s *service) SubmitTask(ctx context.Context, req *datamovev1.SubmitTaskRequest) (*datamovev1.Task, error) {
	task := s.submit(ctx, req)
	if s.accepted != nil {
		s.accepted()
	}
	return task, nil
}

func (s *service) submit(ctx context.Context, req *datamovev1.SubmitTaskRequest) *datamovev1.Task {
	s.note(ctx, req)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = append(s.keys, req.IdempotencyKey)
	for _, t := range s.tasks {
		if t.IdempotencyKey == req.IdempotencyKey {
			return t
		}
	}
	t := &datamovev1.Task{Id: fmt.Sprintf("task%d", len(s.tasks)+1), Spec: req.Spec, IdempotencyKey: req.IdempotencyKey,
		State: datamovev1.TaskState_TASK_STATE_QUEUED, Revision: 1}
	s.tasks = append(s.tasks, t)
	return t
}

func (s *service) GetTask(ctx context.Context, req *datamovev1.GetTaskRequest) (*datamovev1.Task, error) {
	s.note(ctx, req)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(req.Id)
}

func (s *service) find(id string) (*datamovev1.Task, error) {
	if len(s.errs) > 0 {
		err := s.errs[0]
		s.errs = s.errs[1:]
		return nil, err
	}
	for _, t := range s.tasks {
		if t.Id == id {
			return proto.CloneOf(t), nil
		}
	}
	return nil, &mover.Error{Op: "find", Location: "task", Name: id, Err: mover.ErrNotExist}
}

// ListTasks has two tasks on a page, and starts at the page token.
func (s *service) ListTasks(ctx context.Context, req *datamovev1.ListTasksRequest) (*datamovev1.ListTasksResponse, error) {
	s.note(ctx, req)
	s.mu.Lock()
	defer s.mu.Unlock()
	first := 0
	if req.PageToken != "" {
		if _, err := fmt.Sscan(req.PageToken, &first); err != nil {
			return nil, fmt.Errorf("page token: %w", mover.ErrUsage)
		}
	}
	last := min(first+2, len(s.tasks))
	answer := &datamovev1.ListTasksResponse{Tasks: s.tasks[first:last]}
	if last < len(s.tasks) {
		answer.NextPageToken = fmt.Sprint(last)
	}
	return answer, nil
}

func (s *service) WatchTask(req *datamovev1.WatchTaskRequest, out grpc.ServerStreamingServer[datamovev1.Task]) error {
	s.watchers.Add(1)
	defer s.watchers.Done()
	s.note(out.Context(), req)
	for {
		s.mu.Lock()
		t, err := s.find(req.Id)
		changed := s.changed
		s.mu.Unlock()
		if err == nil {
			err = out.Send(t)
		}
		if err != nil || Ended(t.State) {
			return err
		}
		select {
		case <-changed:
		case <-out.Context().Done():
			return out.Context().Err()
		}
	}
}

func (s *service) PauseTask(ctx context.Context, req *datamovev1.PauseTaskRequest) (*datamovev1.Task, error) {
	s.note(ctx, req)
	return &datamovev1.Task{Id: req.Id}, nil
}

func (s *service) RenewLease(ctx context.Context, req *datamovev1.RenewLeaseRequest) (*datamovev1.Lease, error) {
	s.note(ctx, req)
	return &datamovev1.Lease{Id: req.Id}, nil
}

func (s *service) RemoveDataset(ctx context.Context, req *datamovev1.RemoveDatasetRequest) (*datamovev1.RemoveDatasetResponse, error) {
	s.note(ctx, req)
	return &datamovev1.RemoveDatasetResponse{}, nil
}

// note remembers what was asked, and by whom.
func (s *service) note(ctx context.Context, req proto.Message) {
	from, _ := metadata.FromIncomingContext(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked, s.from = append(s.asked, req), append(s.from, from)
}

// lastAsked is what the service heard last; nil if nothing. It forgets it.
func (s *service) lastAsked() (proto.Message, metadata.MD) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.asked)
	if n == 0 {
		return nil, nil
	}
	req, from := s.asked[n-1], s.from[n-1]
	s.asked, s.from = nil, nil
	return req, from
}

// change changes a task, and tells those who watch.
func (s *service) change(id string, with func(*datamovev1.Task)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, t := range s.tasks {
		if t.Id == id {
			t = proto.CloneOf(t)
			with(t)
			t.Revision++
			s.tasks[i] = t
		}
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// serve begins to serve on a listener; what it returns ends that as kill -9 would.
func (s *service) serve(on net.Listener) (kill func()) {
	server := grpc.NewServer(ServerOptions()...)
	datamovev1.RegisterTaskServiceServer(server, s)
	datamovev1.RegisterDatasetServiceServer(server, s)
	datamovev1.RegisterAdminServiceServer(server, s)
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(on) }) // until Stop
	return sync.OnceFunc(func() {
		server.Stop()
		wg.Wait()
	})
}

// atSocket serves on a socket, and returns its address.
func (s *service) atSocket(t *testing.T, path string) (address string, kill func()) {
	t.Helper()
	on := must.Get(net.Listen("unix", path))(t)
	kill = s.serve(on)
	t.Cleanup(kill)
	return "unix://" + path, kill
}

func socket(t *testing.T) string { return filepath.Join(t.TempDir(), "s") }

// dial connects until the end of the test.
func dial(t *testing.T, address string, o Options) *Client {
	t.Helper()
	c := must.Get(Dial(t.Context(), address, o))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}
