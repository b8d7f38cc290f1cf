package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/server/osaccount"
	"datamove.dev/test/must"
)

// Who somebody is depends on where the call comes from, and on nothing that it says.
func TestWhoCalls(t *testing.T) {
	r := newRig(t)
	for name, row := range map[string]struct {
		call func() error
		want authz.Caller
	}{
		"the kernel knows who is on the socket": {
			func() error { _, err := info(r.dial(nil)); return err },
			authz.Caller{Name: "ada", UID: 61001, Groups: []string{"vision"}, Via: authz.Local},
		},
		"also by HTTP": {
			func() error { return get(r.overSocket(), "http://localhost/v1/info", 200) },
			authz.Caller{Name: "ada", UID: 61001, Groups: []string{"vision"}, Via: authz.Local},
		},
		"a certificate is a person's": {
			func() error { _, err := info(r.dial(r.user("laptop"))); return err },
			authz.Caller{Name: "ada", UID: 61001, Groups: []string{"vision"}, Via: authz.Certificate},
		},
		"also by HTTP over TLS": {
			func() error { return get(r.overTLS(r.user("laptop")), "https://node-0/v1/info", 200) },
			authz.Caller{Name: "ada", UID: 61001, Groups: []string{"vision"}, Via: authz.Certificate},
		},
		"an agent asks for somebody": {
			func() error { return as(r, r.dial(r.agent("n1")), said{Name: "eve", UID: 7, Groups: []string{"g"}}) },
			authz.Caller{Name: "eve", UID: 7, Groups: []string{"g"}, Via: authz.Forwarded, Agent: "n1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			must.Do(t, row.call())
			got := r.desk.take()
			if len(got) != 1 || !same(got[0], row.want) {
				t.Errorf("the service saw %+v, want %+v", got, row.want)
			}
		})
	}
}

func same(a, b authz.Caller) bool {
	return a.Name == b.Name && a.UID == b.UID && a.Via == b.Via && a.Agent == b.Agent && strings.Join(a.Groups, " ") == strings.Join(b.Groups, " ")
}

// as asks for the service's facts with what an agent says.
func as(r *rig, conn grpc.ClientConnInterface, s said) error {
	r.t.Helper()
	text := must.Get(s.encode())(r.t)
	return asIs(conn, text)
}

func asIs(conn grpc.ClientConnInterface, text string) error {
	ctx := metadata.AppendToOutgoingContext(context.Background(), behalfKey, text)
	_, err := datamovev1.NewAdminServiceClient(conn).GetInfo(ctx, &datamovev1.GetInfoRequest{})
	return err
}

// get asks by HTTP and compares the status.
func get(c *http.Client, url string, want int) error {
	_, err := fetch(c, http.MethodGet, url, "", want)
	return err
}

func fetch(c *http.Client, method, url, body string, want int) (string, error) {
	q, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	if body != "" {
		q.Header.Set("Content-Type", "application/json")
	}
	a, err := c.Do(q)
	if err != nil {
		return "", err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err == nil && a.StatusCode != want {
		err = errors.New(method + " " + url + ": " + a.Status + " " + string(text))
	}
	return string(text), err
}

// The agent of this very process calls without leaving it.
func TestOwnAgent(t *testing.T) {
	r := newRig(t)
	conn := inner(t, r.AgentDialer("node-0"))
	if _, err := confirm(conn); err != nil {
		t.Fatal(err)
	}
	if got := r.desk.take(); len(got) != 1 || !same(got[0], authz.Caller{Via: authz.Agent, Agent: "node-0"}) {
		t.Errorf("the service saw %+v", got)
	}
	if _, err := info(conn); status.Code(err) != codes.PermissionDenied {
		t.Errorf("an agent may for itself: %v", err)
	}
}

// What a caller says about itself changes nothing, and is written down.
func TestForgery(t *testing.T) {
	r := newRig(t)
	r.accounts.set(bob, nil)
	root := must.Get(said{Name: "root", UID: 0, Via: authz.Local}.encode())(t)
	for name, lie := range map[string]struct {
		key, value string
	}{
		"for root": {behalfKey, root}, "is root": {callerKey, root}, "nonsense": {behalfKey, "{"},
		"is nobody": {callerKey, `{"via":"agent","agent":"n9"}`},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := metadata.AppendToOutgoingContext(context.Background(), lie.key, lie.value)
			_, err := datamovev1.NewAdminServiceClient(r.dial(nil)).GetInfo(ctx, &datamovev1.GetInfoRequest{})
			must.Do(t, err)
			if got := r.desk.take(); len(got) != 1 || got[0].UID != bob.UID || got[0].Via != authz.Local {
				t.Errorf("the service saw %+v, not bob", got)
			}
			all := r.records.take()
			if len(all) != 1 || all[0].Allowed || all[0].UID != bob.UID || !strings.Contains(all[0].Reason, "ignored") {
				t.Errorf("recorded: %+v", all)
			}
		})
	}
	t.Run("in a header", func(t *testing.T) {
		q, _ := http.NewRequest(http.MethodGet, "http://localhost/v1/info", nil)
		for _, key := range []string{behalfKey, callerKey} {
			q.Header.Set("Grpc-Metadata-"+key, root)
			q.Header.Set(key, root)
		}
		a := must.Get(r.overSocket().Do(q))(t)
		_ = a.Body.Close()
		if got := r.desk.take(); len(got) != 1 || got[0].UID != bob.UID {
			t.Errorf("the service saw %+v, not bob", got)
		}
	})
	t.Run("an agent about who it is", func(t *testing.T) {
		ctx := metadata.AppendToOutgoingContext(context.Background(), callerKey, root)
		_, err := datamovev1.NewAdminServiceClient(r.dial(r.agent("n1"))).GetInfo(ctx, &datamovev1.GetInfoRequest{})
		if status.Code(err) != codes.PermissionDenied || len(r.desk.take()) != 0 {
			t.Errorf("got %v", err)
		}
	})
	t.Run("two of an agent", func(t *testing.T) {
		ctx := metadata.AppendToOutgoingContext(context.Background(), behalfKey, root, behalfKey, root)
		_, err := datamovev1.NewAdminServiceClient(r.dial(r.agent("n1"))).GetInfo(ctx, &datamovev1.GetInfoRequest{})
		if status.Code(err) != codes.InvalidArgument || len(r.desk.take()) != 0 {
			t.Errorf("got %v", err)
		}
	})
}

// An agent speaks for people, not as an administrator, and not for other agents.
func TestForwardedIsNoAdministrator(t *testing.T) {
	r := newRig(t)
	root, _ := said{Name: "root", UID: 0, Via: authz.Local}.encode()
	ctx := metadata.AppendToOutgoingContext(context.Background(), behalfKey, root)
	_, err := datamovev1.NewAdminServiceClient(r.dial(r.agent("n1"))).Reload(ctx, &datamovev1.ReloadRequest{})
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("an agent had the service reload: %v", err)
	}
}

// Who can not be asked for is nobody, and hears why.
func TestUnknownAccount(t *testing.T) {
	r := newRig(t)
	r.accounts.set(osaccount.Account{}, errors.New("NSS is away"))
	_, err := info(r.dial(nil))
	if err == nil || !strings.Contains(err.Error(), "NSS is away") {
		t.Errorf("got %v", err)
	}
	if all := r.records.take(); len(all) != 1 || all[0].Allowed {
		t.Errorf("recorded: %+v", all)
	}
}

// A certificate counts as long as the configuration says whose it is, and nobody
// has revoked it; a connection that is there already does not help.
func TestCertificateIsAskedAgain(t *testing.T) {
	r := newRig(t)
	laptop, node := r.dial(r.user("laptop")), r.dial(r.agent("n1"))
	if _, err := info(laptop); err != nil {
		t.Fatal(err)
	}
	if _, err := confirm(node); err != nil {
		t.Fatal(err)
	}
	without := input()
	without.Users = nil
	r.configure(without)
	r.revoke("n1")
	if _, err := info(laptop); status.Code(err) != codes.PermissionDenied {
		t.Errorf("nobody's certificate: %v", err)
	}
	if _, err := confirm(node); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("a revoked certificate: %v", err)
	}
	r.desk.take()
	r.records.take()
	if err := as(r, node, said{Name: "bob", UID: 61002}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a revoked agent, for somebody: %v", err)
	}
	if calls := r.desk.take(); len(calls) != 0 {
		t.Errorf("the service saw %+v", calls)
	}
	if all := r.records.take(); len(all) != 1 || all[0].Allowed || all[0].HasUID || !strings.Contains(all[0].Reason, "revoked") {
		t.Errorf("recorded: %+v", all)
	}
}

func TestAlive(t *testing.T) {
	r := newRig(t)
	for range 2 {
		must.Tell(t, r.Alive(t.Context()))
	}
	r.health.Shutdown()
	if err := r.Alive(t.Context()); !errors.Is(err, mover.ErrTransient) {
		t.Errorf("not serving: %v", err)
	}
}
