package kubeauth

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"datamove.dev/mover"
)

// DefaultAudience is what tokens of agents are for.
const DefaultAudience = "datamove"

// nodeKey is where the server says on which node the pod of a token runs: since Kubernetes 1.32, of
// every token that the kubelet gives a pod.
const nodeKey = "authentication.kubernetes.io/node-name"

const (
	accountPrefix = "system:serviceaccount:"
	maxToken      = 16 << 10
	reviews       = 8 // at a time: every peer that can reach us can cause one
)

// review is a TokenReview of authentication.k8s.io/v1.
type review struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"`
	Spec       reviewSpec   `json:"spec"`
	Status     reviewStatus `json:"status,omitzero"`
}

type reviewSpec struct {
	Token     string   `json:"token"`
	Audiences []string `json:"audiences"`
}

type reviewStatus struct {
	Authenticated bool     `json:"authenticated"`
	Error         string   `json:"error"`
	Audiences     []string `json:"audiences"`
	User          struct {
		Username string              `json:"username"`
		Extra    map[string][]string `json:"extra"`
	} `json:"user"`
}

// Voucher says of which node a token is.
type Voucher struct {
	client   *Client
	audience string
	username string
	slots    chan struct{}
}

// NewVoucher makes one that believes tokens of a ServiceAccount, as NAMESPACE/NAME. An audience of ""
// is DefaultAudience.
func NewVoucher(c *Client, account, audience string) (*Voucher, error) {
	namespace, name, ok := strings.Cut(account, "/")
	if !ok || namespace == "" || name == "" || strings.ContainsAny(account, ":") || strings.Contains(name, "/") {
		return nil, fmt.Errorf("%w: the ServiceAccount is %s: it has to be NAMESPACE/NAME", mover.ErrUsage, mover.Printable(account))
	}
	return &Voucher{c, cmp.Or(audience, DefaultAudience), accountPrefix + namespace + ":" + name, make(chan struct{}, reviews)}, nil
}

// Node returns the node on which the pod runs that a token was given to.
func (v *Voucher) Node(ctx context.Context, token string) (string, error) {
	if strings.Count(token, ".") != 2 || len(token) > maxToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%w: this is no token of a ServiceAccount", mover.ErrPermission)
	}
	select {
	case v.slots <- struct{}{}:
		defer func() { <-v.slots }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	ask := review{"authentication.k8s.io/v1", "TokenReview", reviewSpec{token, []string{v.audience}}, reviewStatus{}}
	var answer review
	if err := v.client.call(ctx, http.MethodPost, "/apis/authentication.k8s.io/v1/tokenreviews", "application/json", ask, &answer); err != nil {
		return "", err
	}
	if answer.Kind != ask.Kind || answer.APIVersion != ask.APIVersion {
		return "", fmt.Errorf("%w: the API server answers with a %s of %s", mover.ErrTransient, mover.Printable(answer.Kind), mover.Printable(answer.APIVersion))
	}
	return v.judge(answer.Status)
}

// judge believes a server that was asked, or says what is missing.
func (v *Voucher) judge(s reviewStatus) (string, error) {
	deny := func(format string, args ...any) (string, error) {
		return "", mover.Errorf(mover.ErrPermission, format, args...)
	}
	nodes := s.User.Extra[nodeKey]
	switch {
	case !s.Authenticated:
		return deny("the API server does not take this token: %s", mover.Printable(cmp.Or(s.Error, "it says no more")))
	case s.Error != "":
		return deny("the API server is not sure of this token: %s", mover.Printable(s.Error))
	case !slices.Contains(s.Audiences, v.audience): // a server that knows no audiences names none
		return deny("this token is not for the audience %s", v.audience)
	case s.User.Username != v.username:
		return deny("this token is of %s, and agents are %s", mover.Printable(s.User.Username), v.username)
	case len(nodes) != 1 || nodes[0] == "":
		return deny("the API server does not say on which node the pod of this token runs: that takes Kubernetes 1.32, and a token that the kubelet gave to the pod")
	}
	return nodes[0], nil
}
