package browser

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	lifecycle "datamove.dev/mover/task"
)

// world is a service that a page can be in front of.
type world interface {
	Register(grpc.ServiceRegistrar)
}

// service is a small world, whose tasks a test moves by hand.
type service struct {
	datamovev1.UnimplementedTaskServiceServer
	datamovev1.UnimplementedDatasetServiceServer
	datamovev1.UnimplementedTierServiceServer
	datamovev1.UnimplementedAgentServiceServer
	datamovev1.UnimplementedAdminServiceServer
	datamovev1.UnimplementedCatalogServiceServer
	datamovev1.UnimplementedPolicyServiceServer

	mu       sync.Mutex         // guards all below
	tasks    []*datamovev1.Task // newest first; one that is here is never changed
	made     int                // tasks that there ever were
	agents   []*datamovev1.Agent
	tiers    []*datamovev1.Tier
	datasets []*datamovev1.Dataset
	replicas []*datamovev1.Replica
	leases   []*datamovev1.Lease
	pins     []*datamovev1.PinInfo
	policies []*datamovev1.Policy
	runs     []*datamovev1.Run
	scans    []*datamovev1.Scan
	sums     []*datamovev1.FileSum
	why      *datamovev1.Explanation
	denied   map[string]bool // deeds that nobody may do
	asked    []string        // deeds that were asked for
	watches  int             // calls of WatchTask
	rounds   int             // calls of GetInfo
	watched  int             // calls of WatchTask that go on
	started  time.Time
	rates    []*datamovev1.RateMoment // before the page was opened
	full     string                   // why it takes no new work
	caller   *datamovev1.Account      // that every call is of
	changed  chan struct{}            // closed when a task changes
}

func newService() *service {
	return &service{changed: make(chan struct{}), started: time.Now(), why: &datamovev1.Explanation{}, caller: &datamovev1.Account{Name: "ada", Uid: 1000}}
}

// Register implements world.
func (s *service) Register(r grpc.ServiceRegistrar) {
	datamovev1.RegisterTaskServiceServer(r, s)
	datamovev1.RegisterDatasetServiceServer(r, s)
	datamovev1.RegisterTierServiceServer(r, s)
	datamovev1.RegisterAgentServiceServer(r, s)
	datamovev1.RegisterAdminServiceServer(r, s)
	datamovev1.RegisterCatalogServiceServer(r, s)
	datamovev1.RegisterPolicyServiceServer(r, s)
}

// ListPolicies implements datamovev1.PolicyServiceServer.
func (s *service) ListPolicies(context.Context, *datamovev1.ListPoliciesRequest) (*datamovev1.ListPoliciesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &datamovev1.ListPoliciesResponse{Policies: s.policies}, nil
}

// ListRuns implements datamovev1.PolicyServiceServer.
func (s *service) ListRuns(context.Context, *datamovev1.ListRunsRequest) (*datamovev1.ListRunsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &datamovev1.ListRunsResponse{Runs: s.runs}, nil
}

// RunPlan implements datamovev1.PolicyServiceServer, as the next two.
func (s *service) RunPlan(_ context.Context, r *datamovev1.RunPlanRequest) (*datamovev1.Run, error) {
	return s.steerRun("run " + r.GetPlan())
}

func (s *service) StopRun(_ context.Context, r *datamovev1.StopRunRequest) (*datamovev1.Run, error) {
	return s.steerRun("stop " + r.GetId())
}

func (s *service) UndoRun(_ context.Context, r *datamovev1.UndoRunRequest) (*datamovev1.Run, error) {
	return s.steerRun("undo " + r.GetId())
}

func (s *service) steerRun(what string) (*datamovev1.Run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, what)
	first := proto.CloneOf(s.runs[0])
	first.Why = strings.Join(s.asked, ", ")
	s.runs = append([]*datamovev1.Run{first}, s.runs[1:]...)
	return first, nil
}

// ListScans implements datamovev1.CatalogServiceServer.
func (s *service) ListScans(context.Context, *datamovev1.ListScansRequest) (*datamovev1.ListScansResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &datamovev1.ListScansResponse{Scans: s.scans}, nil
}

// SumFiles implements datamovev1.CatalogServiceServer: it notes what was asked.
func (s *service) SumFiles(_ context.Context, r *datamovev1.SumFilesRequest) (*datamovev1.SumFilesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, "sum "+r.GetQuestion().GetLocation()+r.GetQuestion().GetNode()+" by "+strings.Join(r.GetBy(), ","))
	return &datamovev1.SumFilesResponse{Sums: s.sums}, nil
}

// add makes tasks that are newer than those there are. It gives them ids.
func (s *service) add(tasks ...*datamovev1.Task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range tasks {
		s.made++
		t.Id, t.Revision = number(s.made), 1
		s.tasks = append(s.tasks, t)
	}
	slices.SortFunc(s.tasks, func(a, b *datamovev1.Task) int { return cmp.Compare(b.Id, a.Id) })
	s.tell()
}

// tell wakes who watches. mu is held.
func (s *service) tell() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// number is the id of a task by its number.
func number(n int) string { return fmt.Sprintf("%020d", n) }

// change changes a task.
func (s *service) change(id string, with func(*datamovev1.Task)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.tasks, func(t *datamovev1.Task) bool { return t.Id == id })
	t := proto.CloneOf(s.tasks[i])
	with(t)
	t.Revision++
	s.tasks[i] = t
	s.tell()
}

// forget removes a task, as a service does with what ended long ago.
func (s *service) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks = slices.DeleteFunc(s.tasks, func(t *datamovev1.Task) bool { return t.Id == id })
}

// with changes anything else.
func (s *service) with(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *service) find(id string) (*datamovev1.Task, error) {
	for _, t := range s.tasks {
		if t.Id == id {
			return t, nil
		}
	}
	return nil, &mover.Error{Op: "find", Location: "task", Name: id, Err: mover.ErrNotExist}
}

func (s *service) GetTask(_ context.Context, r *datamovev1.GetTaskRequest) (*datamovev1.Task, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(r.Id)
}

// ListTasks begins behind the id that is the page token, as the ledger does.
func (s *service) ListTasks(_ context.Context, r *datamovev1.ListTasksRequest) (*datamovev1.ListTasksResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	size, out := cmp.Or(int(min(r.PageSize, 1000)), 100), &datamovev1.ListTasksResponse{}
	first := 0
	if r.PageToken != "" {
		first, _ = slices.BinarySearchFunc(s.tasks, r.PageToken, func(t *datamovev1.Task, id string) int { return -cmp.Compare(t.Id, id) })
		if first < len(s.tasks) && s.tasks[first].Id == r.PageToken {
			first++
		}
	}
	for _, t := range s.tasks[first:] {
		if len(r.States) > 0 && !slices.Contains(r.States, t.State) {
			continue
		}
		if len(out.Tasks) == size {
			out.NextPageToken = out.Tasks[size-1].Id
			break
		}
		out.Tasks = append(out.Tasks, brief(t, r.Brief))
	}
	return out, nil
}

func brief(t *datamovev1.Task, is bool) *datamovev1.Task {
	if is && (t.Report != nil || t.Spec.GetOptions() != nil) {
		t = proto.CloneOf(t)
		t.Report, t.Spec.Options = nil, nil
	}
	return t
}

func (s *service) WatchTask(r *datamovev1.WatchTaskRequest, out grpc.ServerStreamingServer[datamovev1.Task]) error {
	s.with(func() { s.watches++; s.watched++ })
	defer s.with(func() { s.watched-- })
	for {
		s.mu.Lock()
		t, err := s.find(r.Id)
		changed := s.changed
		s.mu.Unlock()
		if err == nil {
			err = out.Send(t)
		}
		if err != nil || api.Ended(t.State) {
			return err
		}
		select {
		case <-changed:
		case <-out.Context().Done():
			return out.Context().Err()
		}
	}
}

func (s *service) ExplainTask(_ context.Context, r *datamovev1.ExplainTaskRequest) (*datamovev1.Explanation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	why := proto.CloneOf(s.why)
	why.Id = r.Id
	return why, nil
}

// steer does a deed, unless nobody may.
func (s *service) steer(deed, id string, to datamovev1.TaskState) (*datamovev1.Task, error) {
	s.mu.Lock()
	denied := s.denied[deed]
	s.asked = append(s.asked, deed+" "+id)
	s.mu.Unlock()
	if denied {
		return nil, &mover.Error{Op: deed, Location: "task", Name: id, Err: mover.ErrPermission}
	}
	s.change(id, func(t *datamovev1.Task) { t.State, t.Phase = to, "" })
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(id)
}

func (s *service) PauseTask(_ context.Context, r *datamovev1.PauseTaskRequest) (*datamovev1.Task, error) {
	return s.steer("pause", r.Id, paused)
}

func (s *service) ResumeTask(_ context.Context, r *datamovev1.ResumeTaskRequest) (*datamovev1.Task, error) {
	return s.steer("resume", r.Id, queued)
}

func (s *service) CancelTask(_ context.Context, r *datamovev1.CancelTaskRequest) (*datamovev1.Task, error) {
	return s.steer("cancel", r.Id, cancelled)
}

// clones are messages that a test can change no more.
func clones[M proto.Message](all []M) []M {
	given := make([]M, len(all))
	for i, m := range all {
		given[i] = proto.CloneOf(m)
	}
	return given
}

func (s *service) ListAgents(context.Context, *datamovev1.ListAgentsRequest) (*datamovev1.ListAgentsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &datamovev1.ListAgentsResponse{Agents: clones(s.agents)}, nil
}

func (s *service) ListTiers(context.Context, *datamovev1.ListTiersRequest) (*datamovev1.ListTiersResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &datamovev1.ListTiersResponse{Tiers: clones(s.tiers)}, nil
}

func (s *service) ListDatasets(context.Context, *datamovev1.ListDatasetsRequest) (*datamovev1.ListDatasetsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &datamovev1.ListDatasetsResponse{Datasets: clones(s.datasets)}, nil
}

func (s *service) ListReplicas(context.Context, *datamovev1.ListReplicasRequest) (*datamovev1.ListReplicasResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &datamovev1.ListReplicasResponse{Replicas: clones(s.replicas)}, nil
}

func (s *service) ListLeases(context.Context, *datamovev1.ListLeasesRequest) (*datamovev1.ListLeasesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &datamovev1.ListLeasesResponse{Leases: clones(s.leases)}, nil
}

func (s *service) ListPins(context.Context, *datamovev1.ListPinsRequest) (*datamovev1.ListPinsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &datamovev1.ListPinsResponse{Pins: clones(s.pins)}, nil
}

func (s *service) GetInfo(_ context.Context, r *datamovev1.GetInfoRequest) (*datamovev1.Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rounds++
	info := &datamovev1.Info{Version: "v0.3.0", Node: "head1", Term: 7, StartTime: timestamppb.New(s.started), Agents: int32(len(s.agents)),
		Caller: s.caller, Roles: []string{"operator"}, Full: s.full}
	for _, t := range s.tasks {
		switch t.State {
		case queued:
			info.TasksQueued++
		case running:
			info.TasksRunning++
			info.BytesPerSecond += t.GetProgress().GetBytesPerSecond()
			if lifecycle.Of(t.GetSpec()).Standing {
				info.TasksStanding++
			}
		}
	}
	if r.GetHistorySince() != nil {
		info.History = s.rates
	}
	return info, nil
}
