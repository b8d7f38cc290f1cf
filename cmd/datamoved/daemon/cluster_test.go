package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/server/kubeauth/apitest"
	"datamove.dev/test/must"
)

// clusterOf is a coordinator in a cluster, and the API server of that.
func clusterOf(t *testing.T) (p *program, head *api.Client, server *apitest.Server) {
	t.Helper()
	server = apitest.New(t)
	p, head, _ = headOf(t, `roles: {nodes: {members: [root], may: [task.*]}}
scrape: 127.0.0.1:0
join:
  kubernetes: {service_account: datamove/agent, config_map: datamove/authority, server: "`+server.URL+`", ca: `+server.CA+`, token: `+server.Token+`}
`)
	p.eventually("the pin is written", func() bool { return server.Pin() != "" })
	return p, head, server
}

// podOf is the agent of a pod: its directory has what is mounted there.
func podOf(t *testing.T, dir, address, node, pin, token string) *program {
	t.Helper()
	for name, text := range map[string]string{"pin": pin, "pod-token": token} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return launch(t, dir, "--join", address, "--node", node, "--token-file", filepath.Join(dir, "pod-token"), "--authority-file", filepath.Join(dir, "pin"))
}

func issue(s *apitest.Server, token, node string) {
	s.Issue(token, apitest.Token{Username: "system:serviceaccount:datamove:agent", Audiences: []string{"datamove"}, Extra: apitest.On(node)})
}

func (p *program) stop(t *testing.T) {
	t.Helper()
	p.signal(syscall.SIGTERM)
	if code := p.code(); code != 0 {
		t.Errorf("it ended with %d: %s", code, p.log)
	}
}

// A pod joins with what Kubernetes says of it, without anybody's doing: at first, when its certificate is
// lost, and when the token in its file is another one.
func TestJoinByKubernetes(t *testing.T) {
	coordinator, head, server := clusterOf(t)
	address := coordinator.addressOf()
	issue(server, "h.p.first", "n1")
	node := podOf(t, shortDir(t), address, "n1", server.Pin()+"\n", "h.p.first\n")
	doWork(t, node, node.started())
	l, err := head.ListAgents(t.Context(), &datamovev1.ListAgentsRequest{})
	if err != nil || len(l.GetAgents()) != 1 || l.GetAgents()[0].GetName() != "n1" {
		t.Errorf("%v, %v", l, err)
	}
	node.stop(t)

	asked := server.Asked()
	server.Revoke("h.p.first") // the pod is gone, and the next one has another token
	issue(server, "h.p.second", "n1")
	node = podOf(t, node.dir, address, "n1", server.Pin(), "h.p.second")
	doWork(t, node, node.started())
	if server.Asked() != asked {
		t.Errorf("with a certificate that is good it joined anew: %d, %d", asked, server.Asked())
	}
	node.stop(t)
	must.Do(t, os.RemoveAll(filepath.Join(node.dir, "data", "identity")))
	node = podOf(t, node.dir, address, "n1", server.Pin(), "h.p.second")
	doWork(t, node, node.started())
	for _, p := range []*program{coordinator, node} {
		if strings.Contains(p.log.String(), "h.p.") {
			t.Errorf("a token is in the log: %s", p.log)
		}
	}
}

// Who is not what it says does not join, and says to nobody else what it is.
//
//safety:7 with mover/coordinator TestVouched
func TestNoJoinByKubernetes(t *testing.T) {
	coordinator, head, server := clusterOf(t)
	other, _, _ := pairOf(t)
	address := coordinator.addressOf()
	issue(server, "h.p.n1", "n1")
	server.Issue("h.p.other", apitest.Token{Username: "system:serviceaccount:team:agent", Audiences: []string{"datamove"}, Extra: apitest.On("n2")})
	wrong := "aaaa" + server.Pin()[4:]
	for name, row := range map[string]struct {
		address, node, pin, token string
		code                      int
		says                      string
	}{
		"as another node":    {address, "n2", server.Pin(), "h.p.n1", 4, "the token is of a pod on node n1"},
		"of another account": {address, "n2", server.Pin(), "h.p.other", 4, "agents are system:serviceaccount:datamove:agent"},
		"made up":            {address, "n2", server.Pin(), "h.p.x", 4, "does not take this token"},
		"another service":    {other.addressOf(), "n1", server.Pin(), "h.p.n1", 4, "not the service that we know"},
		"another pin":        {address, "n1", wrong, "h.p.n1", 4, "not the service that we know"},
		"half a pin":         {address, "n1", server.Pin()[:20], "h.p.n1", 2, "a pin has 52"},
		"no token":           {address, "n1", server.Pin(), "", 2, "needs a token"},
	} {
		t.Run(name, func(t *testing.T) {
			p := podOf(t, shortDir(t), row.address, row.node, row.pin, row.token)
			if code := p.code(); code != row.code || !strings.Contains(p.log.String(), row.says) {
				t.Errorf("exit %d: %s", code, p.log)
			}
		})
	}
	l, err := head.ListAgents(t.Context(), &datamovev1.ListAgentsRequest{})
	if err != nil || len(l.GetAgents()) != 0 {
		t.Errorf("%v, %v", l, err)
	}
}

// An agent waits for an API server that is away, as for its coordinator; one that is forgotten joins again by
// itself, and one that was cut off does not.
func TestJoinByKubernetesLater(t *testing.T) {
	coordinator, head, server := clusterOf(t)
	server.Down(503)
	issue(server, "h.p.n1", "n1")
	node := podOf(t, shortDir(t), coordinator.addressOf(), "n1", server.Pin(), "h.p.n1")
	node.eventually("it waits", func() bool { return strings.Contains(node.log.String(), "will try again") })
	server.Down(0)
	node.started()
	ready := func() bool {
		l, err := head.ListAgents(t.Context(), &datamovev1.ListAgentsRequest{})
		return err == nil && len(l.GetAgents()) == 1 && l.GetAgents()[0].GetState() == datamovev1.AgentState_AGENT_STATE_READY
	}
	node.eventually("the coordinator sees it", ready)
	node.stop(t)
	coordinator.eventually("it sees that the agent is gone, and forgets it", func() bool {
		_, err := head.ForgetAgent(t.Context(), &datamovev1.ForgetAgentRequest{Name: "n1"})
		return err == nil
	})
	node = podOf(t, node.dir, coordinator.addressOf(), "n1", server.Pin(), "h.p.n1")
	node.eventually("it is there again", ready)
	if _, err := head.ForgetAgent(t.Context(), &datamovev1.ForgetAgentRequest{Name: "n1", Revoke: true}); err != nil {
		t.Fatal(err)
	}
	node.stop(t)
	node = podOf(t, node.dir, coordinator.addressOf(), "n1", server.Pin(), "h.p.n1")
	node.eventually("it stays out", func() bool {
		return strings.Contains(node.log.String(), "was cut off") && strings.Contains(node.log.String(), "this node is refused")
	})
	node.stop(t)
	if _, err := head.CreateJoinToken(t.Context(), &datamovev1.CreateJoinTokenRequest{Name: "n1"}); err != nil {
		t.Fatal(err)
	}
	node = podOf(t, node.dir, coordinator.addressOf(), "n1", server.Pin(), "h.p.n1")
	node.eventually("it was invited", ready)
}

// What has no sense is said at the start.
func TestClusterConfiguration(t *testing.T) {
	for name, row := range map[string]struct{ conf, listen, says string }{
		"no TCP":       {"join: {kubernetes: {service_account: a/b}}\n", "", "needs a tcp:// address"},
		"not in a pod": {"join: {kubernetes: {service_account: a/b}}\n", "tcp://127.0.0.1:0", "the server has to be named"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := shortDir(t)
			file := filepath.Join(dir, "c.yaml")
			must.Do(t, os.WriteFile(file, []byte(row.conf), 0o600))
			args := []string{"--no-agent", "--config", file}
			if row.listen != "" {
				args = append(args, "--listen", row.listen)
			}
			p := launch(t, dir, args...)
			if code := p.code(); code != 2 || !strings.Contains(p.log.String(), row.says) {
				t.Errorf("exit %d: %s", code, p.log)
			}
		})
	}
}
