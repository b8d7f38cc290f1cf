package coordinator

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/queue"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
)

// What a task waits for most is named, and whose limit it may be.
func TestExplain(t *testing.T) {
	for _, c := range []struct {
		own                 int64
		source, link, limit time.Duration
		want                pb.Bottleneck
		advice              string
	}{
		{0, 2 * time.Second, time.Second, time.Second, pb.Bottleneck_BOTTLENECK_SOURCE, "doctor SOURCE"},
		{100 << 20, 2 * time.Second, 0, time.Second, pb.Bottleneck_BOTTLENECK_SOURCE, "doctor SOURCE"},
		{100 << 20, time.Second, time.Second, 2 * time.Second, pb.Bottleneck_BOTTLENECK_LIMIT, "its own limit is 100 MiB/s"},
		{0, time.Second, 0, 2 * time.Second, pb.Bottleneck_BOTTLENECK_LIMIT, "the limits are in the configuration"},
		{100 << 20, time.Second, 3 * time.Second, 2 * time.Second, pb.Bottleneck_BOTTLENECK_LINK, "what their links can"},
	} {
		got := explain(&pb.Task{State: pb.TaskState_TASK_STATE_RUNNING,
			Spec:     &pb.TaskSpec{Options: &pb.Options{BytesPerSecond: c.own}},
			Progress: &pb.Progress{SourceWait: durationpb.New(c.source), LinkWait: durationpb.New(c.link), LimitWait: durationpb.New(c.limit)}})
		if got.GetBottleneck() != c.want || !strings.Contains(got.GetAdvice(), c.advice) {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestExplainWaits: a wait is named with its reason, and with what ends it.
func TestExplainWaits(t *testing.T) {
	for _, c := range []struct {
		phase  string
		want   pb.Bottleneck
		text   string
		advice string
	}{
		{"paused", pb.Bottleneck_BOTTLENECK_ROOM, "it waits for room: because", "make room"},
		{"waiting", pb.Bottleneck_BOTTLENECK_LINK, "it waits: because", "datamove doctor LOCATION"},
	} {
		got := explain(&pb.Task{State: pb.TaskState_TASK_STATE_RUNNING, Phase: c.phase, Why: "because", Progress: &pb.Progress{SourceWait: durationpb.New(time.Hour)}})
		if got.GetBottleneck() != c.want || got.GetText() != c.text || !strings.Contains(got.GetAdvice(), c.advice) {
			t.Errorf("%s: %v", c.phase, got)
		}
	}
}

// TestExplainSilent: of a task whose agent says nothing that is what it waits for, whatever
// was told before, also by a coordinator that has begun anew.
func TestExplainSilent(t *testing.T) {
	d, l := crewed(t)
	id := l.GetTask().GetId()
	lead := d.led[id]
	why := func() *pb.Explanation {
		t.Helper()
		e, err := d.ExplainTask(root, &pb.ExplainTaskRequest{Id: id})
		wants(t, "why", err, nil)
		return e
	}
	silent := func() bool {
		e := why()
		return e.GetBottleneck() == pb.Bottleneck_BOTTLENECK_QUEUE && strings.Contains(e.GetText(), "agent "+lead+", which leads it, has said nothing for")
	}
	if silent() {
		t.Errorf("at first: %v", why())
	}
	d.pass(silentTime + time.Second)
	if !silent() {
		t.Errorf("after %v: %v", silentTime, why())
	}
	d.attend(lead)
	if silent() {
		t.Errorf("when it is back: %v", why())
	}
	d.close()
	d.start()
	if !silent() {
		t.Errorf("before it has come back: %v", why())
	}
}

// TestExplainQueue: tasks of a queue that can not be read wait for that, which the log says once, and go on when it can.
func TestExplainQueue(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	var log bytes.Buffer
	d.Service.log = slog.New(slog.NewTextHandler(&log, nil))
	x, err := d.SubmitTask(root, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "/lustre/project/a", Target: "/lustre/project/b"}})
	wants(t, "submit", err, nil)
	why := func() string {
		e, err := d.ExplainTask(root, &pb.ExplainTaskRequest{Id: x.GetId()})
		wants(t, "why", err, nil)
		return e.GetText()
	}
	whole := d.Service.scheduler.queue
	d.Service.scheduler.queue = queue.New(queue.Options{Refill: func(context.Context, string, string, int) ([]string, error) {
		return nil, fmt.Errorf("%w: it does not answer", mover.ErrTimeout)
	}})
	for range 3 {
		d.scheduler.giveLeads(t.Context())
	}
	if text := why(); !strings.Contains(text, "the queue of the service can not be read") || !strings.Contains(text, "it does not answer") {
		t.Errorf("it waits because %s", text)
	}
	if n := strings.Count(log.String(), "the queue can not be read"); n != 1 {
		t.Errorf("the log says it %d times: %s", n, &log)
	}
	d.Service.scheduler.queue = whole
	d.give()
	if got := d.state(x.GetId()).GetState(); got == task.Queued || !strings.Contains(log.String(), "the queue can be read again") {
		t.Errorf("it is %v: %s", got, &log)
	}
}

// TestExplainUnreached: a task that no agent can have says which tier is missing where, or that the agents are another account's.
func TestExplainUnreached(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	says := func(name string, hello *agentv1.Hello, spec *pb.TaskSpec, want string) {
		t.Helper()
		wants(t, name, d.agents.connect(asAgent("n1"), "n1", &agentv1.Status{Hello: hello, LeadSlots: 9}, make(chan *agentv1.Order, 9), func() {}), nil)
		x, err := d.SubmitTask(root, &pb.SubmitTaskRequest{Spec: spec})
		wants(t, name, err, nil)
		e, err := d.ExplainTask(root, &pb.ExplainTaskRequest{Id: x.GetId()})
		wants(t, name, err, nil)
		if e.GetText() != want {
			t.Errorf("%s: %q, want %q", name, e.GetText(), want)
		}
	}
	d.leaves("n2")
	wants(t, "forget", second(d.agents.ForgetAgent(root, &pb.ForgetAgentRequest{Name: "n2"})), nil)
	reach := func(tiers ...string) (all []*agentv1.Reach) {
		for _, tier := range tiers {
			all = append(all, &agentv1.Reach{Tier: tier})
		}
		return all
	}
	copies := func(node, source, target string) *pb.TaskSpec {
		return &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: source, Target: target, Node: node}
	}
	says("a mount that is not there", &agentv1.Hello{Name: "n1", Root: true, Reaches: reach("archive", "scratch")}, copies("", "project:a", "archive:a"),
		"no agent reaches tier project, which has to be mounted at /lustre/project")
	says("two of one node", &agentv1.Hello{Name: "n1", Root: true}, copies("n1", "archive:b", "scratch:b"),
		"no agent on node n1 reaches tier archive, and tier scratch, which has to be mounted at /nvme")
	says("an agent of another account", &agentv1.Hello{Name: "n1", Uid: 4242, Reaches: reach("archive", "project")}, copies("", "project:c", "archive:c"),
		"no agent that reaches both ends runs as root")
}
