package root

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode"

	yaml "go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/test/kill"
	"datamove.dev/test/must"
)

// digest is one of a version.
var digestOf = strings.Repeat("9c1d40e07ab2", 5) + "abcd"

// furnished is a service that has one of everything.
func furnished(t *testing.T) (*fake, *session) {
	s := newFake(t)
	spec := &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "/lustre/run-7", Target: "archive:run-7", Project: "vision",
		Class: pb.TaskClass_TASK_CLASS_REPLICATE, Labels: map[string]string{"slurm_job": "4711"}}
	s.begin(spec, "")
	made := timestamppb.New(time.Now().Add(-184 * time.Second))
	s.change("task0000000000000001", func(t *pb.Task) {
		t.State, t.Phase, t.Agent, t.Tries, t.Helpers, t.CreateTime, t.StartTime = pb.TaskState_TASK_STATE_RUNNING, "moving", "n1", 2, []string{"n2"}, made, made
		t.Progress = &pb.Progress{Planned: &pb.Totals{Files: 10, Bytes: 1 << 30}, PlanComplete: true, FilesDone: 4, BytesDone: 410 << 20, BytesPerSecond: 512 << 20, Failed: 1,
			Slowest: []*pb.SlowItem{{Name: []byte("a\xff\nb"), Since: durationpb.New(12 * time.Second), Agent: "n2"}}}
	})
	s.begin(&pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_STAGE, Source: "dataset:imagenet", Staging: &pb.Staging{Tier: "scratch"}}, "")
	s.change("task0000000000000002", isDone)
	until := timestamppb.New(time.Date(2027, 1, 31, 12, 0, 0, 0, time.UTC))
	who := &pb.Account{Name: "alice", Uid: 1000}
	for method, answer := range map[string]proto.Message{
		"ExplainTask": &pb.Explanation{Id: "task0000000000000001", Bottleneck: pb.Bottleneck_BOTTLENECK_SOURCE, Text: "it waits for the source to be read",
			Evidence: []string{"source: 12s", "target: 1s"}, Advice: "look at the load of the source"},
		"GetDataset": &pb.Dataset{Name: "imagenet", Project: "vision", Owner: who, Versions: []*pb.Version{{Digest: digestOf, Entries: 1203, Bytes: 5 << 30, CreateTime: made, Source: "archive:imagenet"}}},
		"ListDatasets": &pb.ListDatasetsResponse{Datasets: []*pb.Dataset{{Name: "imagenet", Project: "vision", Owner: who,
			Versions: []*pb.Version{{Digest: digestOf, Entries: 1203, Bytes: 5 << 30, CreateTime: made}}}, {Name: "empty", Owner: who}}},
		"ListReplicas": &pb.ListReplicasResponse{Replicas: []*pb.Replica{{Dataset: "imagenet", Digest: digestOf, Tier: "scratch", Node: "n1", Location: "/local_nvme/imagenet",
			State: pb.ReplicaState_REPLICA_STATE_WHOLE, Level: pb.Level_LEVEL_SERVER, Bytes: 5 << 30, Leases: 2, PinnedUntil: until},
			{Dataset: "imagenet", Digest: digestOf, Tier: "archive", Location: "archive:old", State: pb.ReplicaState_REPLICA_STATE_WHOLE, Bytes: 5 << 30}}},
		"ListLeases": &pb.ListLeasesResponse{Leases: []*pb.Lease{{Id: "lease1", Dataset: "imagenet", Digest: digestOf, Tier: "scratch", Node: "n1", Holder: "slurm:4711", Owner: who, ExpireTime: until, Location: "/local_nvme/imagenet"},
			{Id: "lease2", Tier: "scratch", Holder: "root", Owner: &pb.Account{Uid: 1002}, ExpireTime: until}}},
		"DropLease": &pb.DropLeaseResponse{},
		"ListPins":  &pb.ListPinsResponse{Pins: []*pb.PinInfo{{Dataset: "imagenet", Until: until, Reason: "ablations", Owner: who}}},
		"Pin":       &pb.PinInfo{Dataset: "imagenet", Tier: "scratch", Until: until, Reason: "ablations", Owner: who},
		"Unpin":     &pb.UnpinResponse{},
		"ListTiers": &pb.ListTiersResponse{Tiers: []*pb.Tier{{Name: "scratch", Level: "hot", Location: "/local_nvme", Node: "n1", Ephemeral: true, TotalBytes: 100 << 30, FreeBytes: 10 << 30,
			ReplicaBytes: 40 << 30, LeasedBytes: 5 << 30, Agents: []string{"n1"}}, {Name: "archive", Level: "cold", Location: "s3://archive/"}}},
		"ListAgents":      &pb.ListAgentsResponse{Agents: []*pb.Agent{{Name: "n1", State: pb.AgentState_AGENT_STATE_READY, Version: "1.2", Leads: 3, BytesPerSecond: 1 << 30, SeenTime: timestamppb.Now(), Reaches: []string{"scratch", "archive"}, Root: true}}},
		"DrainAgent":      &pb.Agent{Name: "n1", State: pb.AgentState_AGENT_STATE_DRAINING},
		"ForgetAgent":     &pb.ForgetAgentResponse{Replicas: 3, ReplicaBytes: 5 << 30, Leases: 2, Tasks: 1},
		"UndrainAgent":    &pb.Agent{Name: "n1", State: pb.AgentState_AGENT_STATE_READY},
		"CreateJoinToken": &pb.CreateJoinTokenResponse{Token: "dm1.secret", ExpireTime: until},
		"GetUsage": &pb.GetUsageResponse{Usage: []*pb.Usage{
			{Project: "vision", Owner: who, Day: timestamppb.New(time.Date(2027, 1, 2, 0, 0, 0, 0, time.UTC)), Tasks: 2, Files: 30, Bytes: 1 << 30, Failed: 1},
			{Project: "vision", Owner: who, Day: timestamppb.New(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)), Tasks: 1, Files: 3, Bytes: 1 << 30}},
			Quotas: []*pb.Quota{{Resource: "slots", Used: 50, Limit: 75}, {Resource: "tasks", Used: 1234, Limit: 10_000}, {Resource: "specs", Used: 3 << 20, Limit: 64 << 20}, {Resource: "leases", Used: 5}}},
		"GetInfo": &pb.Info{Version: "1.2", Node: "n1", StartTime: made, Term: 7, TasksQueued: 3, TasksRunning: 2, Agents: 1, Caller: who, Roles: []string{"operator"}, Projects: []string{"vision"}},
		"Reload":  &pb.ReloadResponse{Changed: []string{"limits", "listen"}},
	} {
		s.answers[method] = answer
	}
	return s, newSession(t, s)
}

// shows are commands that show something, what is in their tables, in -o name, and
// their schema.
var shows = []struct {
	args   string
	table  []string
	name   string // "" has no -o name
	schema string
}{
	{"task list --all", []string{"ID                    STATE      OWNER     PROJECT   PROGRESS        RATE     AGE  WHAT\n",
		"task0000000000000001  running    alice     vision         40%   512 MiB/s   3m04s  copy /lustre/run-7 → archive:run-7\n",
		"task0000000000000002  done       alice     -             100%           -   ", "stage dataset:imagenet on scratch\n"},
		"task0000000000000001\ntask0000000000000002\n", "task"},
	{"task show task0000000000000001", []string{"task      task0000000000000001\n", "state     running, moving\n", "what      copy /lustre/run-7 → archive:run-7\n",
		"owner     alice (uid 1000), project vision, class replicate\n", "labels    slurm_job=4711\n", "agent     n1, lead 2, helped by n2\n",
		"progress  4/10 files  410 MiB/1.00 GiB  512 MiB/s  1 failed\n", `slowest   12.0s "a\xff\nb" (n2)` + "\n"},
		"task0000000000000001\n", "task"},
	{"task why task0000000000000001", []string{"source: it waits for the source to be read\n  source: 12s\n  target: 1s\ntry: look at the load of the source\n"}, "", "explanation"},
	{"task pause task0000000000000001", []string{"task0000000000000001  paused: paused by alice\n"}, "task0000000000000001\n", "task"},
	{"task resume task0000000000000001", []string{"task0000000000000001  queued"}, "task0000000000000001\n", "task"},
	{"task wait task0000000000000002", []string{"task0000000000000002  done          0  stage dataset:imagenet on scratch\n"}, "task0000000000000002\n", "task"},
	{"dataset list", []string{"NAME", "imagenet                  vision    alice            1        1,203  5.00 GiB  9c1d40e07ab2   3m04s\n",
		"empty                     -         alice            0            0       0 B                     -\n"}, "imagenet\nempty\n", "dataset"},
	{"dataset show imagenet", []string{"dataset:imagenet of alice, project vision\n", "  " + digestOf + "  1,203 entries, 5.00 GiB, made ", "of archive:imagenet\n",
		"/local_nvme/imagenet\n", "slurm:4711", "ablations\n"}, "", "dataset"},
	{"dataset replicas", []string{"imagenet                  9c1d40e07ab2  scratch     n1        whole     server    5.00 GiB       2  ", "  /local_nvme/imagenet\n",
		"imagenet                  9c1d40e07ab2  archive     -         whole     doubted   5.00 GiB       0  ", "  archive:old\n"}, "/local_nvme/imagenet\narchive:old\n", "replica"},
	{"lease list", []string{"lease1                imagenet                  9c1d40e07ab2  scratch     n1        alice     slurm:4711    ", "  uid 1002  root          "}, "lease1\nlease2\n", "lease"},
	{"pin list", []string{"imagenet                  all           all         "}, "imagenet\n", "pin"},
	{"pin dataset:imagenet --until 30d --tier scratch --reason ablations", []string{"imagenet                  all           scratch     ", "alice     ablations\n"}, "imagenet\n", "pin"},
	{"tier list", []string{"scratch       hot    n1        yes             1  /local_nvme\n", "archive       cold   -         no              0  s3://archive/\n"}, "scratch\narchive\n", "tier"},
	{"tier df", []string{"scratch       n1          100 GiB   10.0 GiB    90%   40.0 GiB   5.00 GiB  /local_nvme\n", "archive       -                 -          -      -          -          -  s3://archive/\n"}, "scratch\narchive\n", "tier"},
	{"agent list", []string{"n1            ready         3      0  1.00 GiB/s  ", "1.2         scratch, archive\n"}, "n1\n", "agent"},
	{"agent drain n1", []string{"n1            draining "}, "n1\n", "agent"},
	{"agent undrain n1", []string{"n1            ready "}, "n1\n", "agent"},
	{"agent forget --yes --revoke n1", []string{"FORGOTTEN     REPLICAS       SIZE  LEASES  TASKS\nn1                   3   5.00 GiB       2      1\n"}, "n1\n", "forgotten"},
	{"agent token --ttl 10m n18", []string{"dm1.secret\n"}, "", "token"},
	{"usage", []string{"PROJECT", "vision            alice                 3             33   2.00 GiB          1\n"}, "", "moved"},
	{"usage --daily", []string{"2027-01-02  vision", "2027-01-01  vision"}, "", "moved"},
	{"usage --me", []string{"RESOURCE          USED       LIMIT\nslots              50%         75%\ntasks            1,234      10,000\nspecs         3.00 MiB    64.0 MiB\nleases               5           -\n"}, "", "share"},
	{"service info", []string{"service   datamoved 1.2 on n1, since ", "term 7\ntasks     3 queued, 2 running\nagents    1\nyou are   alice (uid 1000)\nroles     operator\nprojects  vision\npage      datamove service page shows it to your browser\n"}, "", "service"},
	{"service reload", []string{"changed limits\nchanged listen  (when the service starts again)\n"}, "", "reload"},
}

// TestFormats prints everything that is shown in every format.
func TestFormats(t *testing.T) {
	for _, row := range shows {
		t.Run(row.args, func(t *testing.T) {
			_, u := furnished(t)
			args := strings.Fields(row.args)
			out, _ := u.wants(0, args...)
			has(t, row.args, out, row.table...)
			if code, out, _ := u.run(append(args, "-o", "name")...); row.name == "" && code != cli.ExitUsage || row.name != "" && out != row.name {
				t.Errorf("-o name: exit %d, %q", code, out)
			}
			out, _ = u.wants(0, append(args, "-o", "json")...)
			var v any
			if err := json.Unmarshal([]byte(out), &v); err != nil {
				t.Errorf("-o json: %v\n%s", err, out)
			}
			schemas(t, v, "datamove."+row.schema+"/v1")
			out, _ = u.wants(0, append(args, "-o", "yaml")...)
			var y any
			if err := yaml.Unmarshal([]byte(out), &y); err != nil {
				t.Errorf("-o yaml: %v\n%s", err, out)
			}
			schemas(t, y, "datamove."+row.schema+"/v1")
			out, _ = u.wants(0, append(args, "-o", "jsonl")...)
			for line := range strings.Lines(out) {
				if err := json.Unmarshal([]byte(line), &v); err != nil {
					t.Errorf("-o jsonl: %v\n%s", err, line)
				}
				schemas(t, v, "datamove."+row.schema+"/v1")
			}
		})
	}
}

// schemas wants a schema in an object, or in each of a list.
func schemas(t *testing.T, v any, want string) {
	t.Helper()
	switch v := v.(type) {
	case []any:
		if len(v) == 0 {
			t.Error("an empty list")
		}
		for _, one := range v {
			schemas(t, one, want)
		}
	case map[string]any:
		if v["schema"] != want {
			t.Errorf("schema %v, want %s", v["schema"], want)
		}
	default:
		t.Errorf("%T is no object", v)
	}
}

// TestNothingThere is a service that has nothing: tables say so on stderr, and the
// rest is an empty list.
func TestNothingThere(t *testing.T) {
	s := newFake(t)
	u := newSession(t, s)
	for method, answer := range map[string]proto.Message{
		"ListDatasets": &pb.ListDatasetsResponse{}, "ListReplicas": &pb.ListReplicasResponse{}, "ListLeases": &pb.ListLeasesResponse{}, "ListPins": &pb.ListPinsResponse{},
		"ListTiers": &pb.ListTiersResponse{}, "ListAgents": &pb.ListAgentsResponse{}, "GetUsage": &pb.GetUsageResponse{},
	} {
		s.answers[method] = answer
	}
	for args, want := range map[string]string{"task list": "no tasks that have not ended; --all lists the others, too\n", "dataset list": "no datasets\n", "dataset replicas": "no replicas\n", "lease list": "no leases\n",
		"pin list": "no pins\n", "tier list": "no tiers\n", "agent list": "no agents\n", "usage": "no usage\n", "usage --me": "no quotas\n"} {
		if out, said := u.wants(0, strings.Fields(args)...); out != "" || said != want {
			t.Errorf("%s: %q, %q", args, out, said)
		}
		if out, said := u.wants(0, append(strings.Fields(args), "-q")...); out != "" || said != "" {
			t.Errorf("%s -q: %q, %q", args, out, said)
		}
		for _, f := range []string{"json", "yaml"} {
			if out, said := u.wants(0, append(strings.Fields(args), "-o", f)...); out != "[]\n" || said != "" {
				t.Errorf("%s -o %s: %q, %q", args, f, out, said)
			}
		}
	}
}

// TestFilters shows what listings ask for.
func TestFilters(t *testing.T) {
	living := []pb.TaskState{pb.TaskState_TASK_STATE_QUEUED, pb.TaskState_TASK_STATE_RUNNING, pb.TaskState_TASK_STATE_PAUSED}
	s, u := furnished(t)
	for _, row := range []struct {
		args string
		want *pb.ListTasksRequest
	}{
		{"task list", &pb.ListTasksRequest{States: living}},
		{"task list --all --project vision --owner bob", &pb.ListTasksRequest{Project: "vision", Owner: "bob"}},
		{"task list --state done,failed --label a=b --label c=d=e", &pb.ListTasksRequest{
			States: []pb.TaskState{pb.TaskState_TASK_STATE_DONE, pb.TaskState_TASK_STATE_FAILED}, Labels: map[string]string{"a": "b", "c": "d=e"}}},
		{"task list --slurm-job 4711", &pb.ListTasksRequest{States: living, Labels: map[string]string{"slurm_job": "4711"}}},
	} {
		s.asked["ListTasks"] = nil
		u.wants(0, strings.Fields(row.args)...)
		row.want.PageSize, row.want.Brief = 500, true
		if got := s.asked["ListTasks"][0]; !proto.Equal(got, row.want) {
			t.Errorf("%s asks for %v", row.args, got)
		}
	}
	u.wants(0, "dataset", "replicas", "dataset:imagenet@"+digestOf, "--tier", "scratch", "--node", "n1")
	if got, want := last[*pb.ListReplicasRequest](t, s, "ListReplicas"), (&pb.ListReplicasRequest{Dataset: "imagenet", Digest: digestOf, Tier: "scratch", Node: "n1"}); !proto.Equal(got, want) {
		t.Errorf("replicas: %v", got)
	}
	u.wants(0, "lease", "list", "--dataset", "imagenet", "--holder", "slurm:1")
	if got := last[*pb.ListLeasesRequest](t, s, "ListLeases"); got.GetDataset() != "imagenet" || got.GetHolder() != "slurm:1" {
		t.Errorf("leases: %v", got)
	}
	u.wants(0, "tier", "df", "scratch")
	if got := last[*pb.ListTiersRequest](t, s, "ListTiers"); got.GetName() != "scratch" {
		t.Errorf("tiers: %v", got)
	}
	for _, args := range []string{"task list --all --state done", "task list --state over", "task list --label x", "task list x", "task show", "task why a b", "task wait", "lease drop",
		"agent drain", "agent forget", "agent forget n1", "usage --since yesterday", "usage --me shared:", "usage --me --daily", "usage --me --by owner", "tier df a b"} {
		u.wants(cli.ExitUsage, strings.Fields(args)...)
	}
}

// TestHostileText prints what somebody else has written: no byte of it reaches the
// terminal as a command.
func TestHostileText(t *testing.T) {
	s, u := furnished(t)
	bad := "x\x1b[2J\x1b]0;y\x07\nz\u202e\r"
	s.begin(&pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "/" + bad, Target: bad, Project: bad, Labels: map[string]string{bad: bad}}, "")
	s.change("task0000000000000003", func(t *pb.Task) {
		t.State, t.Owner, t.Error, t.Why, t.Agent, t.Phase, t.Tries = pb.TaskState_TASK_STATE_FAILED, &pb.Account{Name: bad}, bad, bad, bad, bad, 1
		t.Report = reportOf([]error{errors.New(bad)})
		t.Report.Notes = []string{bad}
		t.Report.Failures[0].Name = []byte(bad + "\xff")
	})
	s.answers["ExplainTask"] = &pb.Explanation{Text: bad, Evidence: []string{bad}, Advice: bad}
	s.answers["ListAgents"] = &pb.ListAgentsResponse{Agents: []*pb.Agent{{Name: bad, Version: bad, Reaches: []string{bad}}}}
	s.answers["ListTiers"] = &pb.ListTiersResponse{Tiers: []*pb.Tier{{Name: bad, Level: bad, Location: bad, Node: bad}}}
	s.answers["ListDatasets"] = &pb.ListDatasetsResponse{Datasets: []*pb.Dataset{{Name: bad, Project: bad, Versions: []*pb.Version{{Digest: bad + bad}}}}}
	s.answers["ListReplicas"] = &pb.ListReplicasResponse{Replicas: []*pb.Replica{{Dataset: bad, Location: bad, Tier: bad}}}
	s.answers["ListPins"] = &pb.ListPinsResponse{Pins: []*pb.PinInfo{{Dataset: bad, Reason: bad}}}
	s.answers["GetDataset"] = &pb.Dataset{Name: bad, Versions: []*pb.Version{{Digest: bad, Source: bad}}}
	s.answers["GetInfo"] = &pb.Info{Version: bad, Node: bad, Caller: &pb.Account{Name: bad}, Roles: []string{bad}}
	s.answers["Reload"] = &pb.ReloadResponse{Changed: []string{bad}}
	s.answers["CreateJoinToken"] = &pb.CreateJoinTokenResponse{Token: bad}
	s.errs["PauseTask"] = fmt.Errorf("%s: %w", bad, mover.ErrPermission)
	for _, args := range []string{"task list --all", "task list --all -o name", "task show task0000000000000003", "task watch task0000000000000003", "task wait task0000000000000003",
		"task why task0000000000000003", "task pause task0000000000000003", "agent list", "agent list -o name", "agent token n", "tier list", "tier df", "dataset list", "dataset show x",
		"dataset replicas", "pin list", "service info", "service reload", "__complete task show task0000000000000003"} {
		_, out, said := u.run(strings.Fields(args)...)
		for _, r := range out + said {
			if r != '\n' && r != '\t' && (unicode.IsControl(r) || r == '\u202e') {
				t.Errorf("%s prints %q:\n%q\n%q", args, r, out, said)
				break
			}
		}
		if strings.Contains(out+said, "\nz") {
			t.Errorf("%s prints a forged line:\n%s%s", args, out, said)
		}
	}
	out, _ := u.wants(0, "task", "show", "-o", "json", "task0000000000000003")
	var v taskJSON
	if err := json.Unmarshal([]byte(out), &v); err != nil || v.Why != bad || string(v.Report.Failures[0].Name64) != bad+"\xff" {
		t.Errorf("JSON keeps what was said: %q, %q, %v", v.Why, v.Report.Failures[0].Name64, err)
	}
}

// TestManyTasks lists forty thousand tasks, in a soak a hundred thousand, and holds a few.
func TestManyTasks(t *testing.T) {
	s := newFake(t)
	u := newSession(t, s)
	held := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, most := held(), uint64(0)
	total := kill.Times(40_000, 100_000)
	s.pages = func(page int) (tasks []*pb.Task) {
		if page%20 == 0 {
			most = max(most, held())
		}
		for i := range 500 {
			if n := 500*page + i; n < total {
				tasks = append(tasks, &pb.Task{Id: fmt.Sprintf("task%016d", n), Spec: &pb.TaskSpec{Source: strings.Repeat("x", 100)}, Revision: 1})
			}
		}
		return tasks
	}
	for _, f := range cli.ListFormats {
		if f == cli.FormatYAML { // which takes long
			total = 5_000
		}
		lines := &counted{}
		a := cli.App{In: strings.NewReader(""), Out: lines, Err: io.Discard, Env: func(key string) string { return u.env[key] }}
		must.Do(t, execute(t.Context(), &a, []string{"task", "list", "--all", "-o", string(f)}))
		if lines.lines < total {
			t.Errorf("-o %s: %d lines", f, lines.lines)
		}
	}
	if most > before+16<<20 {
		t.Errorf("%d MiB were held beside the %d of before", (most-before)>>20, before>>20)
	}
}

// counted counts lines.
type counted struct{ lines int }

func (c *counted) Write(p []byte) (int, error) {
	c.lines += strings.Count(string(p), "\n")
	return len(p), nil
}

// TestListingFails: what was found before is shown, and the end is no success.
func TestListingFails(t *testing.T) {
	s := newFake(t)
	s.begin(&pb.TaskSpec{}, "")
	s.pages = func(page int) []*pb.Task {
		if page == 1 {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.errs["ListTasks"] = fmt.Errorf("the ledger: %w", mover.ErrCorrupt)
		}
		return s.tasks
	}
	out, said := newSession(t, s).wants(cli.ExitCorrupt, "task", "list")
	has(t, "list", out, "task0000000000000001")
	has(t, "list", said, "datamove: task: list: the ledger: checksum mismatch\n")
}

func TestBackup(t *testing.T) {
	s, u := furnished(t)
	s.backup = []byte(strings.Repeat("0123456789abcdef", 10_000))
	file := filepath.Join(t.TempDir(), "ledger")
	out, _ := u.wants(0, "service", "backup", file)
	has(t, "backup", out, "wrote "+file+", 156 KiB\n")
	if text, err := os.ReadFile(file); err != nil || string(text) != string(s.backup) {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	u.wants(cli.ExitConflict, "service", "backup", file)

	s.errs["Backup"] = fmt.Errorf("the ledger: %w", mover.ErrCorrupt)
	file += "2"
	u.wants(cli.ExitCorrupt, "service", "backup", file)
	left, err := filepath.Glob(file + "*")
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
