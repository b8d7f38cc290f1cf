package root

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// fake is a service that does nothing by itself: tests say what becomes of tasks.
// Its tasks outlive its servers, as a ledger would have them.
type fake struct {
	pb.UnimplementedTaskServiceServer
	pb.UnimplementedDatasetServiceServer
	pb.UnimplementedTierServiceServer
	pb.UnimplementedAgentServiceServer
	pb.UnimplementedPolicyServiceServer
	pb.UnimplementedCatalogServiceServer
	pb.UnimplementedUsageServiceServer
	pb.UnimplementedAdminServiceServer

	path       string                    // of its socket
	accept     func(*pb.Task)            // called with a new task, before it is told; nil is nothing
	hang       func(context.Context)     // called before SubmitTask answers; nil is nothing
	cancel     func(*pb.Task)            // called with a task that is to be cancelled; nil cancels it
	cancelling func(context.Context)     // called before that; nil is nothing
	refuse     error                     // what CancelTask answers afterwards; nil is the task
	pages      func(page int) []*pb.Task // what ListTasks returns; nil is tasks
	errs       map[string]error          // what a method answers instead, by its name
	stage      *pb.StageResponse         // what Stage answers; nil makes a task
	answers    map[string]proto.Message  // of methods that only look
	backup     []byte

	mu      sync.Mutex // guards all below
	tasks   []*pb.Task
	keys    []string // of all submissions that came
	asked   map[string][]proto.Message
	changed chan struct{} // closed when a task changes
	kill    func()
}

// newFake serves until the end of the test.
func newFake(t *testing.T) *fake {
	t.Helper()
	before := goleak.IgnoreCurrent()
	s := &fake{path: filepath.Join(t.TempDir(), "s"), changed: make(chan struct{}), asked: map[string][]proto.Message{},
		errs: map[string]error{}, answers: map[string]proto.Message{}}
	t.Cleanup(func() {
		s.kill()
		goleak.VerifyNone(t, before)
	})
	s.serve(t)
	return s
}

func (s *fake) address() string { return "unix://" + s.path }

// serve begins to serve on the socket; kill ends that as kill -9 would.
func (s *fake) serve(t *testing.T) {
	t.Helper()
	on := must.Get(net.Listen("unix", s.path))(t)
	s.serveOn(on)
}

func (s *fake) serveOn(on net.Listener, more ...grpc.ServerOption) {
	server := grpc.NewServer(append(append(api.ServerOptions(), grpc.ChainUnaryInterceptor(s.intercept)), more...)...)
	pb.RegisterTaskServiceServer(server, s)
	pb.RegisterDatasetServiceServer(server, s)
	pb.RegisterTierServiceServer(server, s)
	pb.RegisterAgentServiceServer(server, s)
	pb.RegisterPolicyServiceServer(server, s)
	pb.RegisterCatalogServiceServer(server, s)
	pb.RegisterUsageServiceServer(server, s)
	pb.RegisterAdminServiceServer(server, s)
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(on) }) // until Stop
	s.kill = sync.OnceFunc(func() {
		server.Stop()
		wg.Wait()
	})
}

// intercept notes what is asked, and answers what the test has said.
func (s *fake) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	method := info.FullMethod[strings.LastIndexByte(info.FullMethod, '/')+1:]
	s.mu.Lock()
	s.asked[method] = append(s.asked[method], req.(proto.Message))
	err, answer := s.errs[method], s.answers[method]
	s.mu.Unlock()
	switch {
	case err != nil:
		return nil, err
	case answer != nil:
		return answer, nil
	}
	return handle(ctx, req)
}

// last is what a method was asked last.
func last[T proto.Message](t *testing.T, s *fake, method string) T {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.asked[method]
	if len(all) == 0 {
		t.Fatalf("%s was not asked", method)
	}
	return all[len(all)-1].(T)
}

// begin makes a task, unless the key has one.
func (s *fake) begin(spec *pb.TaskSpec, key string) *pb.Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = append(s.keys, key)
	for _, t := range s.tasks {
		if key != "" && t.GetIdempotencyKey() == key {
			return proto.CloneOf(t)
		}
	}
	t := &pb.Task{Id: fmt.Sprintf("task%016d", len(s.tasks)+1), Spec: spec, IdempotencyKey: key, State: pb.TaskState_TASK_STATE_QUEUED, Revision: 1,
		Owner: &pb.Account{Name: "alice", Uid: 1000}, CreateTime: timestamppb.Now()}
	s.tasks = append(s.tasks, t)
	return proto.CloneOf(t)
}

func (s *fake) began(t *pb.Task) *pb.Task {
	if s.accept != nil {
		s.accept(t)
	}
	return t
}

func (s *fake) SubmitTask(ctx context.Context, r *pb.SubmitTaskRequest) (*pb.Task, error) {
	t := s.began(s.begin(r.GetSpec(), r.GetIdempotencyKey()))
	if s.hang != nil {
		s.hang(ctx)
	}
	return t, nil
}

func (s *fake) AddDataset(_ context.Context, r *pb.AddDatasetRequest) (*pb.Task, error) {
	return s.began(s.begin(&pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_DESCRIBE, Source: r.GetLocation(), Staging: &pb.Staging{Dataset: r.GetName()}}, r.GetIdempotencyKey())), nil
}

func (s *fake) Stage(_ context.Context, r *pb.StageRequest) (*pb.StageResponse, error) {
	if s.stage != nil {
		return s.stage, nil
	}
	spec := &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_STAGE, Source: r.GetSource(), Node: "n1", Staging: &pb.Staging{Tier: "scratch"}}
	return &pb.StageResponse{Task: s.began(s.begin(spec, r.GetIdempotencyKey()))}, nil
}

func (s *fake) Release(_ context.Context, r *pb.ReleaseRequest) (*pb.Task, error) {
	return s.began(s.begin(&pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_RELEASE, Staging: &pb.Staging{Dataset: r.GetSource(), Tier: r.GetTier()}}, "")), nil
}

func (s *fake) Purge(_ context.Context, r *pb.PurgeRequest) (*pb.Task, error) {
	return s.began(s.begin(&pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_PURGE, Target: r.GetLocation()}, "")), nil
}

func (s *fake) find(id string) (*pb.Task, error) {
	for _, t := range s.tasks {
		if t.GetId() == id {
			return proto.CloneOf(t), nil
		}
	}
	return nil, &mover.Error{Op: "find", Location: "task", Name: id, Err: mover.ErrNotExist}
}

func (s *fake) GetTask(_ context.Context, r *pb.GetTaskRequest) (*pb.Task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(r.GetId())
}

// ListTasks has a task on a page, unless the test says what is on it.
func (s *fake) ListTasks(_ context.Context, r *pb.ListTasksRequest) (*pb.ListTasksResponse, error) {
	page := 0
	if r.GetPageToken() != "" {
		if _, err := fmt.Sscan(r.GetPageToken(), &page); err != nil {
			return nil, fmt.Errorf("page token: %w", mover.ErrUsage)
		}
	}
	answer := &pb.ListTasksResponse{}
	if s.pages != nil {
		answer.Tasks = s.pages(page)
	} else {
		s.mu.Lock()
		defer s.mu.Unlock()
		answer.Tasks = s.tasks[min(page, len(s.tasks)):min(page+1, len(s.tasks))]
	}
	if len(answer.Tasks) > 0 {
		answer.NextPageToken = fmt.Sprint(page + 1)
	}
	return answer, nil
}

func (s *fake) WatchTask(r *pb.WatchTaskRequest, out grpc.ServerStreamingServer[pb.Task]) error {
	for {
		s.mu.Lock()
		t, err := s.find(r.GetId())
		changed := s.changed
		s.mu.Unlock()
		if err == nil {
			err = out.Send(t)
		}
		if err != nil || api.Ended(t.GetState()) {
			return err
		}
		select {
		case <-changed:
		case <-out.Context().Done():
			return out.Context().Err()
		}
	}
}

func (s *fake) PauseTask(ctx context.Context, r *pb.PauseTaskRequest) (*pb.Task, error) {
	s.change(r.GetId(), func(t *pb.Task) { t.State, t.Why = pb.TaskState_TASK_STATE_PAUSED, "paused by alice" })
	return s.GetTask(ctx, &pb.GetTaskRequest{Id: r.GetId()})
}

func (s *fake) ResumeTask(ctx context.Context, r *pb.ResumeTaskRequest) (*pb.Task, error) {
	s.change(r.GetId(), func(t *pb.Task) { t.State, t.Why = pb.TaskState_TASK_STATE_QUEUED, "" })
	return s.GetTask(ctx, &pb.GetTaskRequest{Id: r.GetId()})
}

func (s *fake) CancelTask(ctx context.Context, r *pb.CancelTaskRequest) (*pb.Task, error) {
	if s.cancelling != nil {
		s.cancelling(ctx)
	}
	how := s.cancel
	if how == nil {
		how = func(t *pb.Task) { t.State, t.ExitCode = pb.TaskState_TASK_STATE_CANCELLED, cli.ExitInterrupted }
	}
	s.change(r.GetId(), how)
	if s.refuse != nil {
		return nil, s.refuse
	}
	return s.GetTask(ctx, &pb.GetTaskRequest{Id: r.GetId()})
}

func (s *fake) Backup(_ *pb.BackupRequest, out grpc.ServerStreamingServer[pb.BackupChunk]) error {
	for text := s.backup; len(text) > 0; {
		n := min(len(text), 64<<10)
		if err := out.Send(&pb.BackupChunk{Data: text[:n]}); err != nil {
			return err
		}
		text = text[n:]
	}
	return s.errs["Backup"]
}

// change changes a task, and tells those who watch.
func (s *fake) change(id string, with func(*pb.Task)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, t := range s.tasks {
		if t.GetId() == id {
			t = proto.CloneOf(t)
			with(t)
			t.Revision++
			s.tasks[i] = t
		}
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// ends makes new tasks end in a way.
func (s *fake) ends(with func(*pb.Task)) {
	s.accept = func(t *pb.Task) {
		s.change(t.GetId(), func(t *pb.Task) {
			t.StartTime, t.FirstByteTime, t.EndTime, t.Agent, t.Tries = timestamppb.Now(), timestamppb.Now(), timestamppb.Now(), "n1", 1
			with(t)
		})
	}
}

// done is a task that has moved two files.
func isDone(t *pb.Task) {
	t.State = pb.TaskState_TASK_STATE_DONE
	t.Report = reportOf(nil)
}

// session is a person at a command line with a service.
type session struct {
	t    *testing.T
	ctx  context.Context
	env  map[string]string
	in   string
	err  *watched
	home string
}

func newSession(t *testing.T, s *fake) *session {
	u := &session{t: t, ctx: t.Context(), env: map[string]string{}, err: &watched{said: make(chan struct{})}, home: t.TempDir()}
	if s != nil {
		u.env["DATAMOVE_SERVICE"] = s.address()
	}
	return u
}

// run runs a command line and returns what it printed.
func (u *session) run(args ...string) (code int, stdout, stderr string) {
	u.t.Helper()
	var out bytes.Buffer
	u.err.reset()
	a := cli.App{In: strings.NewReader(u.in), Out: &out, Err: u.err, Env: func(key string) string {
		if key == "HOME" {
			return u.home
		}
		return u.env[key]
	}}
	code = cli.ExitCode(execute(u.ctx, &a, args))
	return code, out.String(), u.err.String()
}

// wants runs a command line that must end with a code.
func (u *session) wants(want int, args ...string) (stdout, stderr string) {
	u.t.Helper()
	code, out, said := u.run(args...)
	if code != want {
		u.t.Errorf("datamove %s: exit %d, want %d\n%s%s", strings.Join(args, " "), code, want, out, said)
	}
	return out, said
}

// watched is a stderr at which a test can wait for something to be said.
type watched struct {
	mu   sync.Mutex
	text bytes.Buffer
	said chan struct{} // closed when there is more
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.said)
	w.said = make(chan struct{})
	return w.text.Write(p)
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

func (w *watched) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Reset()
}

// wait returns when text was said.
func (w *watched) wait(ctx context.Context, text string) {
	for {
		w.mu.Lock()
		there, more := strings.Contains(w.text.String(), text), w.said
		w.mu.Unlock()
		if there {
			return
		}
		select {
		case <-more:
		case <-ctx.Done():
			return
		}
	}
}

// has fails unless text contains all of the parts.
func has(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s: no %q in\n%s", what, part, text)
		}
	}
}
