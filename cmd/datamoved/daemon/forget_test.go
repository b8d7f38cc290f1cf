package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"datamove.dev/api"
	agentv1 "datamove.dev/api/datamove/agent/v1"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/server/pki"
	"datamove.dev/test/must"
)

// asThief asks the coordinator with a copy of the identity of a node.
func asThief(t *testing.T, dir, address string) error {
	t.Helper()
	k, err := pki.OpenStore(dir, pki.Identity{Role: pki.Agent, Name: "n1"}, pki.StoreOptions{})
	must.Do(t, err)
	conn, err := api.Dial(t.Context(), address, api.Options{TLS: pki.ClientTLS(pki.ClientOptions{Authorities: k.Authorities, Certificate: k.Certificate})})
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err = agentv1.NewLinkServiceClient(conn.Conn()).Confirm(ctx, &agentv1.ConfirmRequest{Task: "t", Epoch: 1})
	return err
}

// A node that was forgotten is refused, with whatever it was given before, and whoever has
// it by now. With a new token it joins again.
//
//safety:7 with mover/coordinator TestForgottenCertificates
func TestForgottenNode(t *testing.T) {
	coordinator, head, token := pairOf(t)
	node := agentOf(t, shortDir(t), coordinator.addressOf(), token)
	c := node.started()
	agents := func() []*datamovev1.Agent {
		l, err := head.ListAgents(t.Context(), &datamovev1.ListAgentsRequest{})
		must.Tell(t, err)
		return l.GetAgents()
	}
	ready := func() bool {
		l := agents()
		return len(l) == 1 && l[0].GetState() == datamovev1.AgentState_AGENT_STATE_READY
	}
	node.eventually("it is ready", ready)
	stolen := shortDir(t)
	must.Do(t, os.CopyFS(stolen, os.DirFS(filepath.Join(node.dir, "data", "identity"))))
	must.Do(t, os.Chmod(filepath.Join(stolen, "identity.pem"), 0o600))
	if err := asThief(t, stolen, coordinator.addressOf()); !errors.Is(err, mover.ErrHeld) { // it has no such lead
		t.Fatalf("before: %v", err)
	}

	forget := &datamovev1.ForgetAgentRequest{Name: "n1"}
	if _, err := head.ForgetAgent(t.Context(), forget); !errors.Is(err, mover.ErrHeld) {
		t.Errorf("while it is connected: %v", err)
	}
	if _, err := c.ForgetAgent(t.Context(), &datamovev1.ForgetAgentRequest{Name: "n1", Revoke: true}); !errors.Is(err, mover.ErrPermission) {
		t.Errorf("asked on the node: %v", err)
	}
	forget.Revoke = true
	if _, err := head.ForgetAgent(t.Context(), forget); err != nil {
		t.Fatal(err)
	}
	if err := asThief(t, stolen, coordinator.addressOf()); err == nil || errors.Is(err, mover.ErrHeld) {
		t.Errorf("after: %v", err)
	}
	node.eventually("it hears of it", func() bool { return strings.Contains(node.log.String(), "can not be heard") })
	node.signal(syscall.SIGTERM)
	node.code()
	node = agentOf(t, node.dir, coordinator.addressOf(), token) // that it has joined with
	node.eventually("what it has is refused", func() bool { return strings.Contains(node.log.String(), "can not be heard") })
	node.eventually("it says so, and what to do", func() bool {
		return strings.Contains(node.log.String(), "forgotten or revoked") && strings.Contains(node.log.String(), "datamove agent token n1")
	})
	if l := agents(); len(l) > 0 {
		t.Errorf("it is there: %v", l)
	}
	node.signal(syscall.SIGTERM)
	node.code()

	answer := must.Get(head.CreateJoinToken(t.Context(), &datamovev1.CreateJoinTokenRequest{Name: "n1", Ttl: durationpb.New(time.Minute)}))(t)
	node = agentOf(t, node.dir, coordinator.addressOf(), answer.GetToken())
	doWork(t, node, node.started())
	node.eventually("it is ready again", ready)
	if err := asThief(t, stolen, coordinator.addressOf()); err == nil || errors.Is(err, mover.ErrHeld) {
		t.Errorf("what was stolen, when the node is there again: %v", err)
	}
	coordinator.signal(syscall.SIGKILL)
	coordinator.code()
	again := launch(t, coordinator.dir, "--listen", coordinator.addressOf(), "--no-agent")
	again.started()
	if err := asThief(t, stolen, coordinator.addressOf()); err == nil || errors.Is(err, mover.ErrHeld) {
		t.Errorf("after a kill of the coordinator: %v", err)
	}
}
