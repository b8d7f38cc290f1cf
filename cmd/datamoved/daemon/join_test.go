package daemon

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// pairOf is a coordinator that does no work, and the token of a node, on which root
// may have work done, because tests often are root.
func pairOf(t *testing.T) (p *program, c *api.Client, token string) {
	t.Helper()
	return headOf(t, "roles: {nodes: {members: [root], may: [task.*]}}\n")
}

// headOf is such a coordinator with a configuration.
func headOf(t *testing.T, conf string) (p *program, c *api.Client, token string) {
	t.Helper()
	dir := shortDir(t)
	file := filepath.Join(dir, "c.yaml")
	must.Do(t, os.WriteFile(file, []byte(conf), 0o600))
	p = launch(t, dir, "--listen", "tcp://127.0.0.1:0", "--no-agent", "--config", file)
	c = p.started()
	answer := must.Get(c.CreateJoinToken(t.Context(), &datamovev1.CreateJoinTokenRequest{Name: "n1", Ttl: durationpb.New(time.Minute)}))(t)
	return p, c, answer.GetToken()
}

// agentOf starts the agent n1 of a coordinator.
func agentOf(t *testing.T, dir, address, token string) *program {
	t.Helper()
	args := []string{"--join", address, "--node", "n1"}
	if token != "" {
		file := filepath.Join(dir, "token")
		must.Do(t, os.WriteFile(file, []byte(token+"\n"), 0o600))
		args = append(args, "--token-file", file)
	}
	return launch(t, dir, args...)
}

// A node joins with a token, once; afterwards it comes back by itself. Whoever is on it
// asks on its own socket.
func TestJoin(t *testing.T) {
	coordinator, head, token := pairOf(t)
	node := agentOf(t, shortDir(t), coordinator.addressOf(), token)
	c := node.started()
	ready := func() bool {
		l, err := head.ListAgents(t.Context(), &datamovev1.ListAgentsRequest{})
		return err == nil && len(l.GetAgents()) == 1 && l.GetAgents()[0].GetName() == "n1" &&
			l.GetAgents()[0].GetState() == datamovev1.AgentState_AGENT_STATE_READY
	}
	node.eventually("the coordinator sees the agent", ready)
	info, err := c.GetInfo(t.Context(), &datamovev1.GetInfoRequest{})
	if err != nil || info.GetCaller().GetUid() != uint32(os.Geteuid()) || info.GetAgents() != 1 {
		t.Errorf("through the node: %v, %v", info, err)
	}
	doWork(t, node, c)
	must.Tell(t, getOver(node.socket, "http://localhost/v1/info"))
	node.signal(syscall.SIGTERM)
	if code := node.code(); code != 0 {
		t.Errorf("it ended with %d", code)
	}
	again := agentOf(t, node.dir, coordinator.addressOf(), "")
	again.started()
	again.eventually("it is back", ready)
	open := shortDir(t)
	must.Do(t, os.WriteFile(filepath.Join(open, "token"), nil, 0o644)) // which keeps its mode
	used := agentOf(t, open, coordinator.addressOf(), token)
	if code := used.code(); code != 4 || !strings.Contains(used.log.String(), "datamove agent token n1") || !strings.Contains(used.log.String(), "others may read the token") {
		t.Errorf("the same token once more: exit %d: %s", code, used.log)
	}
}

// Root of a node is not root of the site: it may look, and no more.
//
//safety:7 root of a node that joined: it may look, and is not root of the site
func TestRootOfNode(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	coordinator, _, token := headOf(t, "{}\n")
	c := agentOf(t, shortDir(t), coordinator.addressOf(), token).started()
	if _, err := c.ListAgents(t.Context(), &datamovev1.ListAgentsRequest{}); err != nil {
		t.Errorf("it may not look: %v", err)
	}
	_, err := c.Submit(t.Context(), &datamovev1.SubmitTaskRequest{Spec: &datamovev1.TaskSpec{
		Kind: datamovev1.TaskKind_TASK_KIND_COPY, Source: "/etc/shadow", Target: filepath.Join(coordinator.dir, "taken")}})
	if !errors.Is(err, mover.ErrPermission) {
		t.Errorf("it may submit: %v", err)
	}
	if _, err := c.ListTasks(t.Context(), &datamovev1.ListTasksRequest{}); !errors.Is(err, mover.ErrPermission) {
		t.Errorf("it sees the tasks of root of the site: %v", err)
	}
}

// doWork has a task done that only the agent can do.
func doWork(t *testing.T, p *program, c *api.Client) {
	t.Helper()
	source, target := filepath.Join(p.dir, "a"), filepath.Join(p.dir, "b")
	must.Do(t, os.WriteFile(source, []byte("content"), 0o600))
	task, err := c.Submit(t.Context(), &datamovev1.SubmitTaskRequest{Spec: &datamovev1.TaskSpec{
		Kind: datamovev1.TaskKind_TASK_KIND_COPY, Source: source, Target: target}})
	if err == nil {
		task, err = c.Wait(t.Context(), task.GetId(), nil)
	}
	if err != nil || task.GetState() != datamovev1.TaskState_TASK_STATE_DONE {
		t.Fatalf("%v, %v", task, err)
	}
	if got, err := os.ReadFile(target); err != nil || string(got) != "content" {
		t.Errorf("%q, %v", got, err)
	}
}

func getOver(socket, url string) error {
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", strings.TrimPrefix(socket, "unix://"))
	}}
	defer tr.CloseIdleConnections()
	answer, err := (&http.Client{Transport: tr}).Get(url)
	if err != nil {
		return err
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return &net.AddrError{Err: answer.Status, Addr: url}
	}
	return nil
}

// An agent is there before its coordinator, and stays when that goes away.
func TestAgentWaits(t *testing.T) {
	coordinator, _, token := pairOf(t)
	address := coordinator.addressOf()
	coordinator.signal(syscall.SIGTERM)
	coordinator.code()
	node := agentOf(t, shortDir(t), address, token)
	node.eventually("it waits", func() bool { return strings.Contains(node.log.String(), "will try again") })
	again := launch(t, coordinator.dir, "--listen", address, "--no-agent")
	head := again.started()
	node.started()
	back := func() bool {
		l, err := head.ListAgents(t.Context(), &datamovev1.ListAgentsRequest{})
		return err == nil && len(l.GetAgents()) == 1 && l.GetAgents()[0].GetState() == datamovev1.AgentState_AGENT_STATE_READY
	}
	node.eventually("the coordinator sees the agent", back)
	again.signal(syscall.SIGKILL)
	again.code()
	third := launch(t, coordinator.dir, "--listen", address, "--no-agent")
	head = third.started()
	node.eventually("after a kill of the coordinator", back)
}

// A token is for one node, and for the service that made it.
func TestWrongToken(t *testing.T) {
	coordinator, _, token := pairOf(t)
	other, _, foreign := pairOf(t)
	_ = other
	for name, row := range map[string]struct {
		node, token string
		code        int
		says        string
	}{
		"of another service": {"n1", foreign, 4, "not the service that we know"},
		"of another node":    {"n2", token, 2, "the token is for node n1"},
		"mistyped":           {"n1", token[:len(token)-1], 2, "copy it again"},
		"none":               {"n1", "", 2, "needs a token"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := shortDir(t)
			p := launch(t, dir, "--join", coordinator.addressOf(), "--node", row.node, "--token", row.token)
			if code := p.code(); code != row.code || !strings.Contains(p.log.String(), row.says) {
				t.Errorf("exit %d: %s", code, p.log)
			}
			if strings.Contains(p.log.String(), row.token) && row.token != "" {
				t.Errorf("the token is in the log: %s", p.log)
			}
		})
	}
}

// A node that has an identity of another coordinator, or of another node, is told what to
// do; a new token is enough for it.
func TestJoinElsewhere(t *testing.T) {
	first, _, token := pairOf(t)
	node := agentOf(t, shortDir(t), first.addressOf(), token)
	node.started()
	end := func() {
		node.signal(syscall.SIGTERM)
		node.code()
	}
	says := func(parts ...string) {
		t.Helper()
		for _, part := range parts {
			node.eventually("it says "+part, func() bool { return strings.Contains(node.log.String(), part) })
		}
	}
	end()
	second, head, token := pairOf(t)
	node = agentOf(t, node.dir, second.addressOf(), "")
	says("this node is refused", "not the service that we know", "datamove agent token n1")
	end()
	node = agentOf(t, node.dir, second.addressOf(), token)
	doWork(t, node, node.started())
	says("the identity that is here is replaced", "joined")
	end()

	node = launch(t, node.dir, "--join", second.addressOf(), "--node", "n2")
	if code := node.code(); code != 5 || !strings.Contains(node.log.String(), "datamove agent token n2") {
		t.Errorf("as another node: exit %d: %s", code, node.log)
	}
	answer := must.Get(head.CreateJoinToken(t.Context(), &datamovev1.CreateJoinTokenRequest{Name: "n2", Ttl: durationpb.New(time.Minute)}))(t)
	node = launch(t, node.dir, "--join", second.addressOf(), "--node", "n2", "--token", answer.GetToken())
	node.started()
	says("the identity that is here is of no use", "joined")

	end() // nobody knows with which token it has joined, as after a crash
	must.Do(t, os.Remove(filepath.Join(node.dir, "data", "identity", "joined-with")))
	node = launch(t, node.dir, "--join", second.addressOf(), "--node", "n2", "--token", answer.GetToken())
	doWork(t, node, node.started())
	says("it goes on with the certificate that it has")
}
