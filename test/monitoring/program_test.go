package monitoring

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/types/known/durationpb"

	dto "github.com/prometheus/client_model/go"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/telemetry"
	"datamove.dev/test/crash/rig"
	"datamove.dev/test/must"
	"datamove.dev/test/patience"
)

// running is the program with four tiers, as a site runs it that has configured
// nothing else but a policy, a limit, a receiver of traces, and an address for metrics.
type running struct {
	t    *testing.T
	dir  string
	page string // host:port
	*api.Client
	store *rig.Store

	service *rig.Program
	address string // of the coordinator, over TCP
	traces  *receiver
}

// TestService: one service for all that is looked at. What counts everything is first.
func TestService(t *testing.T) {
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50") // ms: how long spans may wait to be sent
	p := start(t)
	for _, row := range []struct {
		what string
		test func(*testing.T, *running)
	}{
		{"the program tells", theProgramTells},
		{"a full tier is told", fullTierIsTold},
		{"a command in a trace", commandInATrace},
		{"one trace", oneTrace},
	} {
		t.Run(row.what, func(t *testing.T) {
			in := *p
			in.t = t
			row.test(t, &in)
		})
	}
}

// start starts the coordinator, which is an agent, too.
func start(t *testing.T) *running {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "seen") // its name leaves room for that of a socket
	must.Do(t, err)
	t.Cleanup(func() { must.Do(t, os.RemoveAll(dir)) })
	p := &running{t: t, dir: dir, store: rig.NewStore(t, rig.New(t)), traces: newReceiver(t)}
	p.service = rig.NewCommand(t, "datamoved")
	for _, d := range []string{"warm", "hot", "small", "policies"} {
		must.Do(t, os.Mkdir(p.path(d), 0o755))
	}
	if os.Geteuid() == 0 {
		must.Do(t, unix.Mount("tmpfs", p.path("small"), "tmpfs", 0, "size=2m"))
		t.Cleanup(func() { must.Do(t, unix.Unmount(p.path("small"), unix.MNT_DETACH)) })
	}
	must.Do(t, os.WriteFile(p.path("policies/p.yaml"), []byte(policy), 0o644))
	must.Do(t, os.WriteFile(p.path("keys"), []byte(p.store.Keys()), 0o600))
	must.Do(t, os.WriteFile(p.path("config.yaml"), fmt.Appendf(nil, `
tiers:
  hot: {level: hot, path: %s, ephemeral: true}
  small: {level: hot, path: %s, ephemeral: true}
  warm: {level: warm, path: %s}
  cold: {level: cold, s3: {endpoint: %q, bucket: %s, credentials: "file:%s", region: us-east-1}}
metrics: 127.0.0.1:0
policies: %s
limits: [{endpoint: cold, direction: read, rate: 10MB/s}]
trace: {endpoint: "http://%s"}
`, p.path("hot"), p.path("small"), p.path("warm"), p.store.URL, p.store.Bucket(), p.path("keys"), p.path("policies"), p.traces.address), 0o600))
	socket := "unix://" + p.path("s")
	run := p.run("n1", "--listen", socket, "--listen", "tcp://127.0.0.1:0")
	ready := regexp.MustCompile(`msg=ready.*(127\.0\.0\.1:\d+)" page=(\S+)`)
	run.Until("the service is ready", func() bool { return ready.MatchString(run.Complained()) })
	said := ready.FindStringSubmatch(run.Complained())
	p.address, p.page = said[1], said[2]
	p.Client, err = api.Dial(t.Context(), socket, api.Options{More: telemetry.DialOptions()})
	must.Do(t, err)
	t.Cleanup(func() { _ = p.Client.Close() })
	return p
}

// run starts a datamoved.
func (p *running) run(node string, args ...string) *rig.Run {
	p.t.Helper()
	run := p.service.Start(p.t, append([]string{"--config", p.path("config.yaml"), "--data", p.path("data-" + node), "--node", node}, args...)...)
	p.t.Cleanup(func() {
		if p.t.Failed() {
			p.t.Logf("%s said:\n%s", node, run.Complained())
		}
	})
	return run
}

// join starts another agent.
func (p *running) join(node string) {
	p.t.Helper()
	answer := must.Get(p.CreateJoinToken(p.t.Context(), &datamovev1.CreateJoinTokenRequest{Name: node, Ttl: durationpb.New(time.Minute)}))(p.t)
	p.run(node, "--listen", "unix://"+p.path(node), "--join", "tcp://"+p.address, "--token", answer.GetToken())
	p.eventually(node+" is ready", func() bool {
		l := must.Get(p.ListAgents(p.t.Context(), &datamovev1.ListAgentsRequest{}))(p.t)
		return slices.ContainsFunc(l.GetAgents(), func(a *datamovev1.Agent) bool {
			return a.GetName() == node && a.GetState() == datamovev1.AgentState_AGENT_STATE_READY
		})
	})
}

func (p *running) path(name string) string { return filepath.Join(p.dir, name) }

// copy brings over a tree and waits for it.
func (p *running) copy(from, to string) *datamovev1.Task {
	p.t.Helper()
	t, err := p.SubmitTask(p.t.Context(), &datamovev1.SubmitTaskRequest{Spec: &datamovev1.TaskSpec{
		Kind: datamovev1.TaskKind_TASK_KIND_COPY, Source: from, Target: to, Options: &datamovev1.Options{NoReflink: true}, // no byte of a clone passes us
	}})
	must.Do(p.t, err)
	t, err = p.Wait(p.t.Context(), t.GetId(), nil)
	must.Do(p.t, err)
	return t
}

// metrics is a scrape.
func (p *running) metrics() map[string]*dto.MetricFamily {
	p.t.Helper()
	return familiesOf(p.t, p.get("/metrics").Body)
}

func familiesOf(t *testing.T, scrape io.ReadCloser) map[string]*dto.MetricFamily {
	t.Helper()
	defer scrape.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families := must.Get(parser.TextToMetricFamilies(scrape))(t)
	return families
}

func (p *running) get(path string) *http.Response {
	p.t.Helper()
	r := must.Get(http.NewRequestWithContext(p.t.Context(), http.MethodGet, "http://"+p.page+path, nil))(p.t)
	r.Close = true
	answer := must.Get(http.DefaultClient.Do(r))(p.t)
	return answer
}

// sum adds what a metric has with these labels; of a histogram, how often it measured.
func sum(families map[string]*dto.MetricFamily, name string, labels ...string) (total float64) {
next:
	for _, m := range families[name].GetMetric() {
		has := map[string]string{}
		for _, l := range m.GetLabel() {
			has[l.GetName()] = l.GetValue()
		}
		for i := 0; i < len(labels); i += 2 {
			if has[labels[i]] != labels[i+1] {
				continue next
			}
		}
		total += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	return total
}

// policy has an objective for checkpoints.
const policy = `kind: TierPolicy
metadata: {name: away}
spec:
  mode: enforce
  scope: {roots: ["warm:"]}
  trigger: [{event: checkpoint.complete}]
  rules:
    - {name: copy, match: {checkpoint: complete}, action: {type: replicate, to: [cold], rpo: 5m}}
`

// theProgramTells has the program copy through three tiers, and compares what it tells of that
// with what was copied. Whatever a dashboard or an alert asks for is there.
func theProgramTells(t *testing.T, p *running) {
	const files, size = 30, 1 << 20
	must.Do(t, os.Mkdir(p.path("warm/in"), 0o755))
	for n := range files {
		must.Do(t, os.WriteFile(p.path(fmt.Sprintf("warm/in/f%02d", n)), []byte(strings.Repeat(fmt.Sprintf("%08d", n), size/8)), 0o644))
	}
	for _, leg := range [][2]string{{"warm:in", "hot:a"}, {p.path("warm/in"), "cold:a"}, {"cold:a", "hot:b"}} {
		if done := p.copy(leg[0], leg[1]); done.GetState() != datamovev1.TaskState_TASK_STATE_DONE {
			t.Fatalf("%v: %v", leg, done)
		}
	}
	bad := p.copy("warm:missing", "hot:c")
	if bad.GetState() != datamovev1.TaskState_TASK_STATE_FAILED || bad.GetErrorKind() != "NOT_EXIST" {
		t.Errorf("a copy of nothing is %v, of the kind %q", bad.GetState(), bad.GetErrorKind())
	}
	denied := p.get("/v1/tasks") // nobody is known there
	denied.Body.Close()
	var got map[string]*dto.MetricFamily
	p.eventually("the tasks are counted, and the agent has nothing to do", func() bool {
		got = p.metrics()
		return sum(got, "datamove_tasks", "state", "done") == 3 && sum(got, "datamove_agent_slots_used") == 0 && sum(got, "datamove_worker_processes") == 0
	})
	const bytes = files * size
	for _, row := range []struct {
		want   float64
		name   string
		labels []string
	}{
		{2 * bytes, "datamove_tier_bytes_total", []string{"tier", "warm", "direction", "read"}},
		{2 * bytes, "datamove_tier_bytes_total", []string{"tier", "hot", "direction", "write"}},
		{0, "datamove_tier_bytes_total", []string{"tier", "other"}},
		{bytes, "datamove_moved_bytes_total", []string{"source", "warm", "target", "hot", "class", "replicate"}},
		{bytes, "datamove_moved_bytes_total", []string{"source", "warm", "target", "cold", "class", "replicate"}},
		{bytes, "datamove_moved_bytes_total", []string{"source", "cold", "target", "hot", "class", "replicate"}},
		{3 * files, "datamove_moved_files_total", nil},
		{3 * bytes, "datamove_project_moved_bytes_total", nil},
		{4, "datamove_tasks_submitted_total", nil},
		{3, "datamove_tasks_ended_total", []string{"state", "done"}},
		{1, "datamove_tasks_ended_total", []string{"state", "failed"}},
		{1, "datamove_tasks", []string{"state", "failed", "class", "replicate"}},
		{0, "datamove_tasks", []string{"state", "running"}},
		{4, "datamove_task_queue_wait_seconds", nil},
		{0, "datamove_task_oldest_queued_seconds", nil},
		{0, "datamove_batches", nil},
		{1, "datamove_agents", []string{"state", "ready"}},
		{1, "datamove_agent_up", []string{"agent", "n1"}},
		{1, "datamove_tier_agents", []string{"tier", "cold"}},
		{300, "datamove_tier_checkpoint_objective_seconds", []string{"source", "warm", "target", "cold"}},
		{0, "datamove_errors_total", nil},
		{0, "datamove_ledger_errors_total", nil},
		{0, "datamove_metrics_dropped_series", nil},
		{1, "datamove_config_reload_success", nil},
	} {
		if v := sum(got, row.name, row.labels...); v != row.want {
			t.Errorf("%s%q is %v, want %v", row.name, row.labels, v, row.want)
		}
	}
	// A store is also told its manifest, which is no file.
	for _, direction := range []string{"read", "write"} {
		if v := sum(got, "datamove_tier_bytes_total", "tier", "cold", "direction", direction); v < bytes || v > bytes+64<<10 {
			t.Errorf("%s on cold: %v bytes, want about %d", direction, v, bytes)
		}
	}
	for _, row := range []struct{ tier, op string }{{"warm", "list"}, {"warm", "open"}, {"hot", "create"}, {"hot", "publish"}, {"cold", "get"}, {"cold", "publish"}} {
		if v := sum(got, "datamove_tier_operations_total", "tier", row.tier, "op", row.op); v < files || v > 10*files {
			t.Errorf("%s on %s: %v", row.op, row.tier, v)
		}
	}
	for _, name := range []string{"datamove_limit_wait_seconds_total", "datamove_ledger_size_bytes", "datamove_ledger_free_bytes", "datamove_ledger_records",
		"datamove_ledger_commit_seconds", "datamove_audit_records_total", "datamove_grpc_request_seconds", "datamove_tier_total_bytes", "datamove_denied_requests_total",
		"datamove_task_first_byte_seconds", "datamove_certificate_expiry_timestamp_seconds"} {
		if sum(got, name) <= 0 {
			t.Errorf("%s tells nothing", name)
		}
	}
	maps.Copy(got, p.driver())
	maps.Copy(got, familiesOf(t, io.NopCloser(strings.NewReader(checkpointsScraped(t)))))
	everythingIsThere(t, got)
}

// driver is a scrape of the CSI driver, with a file system that has no quotas.
func (p *running) driver() (got map[string]*dto.MetricFamily) {
	p.t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(p.t)
	at := l.Addr().String()
	must.Do(p.t, l.Close())
	must.Do(p.t, os.WriteFile(p.path("csi.yaml"), fmt.Appendf(nil, "fileSystems:\n  warm: {use: project, kind: plain, root: %s, volumes: k8s}\n", p.path("warm")), 0o600))
	rig.NewCommand(p.t, "datamove-csi").Start(p.t, "--endpoint", "unix://"+p.path("csi"), "--mode", "node", "--node-id", "n1", "--config", p.path("csi.yaml"), "--http", at)
	p.eventually("the driver has looked at its file system", func() bool {
		answer, err := http.Get("http://" + at + "/metrics")
		if err != nil {
			return false
		}
		got = familiesOf(p.t, answer.Body)
		return got["datamove_csi_file_system_up"] != nil
	})
	return got
}

// absent are metrics that this machine can not tell.
var absent = words{
	"datamove_client_cache_hits_total": true, "datamove_client_cache_misses_total": true, // of Lustre
	"datamove_client_read_bytes_total": true, "datamove_client_fetched_bytes_total": true, // of Lustre and NFS
	"datamove_hsm_actions_total": true, "datamove_hsm_waiting_actions": true, "datamove_hsm_working_actions": true, // of Lustre
	"datamove_catalog_timestamp_seconds": true, "datamove_catalog_files": true, "datamove_catalog_feed_up": true, // of tiers that are scanned by themselves
	"datamove_csi_ill_volumes": true, // only of what is wrong with one
}

// everythingIsThere looks for every metric of ours that somebody looks at, in what both programs tell.
func everythingIsThere(t *testing.T, got map[string]*dto.MetricFamily) {
	t.Helper()
	var exprs []string
	for _, a := range alerts(t) {
		exprs = append(exprs, a.Expr)
	}
	for _, d := range dashboards(t) {
		exprs = append(exprs, d.exprs()...)
	}
	for _, expr := range exprs {
		u := must.Get(read(expr))(t)
		for _, s := range u.selectors {
			name := s.metric
			for _, part := range []string{"_bucket", "_sum", "_count"} {
				name = strings.TrimSuffix(name, part)
			}
			if got[name] == nil && !absent[name] && strings.HasPrefix(name, "datamove_") {
				t.Errorf("the program does not tell %s, which somebody asks for: %s", name, expr)
			}
		}
	}
}

func (p *running) eventually(what string, is func() bool) {
	p.t.Helper()
	patience.Until(p.t, what, nil, is)
}

// fullTierIsTold: a task that waits for room is seen, with the tier that has none.
func fullTierIsTold(t *testing.T, p *running) {
	rig.Root(t) // start mounts the tier
	must.Do(t, os.Mkdir(p.path("warm/much"), 0o755))
	must.Do(t, os.WriteFile(p.path("warm/much/f"), make([]byte, 4<<20), 0o644))
	must.Do(t, os.WriteFile(p.path("warm/much/g"), []byte(strings.Repeat("01234567", 1<<19)), 0o644))
	task, err := p.SubmitTask(t.Context(), &datamovev1.SubmitTaskRequest{Spec: &datamovev1.TaskSpec{
		Kind: datamovev1.TaskKind_TASK_KIND_COPY, Source: "warm:much", Target: "small:out",
	}})
	must.Do(t, err)
	p.eventually("the task is seen to wait", func() bool {
		got := p.metrics()
		return sum(got, "datamove_tasks_waiting_for_room", "tier", "small") == 1 && sum(got, "datamove_room_pauses_total", "tier", "small") > 0 &&
			sum(got, "datamove_tasks_waiting_for_room", "tier", "warm") == 0
	})
	_, err = p.CancelTask(t.Context(), &datamovev1.CancelTaskRequest{Id: task.GetId()})
	must.Do(t, err)
	_, err = p.Wait(t.Context(), task.GetId(), nil)
	must.Do(t, err)
	if got := p.metrics(); sum(got, "datamove_tasks_waiting_for_room") != 0 || sum(got, "datamove_tasks_ended_total", "state", "cancelled") != 1 {
		t.Errorf("%v wait, %v are cancelled", sum(got, "datamove_tasks_waiting_for_room"), sum(got, "datamove_tasks_ended_total", "state", "cancelled"))
	}
}
