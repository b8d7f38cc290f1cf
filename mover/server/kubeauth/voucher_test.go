package kubeauth

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/server/kubeauth/apitest"
	"datamove.dev/test/must"
)

const agent = "system:serviceaccount:datamove:datamove-agent"

func optionsOf(s *apitest.Server) Options { return Options{Server: s.URL, CA: s.CA, Token: s.Token} }

func clientOf(t *testing.T, s *apitest.Server) *Client {
	t.Helper()
	c := must.Get(New(optionsOf(s)))(t)
	t.Cleanup(c.Close)
	return c
}

func voucher(t *testing.T, s *apitest.Server) *Voucher {
	t.Helper()
	v := must.Get(NewVoucher(clientOf(t, s), "datamove/datamove-agent", ""))(t)
	return v
}

// Who is believed, and who is not.
//
//safety:7 tokens of Kubernetes for another audience, of another ServiceAccount, of no node, that ended or were made up; an API server that is away, refuses us, or is another one
func TestVoucher(t *testing.T) {
	ours := []string{"datamove"}
	for name, row := range map[string]struct {
		token apitest.Token
		node  string
		says  string // of the denial
	}{
		"an agent":                         {apitest.Token{Username: agent, Audiences: ours, Extra: apitest.On("n1")}, "n1", ""},
		"for others, too":                  {apitest.Token{Username: agent, Audiences: []string{"vault", "datamove"}, Extra: apitest.On("n1")}, "n1", ""},
		"another audience":                 {apitest.Token{Username: agent, Audiences: []string{"vault"}, Extra: apitest.On("n1")}, "", "invalid for the target audiences"},
		"no audience":                      {apitest.Token{Username: agent, Extra: apitest.On("n1")}, "", "not for the audience datamove"},
		"another ServiceAccount":           {apitest.Token{Username: "system:serviceaccount:datamove:default", Audiences: ours, Extra: apitest.On("n1")}, "", "agents are " + agent},
		"the same name elsewhere":          {apitest.Token{Username: "system:serviceaccount:team:datamove-agent", Audiences: ours, Extra: apitest.On("n1")}, "", "this token is of"},
		"a person":                         {apitest.Token{Username: "datamove-agent", Audiences: ours, Extra: apitest.On("n1")}, "", "this token is of"},
		"a node":                           {apitest.Token{Username: "system:node:n1", Audiences: ours, Extra: apitest.On("n1")}, "", "this token is of"},
		"made by hand, bound to no pod":    {apitest.Token{Username: agent, Audiences: ours}, "", "does not say on which node"},
		"of two nodes":                     {apitest.Token{Username: agent, Audiences: ours, Extra: apitest.On("n1", "n2")}, "", "does not say on which node"},
		"of a node without a name":         {apitest.Token{Username: agent, Audiences: ours, Extra: apitest.On("")}, "", "does not say on which node"},
		"it has ended, or its pod is gone": {apitest.Token{Username: agent, Audiences: ours, Extra: apitest.On("n1"), Expired: true}, "", "has expired"},
	} {
		t.Run(name, func(t *testing.T) {
			s := apitest.New(t)
			s.Issue("h.p.s", row.token)
			node, err := voucher(t, s).Node(t.Context(), "h.p.s")
			if node != row.node || (err == nil) != (row.says == "") {
				t.Fatalf("%q, %v", node, err)
			}
			if err != nil && (!errors.Is(err, mover.ErrPermission) || !strings.Contains(err.Error(), row.says)) {
				t.Errorf("%v", err)
			}
		})
	}
}

// What is no token is not asked about.
func TestNoToken(t *testing.T) {
	s := apitest.New(t)
	v := voucher(t, s)
	for _, text := range []string{"", "x", "a.b", "a.b.c.d", "dmj1.n1.aaaa.b.c", "a.b.\n", "a.b.c d", "a.b.\x00", strings.Repeat("x", maxToken) + ".b.c"} {
		if node, err := v.Node(t.Context(), text); node != "" || !errors.Is(err, mover.ErrPermission) {
			t.Errorf("%.20q: %q, %v", text, node, err)
		}
	}
	if s.Asked() != 0 {
		t.Errorf("the server was asked %d times", s.Asked())
	}
	if _, err := v.Node(t.Context(), "not.known.there"); !errors.Is(err, mover.ErrPermission) || s.Asked() != 1 {
		t.Errorf("%v, %d", err, s.Asked())
	}
}

// A server that can not be asked, or that is none, lets nobody in; and whoever waits may come again.
//
//safety:7 with TestVoucher
func TestServerDown(t *testing.T) {
	for name, breaks := range map[string]func(*apitest.Server){
		"unwell":                 func(s *apitest.Server) { s.Down(500) },
		"busy":                   func(s *apitest.Server) { s.Down(429) },
		"elsewhere":              func(s *apitest.Server) { s.Down(307) },
		"we have no rights":      func(s *apitest.Server) { s.Down(403) },
		"our token is not good":  func(s *apitest.Server) { s.Forget() },
		"another kind of answer": func(s *apitest.Server) { s.Odd(`{"kind":"Pod","apiVersion":"v1","status":{"authenticated":true}}`) },
		"no kind": func(s *apitest.Server) {
			s.Odd(`{"status":{"authenticated":true,"audiences":["datamove"],"user":{"username":"` + agent + `","extra":{"` + nodeKey + `":["n1"]}}}}`)
		},
		"not JSON":                 func(s *apitest.Server) { s.Odd("<html>") },
		"an endless answer":        func(s *apitest.Server) { s.Odd(`{"kind":"` + strings.Repeat("x", maxAnswer) + `"}`) },
		"our token's file is gone": func(s *apitest.Server) { _ = os.Remove(s.Token) },
		"gone":                     func(s *apitest.Server) { s.CloseClientConnections(); s.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			s := apitest.New(t)
			s.Issue("h.p.s", apitest.Token{Username: agent, Audiences: []string{"datamove"}, Extra: apitest.On("n1")})
			v := voucher(t, s)
			breaks(s)
			node, err := v.Node(t.Context(), "h.p.s")
			if node != "" || !errors.Is(err, mover.ErrTransient) || errors.Is(err, mover.ErrPermission) {
				t.Errorf("%q, %v", node, err)
			}
			if err != nil && strings.Contains(err.Error(), "h.p.s") {
				t.Errorf("the token is in the error: %v", err)
			}
		})
	}
}

// Somebody in the middle hears nothing: neither our token nor that of the agent.
//
//safety:7 with TestVoucher
func TestStranger(t *testing.T) {
	stranger := apitest.New(t)
	o := optionsOf(stranger)
	o.CA = filepath.Join(t.TempDir(), "ca.crt")
	must.Do(t, os.WriteFile(o.CA, []byte(otherAuthority(t)), 0o600))
	c := must.Get(New(o))(t)
	v := must.Get(NewVoucher(c, "datamove/datamove-agent", ""))(t)
	if _, err := v.Node(t.Context(), "h.p.s"); !errors.Is(err, mover.ErrTransient) || stranger.Asked() != 0 {
		t.Errorf("%v, and it was asked %d times", err, stranger.Asked())
	}
}

// Only so many are asked about at a time, and who does not want to wait need not.
func TestCrowd(t *testing.T) {
	s := apitest.New(t)
	v := voucher(t, s)
	for range reviews {
		v.slots <- struct{}{}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := v.Node(ctx, "h.p.s"); !errors.Is(err, context.DeadlineExceeded) || s.Asked() != 0 {
		t.Errorf("%v, %d", err, s.Asked())
	}
	<-v.slots
	if _, err := v.Node(t.Context(), "h.p.s"); !errors.Is(err, mover.ErrPermission) {
		t.Errorf("%v", err)
	}
}

// A pod finds its server by its environment; what is missing or wrong is said at the start.
func TestNew(t *testing.T) {
	s := apitest.New(t)
	host, port, err := net.SplitHostPort(strings.TrimPrefix(s.URL, "https://"))
	must.Do(t, err)
	env := map[string]string{hostKey: host, portKey: port}
	o := optionsOf(s)
	o.Server, o.Getenv = "", func(k string) string { return env[k] }
	c, err := New(o)
	if err != nil || c.server != s.URL {
		t.Fatalf("%v, %v", c, err)
	}
	for name, change := range map[string]func(*Options){
		"not in a pod": func(o *Options) { o.Server, o.Getenv = "", func(string) string { return "" } },
		"no TLS":       func(o *Options) { o.Server = "http://" + host },
		"no server":    func(o *Options) { o.Server = "https://" },
		"no authority": func(o *Options) { o.CA = s.Token },
		"no such file": func(o *Options) { o.CA = s.CA + ".not" },
	} {
		o := optionsOf(s)
		change(&o)
		if _, err := New(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, account := range []string{"", "x", "/x", "x/", "a/b/c", "a:b/c"} {
		if _, err := NewVoucher(c, account, ""); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("%s: %v", account, err)
		}
	}
}

// FuzzVoucher: whatever a server answers, nobody is believed whom it does not call authenticated, for our
// audience, as that account, on one node.
//
//safety:7 with TestVoucher
func FuzzVoucher(f *testing.F) {
	f.Add(true, "", "datamove", agent, "n1", "")
	f.Add(false, "", "datamove", agent, "n1", "")
	f.Add(true, "x", "datamove", agent, "n1", "n2")
	f.Fuzz(func(t *testing.T, authenticated bool, trouble, audience, username, node, second string) {
		v := &Voucher{audience: "datamove", username: agent}
		var s reviewStatus
		s.Authenticated, s.Error, s.Audiences, s.User.Username = authenticated, trouble, []string{audience}, username
		s.User.Extra = map[string][]string{nodeKey: {node}}
		if second != "" {
			s.User.Extra[nodeKey] = []string{node, second}
		}
		got, err := v.judge(s)
		good := authenticated && trouble == "" && audience == "datamove" && username == agent && node != "" && second == ""
		if good != (err == nil) || good && got != node || !good && (got != "" || !errors.Is(err, mover.ErrPermission)) {
			t.Errorf("%+v: %q, %v", s, got, err)
		}
	})
}
