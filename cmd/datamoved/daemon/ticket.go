package daemon

import (
	"context"
	"errors"
	"os"

	"datamove.dev/mover"
	"datamove.dev/mover/server/pki"
)

// ticket is with what a node joins: a token of the service, once, or one by which Kubernetes says where
// a pod runs, as often as it has to.
type ticket struct {
	pin    pki.Pin // of the coordinator's authority: no other server gets a request
	id     string  // is stored after joining: the same ticket is not needed again
	again  bool    // it may be used more than once
	advice string  // when it is refused
	text   func() (string, error)
}

// ticketFor is with what a node is to join.
func (a *app) ticketFor(node, target string) (ticket, error) {
	text, err := a.joinToken()
	if err != nil {
		return ticket{}, err
	}
	if text == "" {
		return ticket{}, &advised{mover.Misusef("node %s has no certificate that is good, and needs a token to join %s", node, target),
			newToken(node)}
	}
	if a.flags.authority != "" && !pki.IsToken(text) {
		return a.podTicket()
	}
	token, err := pki.ParseToken(text)
	if err == nil && token.Name != node {
		err = mover.Misusef("the token is for node %s, and this is %s: --node %[1]s, or another token", token.Name, node)
	}
	return ticket{pin: token.Pin, id: token.ID(), advice: newToken(node), text: func() (string, error) { return token.Text(), nil }}, err
}

// podTicket is that of a pod: the kubelet renews its token in the file, and the coordinator may write another pin.
func (a *app) podTicket() (ticket, error) {
	text, err := os.ReadFile(a.flags.authority)
	if err != nil {
		return ticket{}, err
	}
	pin, err := pki.ParsePin(string(text))
	advice := "join.kubernetes in the coordinator's configuration: the ServiceAccount of this pod has to be the one there"
	return ticket{pin: pin, id: "pod of " + pin.String(), again: true, advice: advice, text: a.joinToken}, err
}

// sameTicket says whether a node has its certificate by a ticket already. One that is new
// is there because the service has forgotten the node, or is another one, and refuses what
// it has.
func sameTicket(joinedWith string, t ticket) bool {
	id, err := os.ReadFile(joinedWith)
	return err == nil && string(id) == t.id
}

// errNoAgain: a token of the service is good once.
var errNoAgain = errors.New("it needs a new token")

// joinAgain gets another certificate for a node that is refused with the one it has.
func (a *app) joinAgain(ctx context.Context, h *host, keeper *pki.Store, target string) error {
	t, err := a.ticketFor(h.at.node, target)
	if err != nil || !t.again {
		return errNoAgain
	}
	return join(ctx, h, keeper, t, target)
}
