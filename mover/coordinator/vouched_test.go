package coordinator

import (
	"context"
	"fmt"
	"testing"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/enroll"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/server/pki"
)

// nodes vouches for tokens "of NODE", unless it can not say.
type nodes struct{ down bool }

func (n *nodes) Node(_ context.Context, token string) (string, error) {
	var node string
	switch _, err := fmt.Sscanf(token, "of %s", &node); {
	case n.down:
		return "", mover.ErrTransient
	case err != nil:
		return "", mover.ErrPermission
	}
	return node, nil
}

// TestVouched: a node for which somebody vouches joins as itself, again and again, and as nobody else. Who is not
// vouched for does not join, and one that was cut off does not until it is invited.
//
//safety:7 a pod that would be the agent of another node, or says its token to another service; a node that was cut off, and for which Kubernetes goes on to vouch
func TestVouched(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	d.wall = time.Now()
	authority, err := pki.OpenAuthority(t.TempDir())
	wants(t, "an authority", err, nil)
	d.enrolls(authority, nil)
	join := func(name, token string) (*agentv1.Certificate, error) {
		return d.enroll.Join(t.Context(), &agentv1.JoinRequest{Name: name, Token: token, Csr: request(t, name)})
	}
	wants(t, "nobody vouches", second(join("n9", "of n9")), mover.ErrUsage)
	others := &nodes{}
	d.enrolls(authority, others.Node)

	first, err := join("n9", "of n9")
	wants(t, "join", err, nil)
	id, _ := bearer(t, first)
	if id.Name != "n9" || id.Role != pki.Agent {
		t.Errorf("it is %v", id)
	}
	again, err := join("n9", "of n9")
	wants(t, "again", err, nil)
	for _, c := range []*agentv1.Certificate{first, again} {
		id, _ := bearer(t, c)
		wants(t, "admitted", enroll.Admit(d.ledger, id), nil)
	}
	for name, token := range map[string]string{"n8": "of n9", "": "of n9", "N9": "of n9", "n9": "anything else", "n7": "", "n6": "dmj1.n6.aaaa"} {
		if c, err := join(name, token); err == nil || c != nil {
			t.Errorf("%q joins with %q: %v, %v", name, token, c, err)
		}
	}
	wants(t, "a name that is none", second(join("a/b", "of a/b")), mover.ErrUsage)
	others.down = true
	wants(t, "nobody can say", second(join("n9", "of n9")), mover.ErrTransient)
	others.down = false
	for _, name := range []string{"n8", "N9", "n7", "n6"} {
		wants(t, "a record of "+name, d.ledger.View(func(tx *state.Tx) error { return second(state.Agents.Get(tx, name)) }), mover.ErrNotExist)
	}

	forget := func(revoke bool) {
		t.Helper()
		wants(t, "forget", second(d.agents.ForgetAgent(root, &pb.ForgetAgentRequest{Name: "n9", Revoke: revoke})), nil)
		wants(t, "what it was given", enroll.Admit(d.ledger, id), mover.ErrPermission)
	}
	forget(false)
	wants(t, "it is there again", second(join("n9", "of n9")), nil)
	forget(true)
	wants(t, "cut off", second(join("n9", "of n9")), mover.ErrPermission)
	d.pass(pki.AgentLife + enroll.ForgottenSpare + time.Hour)
	wants(t, "sweep", d.enroll.EndForgotten(t.Context()), nil)
	wants(t, "still", second(join("n9", "of n9")), mover.ErrPermission)
	wants(t, "another one", second(join("n8", "of n8")), nil)
	wants(t, "invited", second(d.agents.CreateJoinToken(root, &pb.CreateJoinTokenRequest{Name: "n9"})), nil)
	wants(t, "it joins", second(join("n9", "of n9")), nil)
}
