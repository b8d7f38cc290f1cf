package coordinator

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/coordinator/enroll"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/server/pki"
	"datamove.dev/mover/task"
	"datamove.dev/test/must"
)

// names are the agents that are listed.
func (d *desk) names() (names []string) {
	d.t.Helper()
	l, err := d.agents.ListAgents(root, &pb.ListAgentsRequest{})
	if err != nil {
		d.t.Fatalf("%v", err)
	}
	for _, a := range l.GetAgents() {
		names = append(names, a.GetName())
	}
	return names
}

// leaves ends the conversation of an agent.
func (d *desk) leaves(name string) { d.agents.disconnect(name, d.orders[name]) }

// TestForgetAgent: with a node goes what only it has; what others have stays, and so does
// what was promised of that.
func TestForgetAgent(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	d.add(root, "a", "project:a", 1)
	d.add(root, "b", "project:b", 2)
	for _, node := range []string{"n1", "n2"} {
		d.staged(root, &pb.StageRequest{Source: "dataset:a", Tier: "scratch", Node: node, Holder: "job@" + node, LeaseTtl: durationpb.New(time.Hour)}, 1)
	}
	led, err := d.datasets.Stage(root, &pb.StageRequest{Source: "dataset:b", Tier: "scratch", Node: "n2"})
	wants(t, "a staging", err, nil)
	d.give()
	d.leaves("n2")
	queued, err := d.SubmitTask(root, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "project:x", Target: "scratch:x", Node: "n2"}})
	wants(t, "a copy", err, nil)
	other, err := d.SubmitTask(root, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "project:x", Target: "scratch:x", Node: "n1"}})
	wants(t, "a copy elsewhere", err, nil)
	paused, err := d.SubmitTask(root, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "scratch:y", Target: "project:y", Node: "n2"}})
	wants(t, "a third one", err, nil)
	wants(t, "pause", second(d.PauseTask(root, &pb.PauseTaskRequest{Id: paused.GetId()})), nil)

	wants(t, "nobody", second(d.agents.ForgetAgent(root, &pb.ForgetAgentRequest{Name: "n3"})), mover.ErrNotExist)
	wants(t, "no name", second(d.agents.ForgetAgent(root, &pb.ForgetAgentRequest{Name: "n\x002"})), mover.ErrNotExist)
	wants(t, "the coordinator's own", second(d.agents.ForgetAgent(root, &pb.ForgetAgentRequest{Name: "n1", Revoke: true})), mover.ErrConflict)

	r := &pb.ForgetAgentRequest{Name: "n2", IdempotencyKey: "k"}
	went, err := d.agents.ForgetAgent(root, r)
	wants(t, "forget", err, nil)
	want := &pb.ForgetAgentResponse{Replicas: 2, ReplicaBytes: went.GetReplicaBytes(), Leases: 1, Tasks: 3}
	if !proto.Equal(went, want) || went.GetReplicaBytes() < 100 {
		t.Errorf("what went is %v, want %v", went, want)
	}
	if d.row("a", digestOf(1), "scratch", "n2") != nil || d.row("b", digestOf(2), "scratch", "n2") != nil {
		t.Error("a replica of it is there")
	}
	if d.row("a", digestOf(1), "scratch", "n1") == nil || d.row("a", digestOf(1), "project", "") == nil {
		t.Error("a replica of others is gone")
	}
	if held := d.leased(); len(held) != 1 || held["job@n1"] != "a" {
		t.Errorf("leases: %v", held)
	}
	for id, state := range map[string]pb.TaskState{led.GetTask().GetId(): task.Failed, queued.GetId(): task.Failed, paused.GetId(): task.Failed, other.GetId(): task.Queued} {
		if got := d.state(id); got.GetState() != state {
			t.Errorf("a task is %v, want %v", got, state)
		}
	}
	if names := d.names(); len(names) != 1 || names[0] != "n1" {
		t.Errorf("agents: %v", names)
	}
	again, err := d.agents.ForgetAgent(root, r)
	if err != nil || !proto.Equal(again, went) {
		t.Errorf("the same again is %v, %v; was %v", again, err, went)
	}
	wants(t, "once more", second(d.agents.ForgetAgent(root, &pb.ForgetAgentRequest{Name: "n2"})), mover.ErrNotExist)
	wants(t, "the key for another one", second(d.agents.ForgetAgent(root, &pb.ForgetAgentRequest{Name: "n1", IdempotencyKey: "k"})), mover.ErrConflict)

	d.close()
	d.open() // both attend
	wants(t, "it is there again, and the key is known", second(d.agents.ForgetAgent(root, r)), nil)
	if names := d.names(); len(names) != 2 {
		t.Errorf("agents: %v", names)
	}
}

// TestBoundToNobody: a task says that its node is not there, and what can be done, in each
// state; and what a coordinator had not ended when it stopped, the next one ends.
func TestBoundToNobody(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	d.leaves("n2")
	wants(t, "forget", second(d.agents.ForgetAgent(root, &pb.ForgetAgentRequest{Name: "n2"})), nil)
	x, err := d.SubmitTask(root, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "project:x", Target: "scratch:x", Node: "n2"}})
	wants(t, "a copy", err, nil)
	says := func(what string, parts ...string) {
		t.Helper()
		e, err := d.ExplainTask(root, &pb.ExplainTaskRequest{Id: x.GetId()})
		wants(t, what, err, nil)
		for _, part := range parts {
			if !strings.Contains(e.GetText()+"\n"+e.GetAdvice(), part) {
				t.Errorf("%s: %q is not said: %v", what, part, e)
			}
		}
	}
	there := []string{"only n2 can do it", "agent token n2", "task cancel " + x.GetId()}
	says("queued", there...)
	wants(t, "pause", second(d.PauseTask(root, &pb.PauseTaskRequest{Id: x.GetId()})), nil)
	says("paused", append(there, "it is paused")...)
	wants(t, "resume", second(d.ResumeTask(root, &pb.ResumeTaskRequest{Id: x.GetId()})), nil)
	says("resumed", there...)
	wants(t, "pause", second(d.PauseTask(root, &pb.PauseTaskRequest{Id: x.GetId()})), nil)
	wants(t, "cancel", second(d.CancelTask(root, &pb.CancelTaskRequest{Id: x.GetId()})), nil)
	if got := d.state(x.GetId()).GetState(); got != task.Cancelled {
		t.Errorf("it is %v", got)
	}

	x, err = d.SubmitTask(root, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "project:x", Target: "scratch:x", Node: "n2"}})
	wants(t, "another copy", err, nil)
	d.scheduler.endForgottenBound(t.Context())
	says("failed", "it has failed: forget agent n2", "submit it again")
	wants(t, "resume what has failed", second(d.ResumeTask(root, &pb.ResumeTaskRequest{Id: x.GetId()})), mover.ErrConflict)
	wants(t, "cancel what has failed", second(d.CancelTask(root, &pb.CancelTaskRequest{Id: x.GetId()})), mover.ErrConflict)

	d.attend("n2") // it has joined again
	x, err = d.SubmitTask(root, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "project:x", Target: "scratch:x", Node: "n2"}})
	wants(t, "one more", err, nil)
	d.scheduler.endForgottenBound(t.Context())
	if got := d.state(x.GetId()).GetState(); got != task.Queued {
		t.Errorf("it is %v, and its node is there", got)
	}
}

// TestForgetConnected: a node that is there has to be meant; then it is cut off, and what
// it has goes to others.
func TestForgetConnected(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	ended := false
	n := d.Service.scheduler.agents["n2"]
	n.end = func() { ended = true }
	d.Service.scheduler.agents["n1"].drain = true // n2 has to do it
	copied, err := d.SubmitTask(root, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "project:x", Target: "project:y"}})
	wants(t, "a copy", err, nil)
	d.give()
	l := d.taken[copied.GetId()]
	if d.led[copied.GetId()] != "n2" {
		t.Fatalf("%q leads", d.led[copied.GetId()])
	}
	wants(t, "connected", second(d.agents.ForgetAgent(root, &pb.ForgetAgentRequest{Name: "n2"})), mover.ErrHeld)
	if ended {
		t.Error("its conversation was ended all the same")
	}
	_, err = d.agents.Confirm(asAgent("n2"), &agentv1.ConfirmRequest{Task: copied.GetId(), Epoch: l.GetEpoch()})
	wants(t, "it goes on", err, nil)
	wants(t, "revoked", second(d.agents.ForgetAgent(root, &pb.ForgetAgentRequest{Name: "n2", Revoke: true})), nil)
	if !ended {
		t.Error("its conversation goes on")
	}
	_, err = d.agents.Confirm(asAgent("n2"), &agentv1.ConfirmRequest{Task: copied.GetId(), Epoch: l.GetEpoch()})
	wants(t, "it has lost the lead", err, mover.ErrHeld)
	if got := d.state(copied.GetId()); got.GetState() != task.Queued {
		t.Errorf("the task is %v", got)
	}
}

// request is a request for a certificate.
func request(t *testing.T, name string) []byte {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	der := must.Get(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key))(t)
	return der
}

// bearer is a node with a certificate that it was given.
func bearer(t *testing.T, c *agentv1.Certificate) (pki.Identity, context.Context) {
	t.Helper()
	cert := must.Get(x509.ParseCertificate(c.GetCertificate()))(t)
	id := pki.Identity{Role: pki.Agent, Name: cert.Subject.CommonName, Serial: cert.SerialNumber.Text(16)}
	return id, authz.With(t.Context(), authz.Caller{Agent: id.Name, Via: authz.Agent, Serial: id.Serial})
}

// TestForgottenCertificates: what a node was given before is not believed, also when it
// asks in a call that has begun before, and what it is given since is.
//
//safety:7 a certificate of a node that was forgotten, also a stolen one, also in a call that had begun, also after the node has joined again
func TestForgottenCertificates(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	d.wall = time.Now() // certificates go by that
	authority, err := pki.OpenAuthority(t.TempDir())
	wants(t, "an authority", err, nil)
	d.enrolls(authority, nil)
	join := func(token string) (*agentv1.Certificate, error) {
		return d.enroll.Join(t.Context(), &agentv1.JoinRequest{Name: "n9", Token: token, Csr: request(t, "n9")})
	}
	token := func() string {
		t.Helper()
		answer, err := d.agents.CreateJoinToken(root, &pb.CreateJoinTokenRequest{Name: "n9"})
		wants(t, "a token", err, nil)
		return answer.GetToken()
	}
	given, err := join(token())
	wants(t, "join", err, nil)
	stolen, asStolen := bearer(t, given)
	wants(t, "admitted", enroll.Admit(d.ledger, stolen), nil)
	unused := token()

	d.pass(time.Minute)
	wants(t, "forget one that was never heard of", second(d.agents.ForgetAgent(root, &pb.ForgetAgentRequest{Name: "n9"})), nil)
	wants(t, "forgotten", enroll.Admit(d.ledger, stolen), mover.ErrPermission)
	renew := func(ctx context.Context) (*agentv1.Certificate, error) {
		return d.enroll.Renew(ctx, &agentv1.RenewRequest{Csr: request(t, "n9")})
	}
	wants(t, "it renews", second(renew(asStolen)), mover.ErrPermission)
	hello := &agentv1.Status{Hello: &agentv1.Hello{Name: "n9"}}
	wants(t, "it attends", d.agents.connect(asStolen, "n9", hello, make(chan *agentv1.Order, 9), func() {}), mover.ErrPermission)
	wants(t, "a token from before", second(join(unused)), mover.ErrPermission)
	if names := d.names(); len(names) != 2 {
		t.Errorf("agents: %v", names)
	}

	given, err = join(token())
	wants(t, "it joins again", err, nil)
	own, asOwn := bearer(t, given)
	given, err = renew(asOwn)
	wants(t, "and renews", err, nil)
	renewed, _ := bearer(t, given)
	d.close()
	d.open()
	d.enrolls(authority, nil)
	for _, id := range []pki.Identity{own, renewed} {
		wants(t, "what it was given since", enroll.Admit(d.ledger, id), nil)
	}
	wants(t, "what was stolen", enroll.Admit(d.ledger, stolen), mover.ErrPermission)
	wants(t, "another node", enroll.Admit(d.ledger, pki.Identity{Role: pki.Agent, Name: "n8", Serial: "1"}), nil)
	wants(t, "a person of that name", enroll.Admit(d.ledger, pki.Identity{Role: pki.User, Name: "n9", Serial: "1"}), nil)

	d.pass(pki.AgentLife + enroll.ForgottenSpare - time.Hour)
	wants(t, "sweep", d.enroll.EndForgotten(t.Context()), nil)
	wants(t, "what was stolen, long ago", enroll.Admit(d.ledger, stolen), mover.ErrPermission)
	d.pass(2 * time.Hour)
	wants(t, "sweep", d.enroll.EndForgotten(t.Context()), nil)
	wants(t, "is remembered no longer than it has to be", d.ledger.View(func(tx *state.Tx) error {
		_, err := state.Forgotten.Get(tx, "n9")
		return err
	}), mover.ErrNotExist)
}

// TestLacks: an agent that does not have all tiers in its configuration is shown with those that it lacks, and is told of them when it attends, and when the configuration of the service gets another one.
func TestLacks(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	hello := func(tiers ...string) *agentv1.Status {
		h := &agentv1.Hello{Name: "n9", Reaches: []*agentv1.Reach{{}}}
		for _, tier := range tiers {
			h.Reaches = append(h.Reaches, &agentv1.Reach{Tier: tier})
		}
		return &agentv1.Status{Hello: h}
	}
	all := slices.Sorted(maps.Keys(d.conf.Tiers))
	if len(all) < 2 {
		t.Fatal(all)
	}
	for name, row := range map[string]struct{ reaches, lacks []string }{"none": {nil, all}, "one": {all[:1], all[1:]}, "all": {all, nil}} {
		orders := make(chan *agentv1.Order, 9)
		wants(t, "it attends", d.agents.connect(asAgent("n9"), "n9", hello(row.reaches...), orders, func() {}), nil)
		var told []string
		for len(orders) > 0 {
			told = append(told, (<-orders).GetLacks().GetTiers()...)
		}
		d.scheduler.mu.Lock()
		shown := d.agents.viewAgent(d.scheduler.agents["n9"]).GetLacks()
		d.scheduler.mu.Unlock()
		if !slices.Equal(told, row.lacks) || !slices.Equal(shown, row.lacks) {
			t.Errorf("%s: told %q, shown %q, want %q", name, told, shown, row.lacks)
		}
	}
	orders := make(chan *agentv1.Order, 9)
	wants(t, "it attends", d.agents.connect(asAgent("n9"), "n9", hello(all...), orders, func() {}), nil)
	more := site()
	more.Tiers["new"] = config.Tier{Level: "warm", Path: "/new"}
	d.conf = more
	var told []string
	for range 2 {
		d.scheduler.tellLimits() // each second, and with a reload
		for len(orders) > 0 {
			told = append(told, (<-orders).GetLacks().GetTiers()...)
		}
	}
	if !slices.Equal(told, []string{"new"}) {
		t.Errorf("after a reload with a new tier: told %q", told)
	}
}
