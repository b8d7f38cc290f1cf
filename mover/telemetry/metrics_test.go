package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/test/must"
)

const (
	stage   = datamovev1.TaskClass_TASK_CLASS_STAGE
	restore = datamovev1.TaskClass_TASK_CLASS_RESTORE
	done    = datamovev1.TaskState_TASK_STATE_DONE
	failed  = datamovev1.TaskState_TASK_STATE_FAILED
	queued  = datamovev1.TaskState_TASK_STATE_QUEUED
)

var site = Bounds{Tiers: []string{"hot", "warm", "cold"}, Endpoints: []string{"s3://archive"}, Projects: []string{"vision"}}

// everything tells each event once.
func everything(m *Metrics) {
	m.TaskSubmitted(stage)
	m.TaskLed(stage, time.Second)
	m.TaskFirstByte(stage, 50*time.Millisecond)
	m.TaskEnded(stage, done, time.Minute)
	m.LeadLost()
	m.Batches(BatchStolen, 2)
	m.Moved(Flow{"cold", "warm", stage}, 3, 300)
	m.FromPeers(stage, 70)
	m.Transferred("warm", Write, 300)
	m.Operations("warm", OpPublish, 7)
	m.Retried("cold", 1)
	m.Failed(&mover.Error{Op: "read", Err: mover.ErrCorrupt})
	m.FailedKind("NOT_EXIST", 2)
	m.Mismatched("warm", 1)
	m.Removed("warm", 5)
	m.PausedForRoom("warm")
	m.LimitWaited("s3://archive", Read, 1500*time.Millisecond)
	m.MovedFor(stage, "vision", 4096)
	m.HSMEnded(HSMArchive, 1<<20, nil)
	m.HSMEnded(HSMRestore, 7, io.ErrShortWrite)
	m.Evicted("hot", 1<<20)
	m.EvictionBlocked("hot")
	m.PolicyRan(false, 3, 3000, 1)
	m.PolicyRan(true, 0, 0, 0)
	m.LedgerCommitted(time.Millisecond, nil)
	m.LedgerCommitted(0, io.ErrShortWrite)
	m.Audited(nil)
	m.Audited(io.ErrShortWrite)
	m.Denied("/datamove.v1.TaskService/GetTask", DeniedOwner)
	m.Reloaded(nil)
}

// facts tells each fact once.
func facts(s *Sample) {
	s.Tasks(stage, queued, 4)
	s.OldestQueued(stage, time.Minute)
	s.OldestQueued(stage, time.Second)
	s.WaitingForRoom("warm", 1)
	s.Batches(10, 20)
	s.Room("warm", "", 1000, 100)
	s.Room("hot", "node-1", 2000, 200)
	s.Reached("warm", 2)
	s.Replicas("hot", datamovev1.ReplicaState_REPLICA_STATE_WHOLE, 6)
	s.Held("hot", 600, 500, 3)
	s.Pins(1)
	s.HSM(5, 2)
	s.Catalog("hot", "node-1", time.Unix(1000, 0), 12)
	s.Feed("hot", "node-1", true)
	s.CheckpointsWait("hot", "warm", 90*time.Second, 5*time.Minute)
	s.Agents([]Agent{
		{Name: "node-1", State: datamovev1.AgentState_AGENT_STATE_READY, Leads: 1, Batches: 2, FreeLeads: 3, FreeBatches: 4},
		{Name: "node-2", State: datamovev1.AgentState_AGENT_STATE_LOST},
	})
	s.Workers(2, 1<<20)
	s.Ledger(1<<20, 1<<30, 77, true)
	s.AuditHead(42)
	s.Certificate(CertAgent, time.Unix(1000, 0), time.Unix(5000, 0))
	s.Certificate(CertAgent, time.Unix(1000, 0), time.Unix(4000, 0))
	s.ClientCaches(map[string]string{"warm": "/lustre/project", "cold": "/mnt/nfs/archive", "hot": "/local"})
}

// serve calls a server that counts: a request, a failed one, and a stream.
func serve(t *testing.T, m *Metrics) {
	t.Helper()
	client := connect(t, []grpc.ServerOption{m.ServerOption()}, nil)
	if _, err := client.GetTask(t.Context(), &datamovev1.GetTaskRequest{Id: "there"}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.GetTask(t.Context(), &datamovev1.GetTaskRequest{Id: "not there"}); status.Code(err) != codes.NotFound {
		t.Fatal(err)
	}
	stream := must.Get(client.WatchTask(t.Context(), &datamovev1.WatchTaskRequest{}))(t)
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}

// tasks is a server that knows one task.
type tasks struct {
	datamovev1.UnimplementedTaskServiceServer
	seen func(context.Context)
}

func (s tasks) GetTask(ctx context.Context, r *datamovev1.GetTaskRequest) (*datamovev1.Task, error) {
	if s.seen != nil {
		s.seen(ctx)
	}
	if r.Id != "there" {
		return nil, status.Error(codes.NotFound, "no such task")
	}
	return &datamovev1.Task{Id: r.Id}, nil
}

func (s tasks) WatchTask(_ *datamovev1.WatchTaskRequest, stream grpc.ServerStreamingServer[datamovev1.Task]) error {
	if s.seen != nil {
		s.seen(stream.Context())
	}
	return nil
}

// connect starts a server and calls it.
func connect(t *testing.T, server []grpc.ServerOption, seen func(context.Context), dial ...grpc.DialOption) datamovev1.TaskServiceClient {
	t.Helper()
	l := bufconn.Listen(1 << 16)
	s := grpc.NewServer(server...)
	datamovev1.RegisterTaskServiceServer(s, tasks{seen: seen})
	var served sync.WaitGroup
	served.Go(func() {
		must.Tell(t, s.Serve(l))
	})
	dial = append(dial, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	conn := must.Get(grpc.NewClient("passthrough:///memory", dial...))(t)
	t.Cleanup(func() {
		conn.Close()
		s.GracefulStop() // the last requests are counted
		served.Wait()
	})
	return datamovev1.NewTaskServiceClient(conn)
}

func TestEveryRowIsFed(t *testing.T) {
	m := New(Options{Version: "v1.2.3", Bounds: site, Root: "testdata/node"})
	everything(m)
	defer m.Sample(facts)()
	t.Run("requests", func(t *testing.T) { serve(t, m) }) // its end waits for the server
	got := scrape(t, m)
	for _, r := range Table() {
		family := got[r.Name]
		if family == nil {
			t.Errorf("%s was told, and is not there", r.Name)
			continue
		}
		if family.GetHelp() != r.Meaning || strings.ToLower(family.GetType().String()) != r.Type {
			t.Errorf("%s is a %v: %q", r.Name, family.GetType(), family.GetHelp())
		}
		if none, ok := value(t, got, r.Name); r.Type != "gauge" && (!ok || len(family.Metric) == 1 && none == 0) {
			t.Errorf("%s counted nothing", r.Name)
		}
	}
	for name := range got {
		if strings.HasPrefix(name, "datamove_") && !slices.ContainsFunc(Table(), func(r Row) bool { return r.Name == name }) {
			t.Errorf("%s is not in the table", name)
		}
	}
	if got["go_goroutines"] == nil || got["process_start_time_seconds"] == nil {
		t.Error("nothing about the process")
	}
	if problems, err := testutil.GatherAndLint(m.registry); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}

func TestWhatIsToldIsShown(t *testing.T) {
	m := New(Options{Version: "v1.2.3", Bounds: site, Root: "testdata/node"})
	everything(m)
	defer m.Sample(facts)()
	t.Run("requests", func(t *testing.T) { serve(t, m) })
	got := scrape(t, m)
	want(t, got, 1, "datamove_tasks_ended_total", "class", "stage", "state", "done")
	want(t, got, 1, "datamove_task_first_byte_seconds", "class", "stage")
	want(t, got, 2, "datamove_batch_events_total", "event", "stolen")
	want(t, got, 300, "datamove_moved_bytes_total", "source", "cold", "target", "warm", "class", "stage")
	want(t, got, 70, "datamove_peer_read_bytes_total", "class", "stage")
	want(t, got, 1, "datamove_errors_total", "kind", "corrupt")
	want(t, got, 2, "datamove_errors_total", "kind", "not_exist")
	want(t, got, 1.5, "datamove_limit_wait_seconds_total", "endpoint", "s3://archive", "direction", "read")
	want(t, got, 1, "datamove_ledger_commit_seconds")
	want(t, got, 1, "datamove_ledger_errors_total")
	want(t, got, 1, "datamove_denied_requests_total", "method", "datamove.v1.TaskService/GetTask", "reason", "owner")
	want(t, got, 1, "datamove_config_reload_success")
	want(t, got, 60, "datamove_task_oldest_queued_seconds", "class", "stage")
	want(t, got, 200, "datamove_tier_free_bytes", "tier", "hot", "agent", "node-1")
	want(t, got, 500, "datamove_leased_bytes", "tier", "hot")
	want(t, got, 1, "datamove_agents", "state", "lost")
	want(t, got, 0, "datamove_agents", "state", "draining")
	want(t, got, 0, "datamove_agent_up", "agent", "node-2")
	want(t, got, 4, "datamove_agent_slots_free", "agent", "node-1", "work", "batch")
	want(t, got, 4000, "datamove_certificate_expiry_timestamp_seconds", "use", "agent")
	want(t, got, 1, "datamove_build_info", "version", "v1.2.3")
	want(t, got, 1, "datamove_grpc_requests_total", "method", "datamove.v1.TaskService/GetTask", "code", "OK")
	want(t, got, 1, "datamove_grpc_requests_total", "method", "datamove.v1.TaskService/GetTask", "code", "NotFound")
	want(t, got, 1, "datamove_grpc_requests_total", "method", "datamove.v1.TaskService/WatchTask", "code", "OK")
	want(t, got, 2, "datamove_grpc_request_seconds", "method", "datamove.v1.TaskService/GetTask")
	want(t, got, 0, "datamove_grpc_requests_in_flight", "method", "datamove.v1.TaskService/WatchTask")
	if _, ok := value(t, got, "datamove_grpc_request_seconds", "method", "datamove.v1.TaskService/WatchTask"); ok {
		t.Error("the time of a stream is measured")
	}
}

// A counter that is not there before its first event hides it from increase().
func TestCountersAreThereBeforeTheirFirstEvent(t *testing.T) {
	m := New(Options{})
	m.Bound(site)
	got := scrape(t, m)
	want(t, got, 0, "datamove_verification_mismatches_total", "tier", "warm")
	want(t, got, 0, "datamove_verification_mismatches_total", "tier", "other")
	want(t, got, 0, "datamove_errors_total", "kind", "corrupt")
	want(t, got, 0, "datamove_audit_failures_total")
	want(t, got, 0, "datamove_leads_lost_total")
}

// Facts that nobody tells any more are not shown any more.
func TestFactsAreOfNow(t *testing.T) {
	m := New(Options{Bounds: site})
	tier := "hot"
	forget := m.Sample(func(s *Sample) { s.Reached(tier, 1) })
	want(t, scrape(t, m), 1, "datamove_tier_agents", "tier", "hot")
	tier = "warm"
	got := scrape(t, m)
	want(t, got, 1, "datamove_tier_agents", "tier", "warm")
	if _, ok := value(t, got, "datamove_tier_agents", "tier", "hot"); ok {
		t.Error("hot is still there")
	}
	forget()
	if scrape(t, m)["datamove_tier_agents"] != nil {
		t.Error("a forgotten hook was asked")
	}
}

// What comes from outside is never a label by itself.
func TestNoLabelIsFree(t *testing.T) {
	m := New(Options{Bounds: site})
	for _, hostile := range []string{"", "/home/bob/secret", "hot\n", "\xff\xfe", strings.Repeat("x", 1000), "Task-17", "HOT"} {
		for _, r := range Table() {
			for i, label := range r.Labels {
				if label == "agent" || label == "version" || label == "go" {
					continue // below
				}
				values := make([]string, len(r.Labels))
				values[i] = hostile
				if got := m.labels(&r, values)[i]; got != other {
					t.Errorf("%s{%s=%q} is shown as %q", r.Name, label, hostile, got)
				}
			}
		}
	}
	for _, hostile := range []string{"\xff", strings.Repeat("x", maxWord+1)} {
		for _, label := range []string{"agent", "version"} {
			if got := m.words.bound(label, hostile); got != other {
				t.Errorf("%s is shown as %q", label, got)
			}
		}
	}
	for _, name := range []string{"datamove.v1.TaskService", "datamove.v1.TaskService/", "datamove.v1.TaskService/Nothing",
		"datamove.v1.Task/id", "/", "no.such.Service/Get", "/datamove.v1.TaskService/GetTask"} {
		if method(name) {
			t.Errorf("%q is a method", name)
		}
	}
}

// Every kind of error has its word.
func TestEveryKindHasAWord(t *testing.T) {
	m := New(Options{})
	for _, kind := range mover.Kinds() {
		m.Failed(fmt.Errorf("wrapped: %w", kind))
	}
	m.Failed(errors.New("of no kind"))
	m.Failed(nil)
	got := scrape(t, m)
	for _, kind := range append(kindNames(), other) {
		want(t, got, 1, "datamove_errors_total", "kind", kind)
	}
}

func TestNamesAreBounded(t *testing.T) {
	m := New(Options{})
	for i := range 3 * maxTiers { // as many reloads with another name
		m.Bound(Bounds{Tiers: []string{fmt.Sprint("tier-", i), "\xff"}})
		m.Retried(fmt.Sprint("tier-", i), 1)
	}
	agents := make([]Agent, 2*maxAgents)
	for i := range agents {
		agents[i] = Agent{Name: fmt.Sprint("node-", i), State: datamovev1.AgentState_AGENT_STATE_READY}
	}
	defer m.Sample(func(s *Sample) { s.Agents(agents) })()
	got := scrape(t, m)
	if n := len(got["datamove_retries_total"].Metric); n != maxTiers+1 {
		t.Errorf("%d tiers", n)
	}
	want(t, got, 2*maxTiers, "datamove_retries_total", "tier", "other")
	if n := len(got["datamove_agent_up"].Metric); n != maxAgents+1 {
		t.Errorf("%d agents", n)
	}
	want(t, got, maxAgents, "datamove_agent_up", "agent", "other")
	want(t, got, 2*maxAgents, "datamove_agents", "state", "ready")
}

func TestAScrapeIsBounded(t *testing.T) {
	m := New(Options{Bounds: Bounds{Tiers: []string{"a", "b", "c", "d", "e", "f", "g", "h"}}})
	defer m.Sample(func(s *Sample) {
		for i := range maxAgents {
			for _, tier := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
				s.Room(tier, fmt.Sprint("node-", i), 10, 1)
			}
		}
	})()
	s := m.sample() // not by a scrape, which has a deadline
	if len(s.values) > maxSeries+1 || s.dropped < 2*8*maxAgents-maxSeries || s.values[key(rowDropped.Row, nil)] != float64(s.dropped) {
		t.Errorf("%d series, %v dropped", len(s.values), s.dropped)
	}
}

// What a worker process says can not stop its agent.
func TestWhatTakesAwayIsNothing(t *testing.T) {
	m := New(Options{Bounds: site})
	m.Moved(Flow{"warm", "hot", restore}, -1, math.MinInt64)
	m.FailedKind("\xff\n", 1)
	m.Batches("invented", -3)
	m.LimitWaited("warm", "sideways", -time.Hour)
	m.TaskEnded(datamovev1.TaskClass(99), failed, -time.Hour)
	got := scrape(t, m)
	if got["datamove_moved_bytes_total"] != nil {
		t.Error("bytes were taken away")
	}
	want(t, got, 1, "datamove_errors_total", "kind", "other")
	want(t, got, 1, "datamove_tasks_ended_total", "class", "other", "state", "failed")
}

func TestNilCountsNothing(t *testing.T) {
	var m *Metrics
	everything(m)
	m.Bound(site)
	m.Sample(facts)()
	serve(t, m)
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	if answer.Code != 404 {
		t.Errorf("scrape: %d", answer.Code)
	}
}

// A hook that waits makes a scrape fail, and the next ones too while it waits.
func TestAHookThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, goOn := New(Options{}), make(chan struct{})
		handler := m.Handler()
		forget := m.Sample(func(*Sample) { <-goOn })
		for range 6 {
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
			if answer.Code != 503 {
				t.Errorf("%d", answer.Code)
			}
		}
		close(goOn)
		synctest.Wait()
		forget()
		want(t, scrape(t, m), 0, "datamove_leads_lost_total")
	})
}

// A hook that panics is told in the log; the counters are there.
func TestAHookThatPanics(t *testing.T) {
	var log strings.Builder
	m := New(Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	defer m.Sample(func(*Sample) { panic("out of slots") })()
	want(t, scrape(t, m), 0, "datamove_leads_lost_total")
	if !strings.Contains(log.String(), "out of slots") {
		t.Errorf("log: %s", log.String())
	}
	want(t, scrape(t, m), 0, "datamove_leads_lost_total") // the lock was given back
}

func TestManyAtOnce(t *testing.T) {
	m := New(Options{Bounds: site, Root: "testdata/node"})
	defer m.Sample(facts)()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 20 {
				everything(m)
				m.Bound(Bounds{Tiers: []string{"new"}})
			}
		})
		all.Go(func() { scrape(t, m) })
	}
	all.Wait()
	want(t, scrape(t, m), 4*20*300, "datamove_tier_bytes_total", "tier", "warm")
}
