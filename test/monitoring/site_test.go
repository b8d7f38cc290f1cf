package monitoring

import (
	"context"
	"io"
	"net"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove-csi/driver"
	datamove "datamove.dev/cmd/datamove/root"
	"datamove.dev/cmd/datamoved/daemon"
	"datamove.dev/mover"
	"datamove.dev/mover/telemetry"
	"datamove.dev/test/crash/rig"
	"datamove.dev/test/must"
)

func TestMain(m *testing.M) {
	rig.Be(rig.Commands{"datamove": datamove.Main, "datamoved": daemon.Main, "datamove-csi": driver.Main})
	goleak.VerifyTestMain(m, goleak.Cleanup(rig.End))
}

var tiers = []string{"hot", "warm", "cold"}

// site is a coordinator with agents of which everything has happened once.
func site(t *testing.T) *telemetry.Metrics {
	t.Helper()
	m := telemetry.New(telemetry.Options{
		Version: "v1.2.3",
		Root:    "../../mover/telemetry/testdata/node", // with Lustre and NFS
		Bounds:  telemetry.Bounds{Tiers: tiers, Projects: []string{"vision"}},
	})
	for class := range datamovev1.TaskClass_name {
		tasks(m, datamovev1.TaskClass(class))
	}
	movement(m)
	service(m)
	m.Sample(facts)
	requests(t, m)
	return m
}

func tasks(m *telemetry.Metrics, class datamovev1.TaskClass) {
	m.TaskSubmitted(class)
	m.TaskLed(class, time.Second)
	m.TaskFirstByte(class, time.Second)
	for state := range datamovev1.TaskState_name {
		m.TaskEnded(class, datamovev1.TaskState(state), time.Minute)
	}
	m.Moved(telemetry.Flow{Source: "cold", Target: "warm", Class: class}, 10, 1000)
	m.MovedFor(class, "vision", 1000)
}

func movement(m *telemetry.Metrics) {
	for _, d := range []telemetry.Direction{telemetry.Read, telemetry.Write} {
		m.Transferred("warm", d, 1000)
		m.LimitWaited("warm", d, time.Second)
	}
	for _, tier := range tiers {
		for _, op := range []telemetry.Op{telemetry.OpOpen, telemetry.OpGet, telemetry.OpPublish} {
			m.Operations(tier, op, 100)
		}
		m.Retried(tier, 1)
		m.Mismatched(tier, 1)
		m.Removed(tier, 1)
		m.PausedForRoom(tier)
		m.HSMEnded(telemetry.HSMArchive, 1<<30, nil)
		m.HSMEnded(telemetry.HSMRestore, 1<<20, mover.ErrCorrupt)
		m.Evicted(tier, 1000)
		m.EvictionBlocked(tier)
		m.PolicyRan(false, 3, 3000, 1)
		m.PolicyRan(true, 0, 0, 0)
	}
	m.LeadLost()
	m.Batches(telemetry.BatchStolen, 1)
	for _, kind := range mover.Kinds() {
		m.Failed(kind)
	}
}

func service(m *telemetry.Metrics) {
	m.LedgerCommitted(time.Millisecond, nil)
	m.LedgerCommitted(time.Millisecond, io.ErrShortWrite)
	m.Audited(nil)
	m.Audited(io.ErrShortWrite)
	m.Denied("datamove.v1.TaskService/GetTask", telemetry.DeniedOwner)
	m.Reloaded(nil)
}

func facts(s *telemetry.Sample) {
	for class := range datamovev1.TaskClass_name {
		s.OldestQueued(datamovev1.TaskClass(class), time.Minute)
		for state := range datamovev1.TaskState_name {
			s.Tasks(datamovev1.TaskClass(class), datamovev1.TaskState(state), 1)
		}
	}
	for state := range datamovev1.ReplicaState_name {
		s.Replicas("hot", datamovev1.ReplicaState(state), 1)
	}
	s.WaitingForRoom("warm", 1)
	s.Batches(1, 1)
	s.Room("hot", "node-1", 1000, 100)
	for _, tier := range tiers {
		s.Room(tier, "", 1000, 100)
		s.Reached(tier, 1)
		s.Held(tier, 1000, 500, 1)
	}
	s.HSM(7, 4)
	s.Catalog("warm", "", time.Unix(86400, 0), 1000)
	s.Feed("hot", "node-1", true)
	s.CheckpointsWait("hot", "warm", 90*time.Second, 5*time.Minute)
	s.Pins(1)
	s.Agents([]telemetry.Agent{{Name: "node-1", State: datamovev1.AgentState_AGENT_STATE_READY, Leads: 1, Batches: 1, FreeLeads: 1, FreeBatches: 1}})
	s.Workers(1, 1000)
	s.Ledger(1000, 1000, 10, false)
	s.AuditHead(1)
	for _, use := range []telemetry.CertificateUse{telemetry.CertServer, telemetry.CertAgent, telemetry.CertAuthority} {
		s.Certificate(use, time.Unix(0, 0), time.Unix(86400, 0))
	}
	s.ClientCaches(map[string]string{"warm": "/lustre", "cold": "/mnt/nfs"})
}

// answers is a server that answers with the code that it is asked for, and watches
// until nobody does.
type answers struct {
	datamovev1.UnimplementedTaskServiceServer
}

func (answers) GetTask(_ context.Context, r *datamovev1.GetTaskRequest) (*datamovev1.Task, error) {
	code, err := strconv.Atoi(r.Id)
	if err != nil {
		return nil, err
	}
	return &datamovev1.Task{}, status.Error(codes.Code(code), "as asked for")
}

func (answers) WatchTask(_ *datamovev1.WatchTaskRequest, s grpc.ServerStreamingServer[datamovev1.Task]) error {
	if err := s.Send(&datamovev1.Task{}); err != nil {
		return err
	}
	<-s.Context().Done()
	return nil
}

// requests has a server answer with each code once, and leaves a stream open.
func requests(t *testing.T, m *telemetry.Metrics) {
	t.Helper()
	watched, stop := connect(t, m)
	t.Cleanup(stop)
	stream := must.Get(watched.WatchTask(t.Context(), &datamovev1.WatchTaskRequest{}))(t)
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	client, stop := connect(t, m)
	defer stop() // after it all are counted
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		if _, err := client.GetTask(t.Context(), &datamovev1.GetTaskRequest{Id: strconv.Itoa(int(code))}); status.Code(err) != code {
			t.Errorf("asked for %v: %v", code, err)
		}
	}
}

func connect(t *testing.T, m *telemetry.Metrics) (client datamovev1.TaskServiceClient, stop func()) {
	t.Helper()
	l := bufconn.Listen(1 << 16)
	s := grpc.NewServer(m.ServerOption())
	datamovev1.RegisterTaskServiceServer(s, answers{})
	var served sync.WaitGroup
	served.Go(func() {
		must.Tell(t, s.Serve(l))
	})
	conn, err := grpc.NewClient("passthrough:///memory", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	must.Do(t, err)
	return datamovev1.NewTaskServiceClient(conn), func() {
		conn.Close()
		s.GracefulStop()
		served.Wait()
	}
}

// scraped is the text of a scrape of the site.
func scraped(t *testing.T) string {
	t.Helper()
	answer := httptest.NewRecorder()
	site(t).Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	if answer.Code != 200 {
		t.Fatalf("scrape: %d", answer.Code)
	}
	return answer.Body.String()
}
