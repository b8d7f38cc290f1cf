package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/server/osaccount"
	"datamove.dev/test/must"
)

var (
	root  = osaccount.Account{Name: "root"}
	slurm = osaccount.Account{UID: 64030, GID: 64030, Name: "slurm"}
)

// withSlurm is a site whose slurm may call for others, as may who has a certificate of it.
func withSlurm() authz.Input {
	in := input()
	in.UID = 990
	in.Roles["slurm"] = authz.Role{Members: []string{"slurm"}, May: []string{"person.act"}}
	in.Roles["admin"] = authz.Role{Members: []string{"bob", "carol"}, May: []string{"*"}}
	in.Users["bobs"] = "bob"
	return in
}

// asksFor calls with what a caller says of whom it is for.
func asksFor(conn grpc.ClientConnInterface, words ...string) error {
	ctx := context.Background()
	for _, w := range words {
		ctx = metadata.AppendToOutgoingContext(ctx, api.ForKey, w)
	}
	_, err := datamovev1.NewAdminServiceClient(conn).GetInfo(ctx, &datamovev1.GetInfoRequest{})
	return err
}

// Who may call for whom, from where.
//
//safety:7 calls for another account: from which callers they are taken, forged ones, and what the audit log has of them
func TestWhoMayCallForWhom(t *testing.T) {
	r := newRig(t)
	in := withSlurm()
	in.Users["slurm@site"] = "ada" // whose account is on this node; the role is the point
	in.Roles["acting"] = authz.Role{Members: []string{"ada"}, May: []string{"person.act"}}
	r.configure(in)
	n1 := r.dial(r.agent("n1"))
	through := func(who osaccount.Account, s said) func() error {
		s.Name, s.UID = who.Name, who.UID
		return func() error { return as(r, n1, s) }
	}
	socket := func(who osaccount.Account, words ...string) func() error {
		return func() error {
			r.accounts.set(who, nil)
			return asksFor(r.dial(nil), words...)
		}
	}
	adaHere := authz.Caller{Name: "ada", UID: 61001, Groups: []string{"vision"}, Via: authz.Local, By: "root (uid 0)"}
	by := func(c authz.Caller, by string) authz.Caller { c.By = by; return c }
	for name, row := range map[string]struct {
		call func() error
		want authz.Caller // zero: it is refused
		code codes.Code
	}{
		"root on the socket": {socket(root, "61001"), adaHere, codes.OK},
		"root without the header is root": {
			socket(root), authz.Caller{Name: "root", Via: authz.Local}, codes.OK},
		"who runs the service": {socket(osaccount.Account{UID: 990, Name: "datamove"}, "61001"), by(adaHere, "datamove (uid 990)"), codes.OK},
		"slurm, by its role":   {socket(slurm, "61001"), by(adaHere, "slurm (uid 64030)"), codes.OK},
		"with a certificate, by a role, for one who has none": {
			func() error { return asksFor(r.dial(r.user("slurm@site")), "61002") },
			authz.Caller{Name: "bob", UID: 61002, Via: authz.Certificate, By: "ada (uid 61001)"}, codes.OK,
		},
		"root of a node, which knows the account": {
			through(root, said{For: &said{Name: "eve", UID: 7, Groups: []string{"g"}}}),
			authz.Caller{Name: "eve", UID: 7, Groups: []string{"g"}, Via: authz.Forwarded, Agent: "n1", By: "root (uid 0) through agent n1"}, codes.OK,
		},
		"slurm on a node": {
			through(slurm, said{For: &said{UID: 61001}}),
			authz.Caller{Name: "ada", UID: 61001, Groups: []string{"vision"}, Via: authz.Forwarded, Agent: "n1", By: "slurm (uid 64030) through agent n1"}, codes.OK,
		},
		"somebody of a node":           {through(osaccount.Account{Name: "eve", UID: 7}, said{For: &said{UID: 61001}}), authz.Caller{}, codes.PermissionDenied},
		"an ordinary user":             {socket(bob, "61001"), authz.Caller{}, codes.PermissionDenied},
		"an ordinary user, for itself": {socket(bob, "61002"), authz.Caller{}, codes.PermissionDenied},
		"a role with * is not enough":  {func() error { return asksFor(r.dial(r.user("bobs")), "61001") }, authz.Caller{}, codes.PermissionDenied},
		"an agent, for itself":         {func() error { return asksFor(n1, "61001") }, authz.Caller{}, codes.PermissionDenied},
		"a stranger":                   {func() error { return asksFor(r.dial(r.tlsAs(nil)), "61001") }, authz.Caller{}, codes.Unauthenticated},
		"for root":                     {socket(root, "0"), authz.Caller{}, codes.PermissionDenied},
		"for root, of a node":          {through(root, said{For: &said{Name: "root"}}), authz.Caller{}, codes.PermissionDenied},
		"for who runs the service":     {socket(slurm, "990"), authz.Caller{}, codes.PermissionDenied},
		"for nobody's uid":             {socket(root, "4294967295"), authz.Caller{}, codes.PermissionDenied},
		"for an unknown uid":           {socket(root, "5555"), authz.Caller{}, codes.PermissionDenied},
		"for a uid that is too large":  {socket(root, "4294968297"), authz.Caller{}, codes.InvalidArgument},
		"for a name":                   {socket(root, "ada"), authz.Caller{}, codes.InvalidArgument},
		"for a number in another form": {socket(root, "061001"), authz.Caller{}, codes.InvalidArgument},
		"for a signed number":          {socket(root, "+61001"), authz.Caller{}, codes.InvalidArgument},
		"for nothing":                  {socket(root, ""), authz.Caller{}, codes.InvalidArgument},
		"for two":                      {socket(root, "61001", "61002"), authz.Caller{}, codes.InvalidArgument},
		"for the same one twice":       {socket(root, "61001", "61001"), authz.Caller{}, codes.InvalidArgument},
		"an agent tells of one, and itself": {
			func() error {
				text, err := said{Name: "root", For: &said{Name: "eve", UID: 7}}.encode()
				if err != nil {
					return err
				}
				ctx := metadata.AppendToOutgoingContext(context.Background(), behalfKey, text, api.ForKey, "61001")
				_, err = datamovev1.NewAdminServiceClient(n1).GetInfo(ctx, &datamovev1.GetInfoRequest{})
				return err
			}, authz.Caller{}, codes.InvalidArgument,
		},
		"who says that somebody else calls": { // from inside only
			through(osaccount.Account{Name: "eve", UID: 7}, said{By: "root"}), authz.Caller{Name: "eve", UID: 7, Via: authz.Forwarded, Agent: "n1"}, codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			err := row.call()
			if got := status.Code(err); got != row.code {
				t.Fatalf("%v, want %v", err, row.code)
			}
			got := r.desk.take()
			if row.code != codes.OK {
				if len(got) != 0 {
					t.Errorf("it was done as %+v", got)
				}
				return
			}
			if len(got) != 1 || !same(got[0], row.want) || got[0].By != row.want.By {
				t.Errorf("the service saw %+v, want %+v", got, row.want)
			}
		})
	}
}

// The rules are those for the person, and the log says both.
//
//safety:7 with TestWhoMayCallForWhom
func TestCallsForAPersonAreRecorded(t *testing.T) {
	r := newRig(t)
	r.configure(withSlurm())
	r.accounts.set(slurm, nil)
	client, err := api.Dial(t.Context(), r.socket, api.Options{})
	must.Do(t, err)
	defer client.Close()
	ctx := api.For(api.For(context.Background(), 61002), 61001) // the last one counts
	if _, err := client.SubmitTask(ctx, &datamovev1.SubmitTaskRequest{IdempotencyKey: "k"}); err != nil {
		t.Fatal(err)
	}
	all := r.records.take()
	if len(all) != 1 || !all[0].Allowed || all[0].Actor != "ada" || all[0].UID != 61001 || !all[0].HasUID || all[0].By != "slurm (uid 64030)" {
		t.Errorf("recorded %+v", all)
	}
	// What a role gives to who calls directly is not to be had in that one's name.
	_, err = client.Reload(api.For(context.Background(), 61002), &datamovev1.ReloadRequest{})
	if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "in the name of another account") {
		t.Errorf("an administrator's call: %v", err)
	}
	if all = r.records.take(); len(all) != 1 || all[0].Allowed || all[0].Actor != "bob" || all[0].By != "slurm (uid 64030)" {
		t.Errorf("recorded %+v", all)
	}
	r.accounts.set(ada, nil)
	err = asksFor(r.dial(nil), "61002")
	if all = r.records.take(); err == nil || len(all) != 1 || all[0].Allowed || all[0].Actor != "ada" || all[0].By != "" || !strings.Contains(all[0].Reason, "may not call for uid 61002") {
		t.Errorf("%v, recorded %+v", err, all)
	}
	// Also what the service denies is known to be of both.
	r.accounts.set(slurm, nil)
	if _, err := client.GetTask(ctx, &datamovev1.GetTaskRequest{Id: "t9"}); err == nil {
		t.Error("somebody else's task")
	}
	if all = r.records.take(); len(all) != 1 || all[0].Actor != "ada" || all[0].By == "" {
		t.Errorf("recorded %+v", all)
	}
}

// A header says the same as metadata, and is believed as much.
//
//safety:7 with TestWhoMayCallForWhom
func TestForByHTTP(t *testing.T) {
	r := newRig(t)
	in := withSlurm()
	in.Roles["look"] = authz.Role{Members: []string{"viewer"}, May: []string{"person.act", "task.read.any"}}
	r.configure(in)
	ask := func(c *http.Client, header string, words ...string) (int, error) {
		q, err := http.NewRequest(http.MethodGet, "http://localhost/v1/info", nil)
		if err != nil {
			return 0, err
		}
		for _, w := range words {
			q.Header.Add(header, w)
		}
		a, err := c.Do(q)
		if err != nil {
			return 0, err
		}
		return a.StatusCode, a.Body.Close()
	}
	for name, row := range map[string]struct {
		who    osaccount.Account
		client *http.Client
		words  []string
		code   int
		saw    string // name of the caller
	}{
		"root":             {root, r.overSocket(), []string{"61001"}, 200, "ada"},
		"an ordinary user": {bob, r.overSocket(), []string{"61001"}, 403, ""},
		"twice":            {root, r.overSocket(), []string{"61001", "61001"}, 400, ""},
		"in one line":      {root, r.overSocket(), []string{"61001, 61001"}, 400, ""},
		"a name":           {root, r.overSocket(), []string{"ada"}, 400, ""},
		"for root":         {root, r.overSocket(), []string{"0"}, 403, ""},
		"on the page":      {root, r.onLoopback(), []string{"61001"}, 403, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r.accounts.set(row.who, nil)
			code, err := ask(row.client, "Datamove-For-Uid", row.words...)
			got := r.desk.take()
			if err != nil || code != row.code || (len(got) == 1) != (row.saw != "") || len(got) == 1 && (got[0].Name != row.saw || got[0].By != "root (uid 0)") {
				t.Errorf("%d, %v; the service saw %+v", code, err, got)
			}
		})
	}
	// The names under which a gateway could pass it on lead nowhere.
	r.accounts.set(bob, nil)
	for _, header := range []string{"Grpc-Metadata-Datamove-For-Uid", "Grpcgateway-Datamove-For-Uid"} {
		code, err := ask(r.overSocket(), header, "61001")
		if got := r.desk.take(); err != nil || code != 200 || len(got) != 1 || got[0].Name != "bob" || got[0].By != "" {
			t.Errorf("%s: %d, %v; the service saw %+v", header, code, err, got)
		}
	}
}

// On the socket of a node root is whoever it says, and of others the coordinator decides.
//
//safety:7 with TestWhoMayCallForWhom
func TestForThroughANode(t *testing.T) {
	to := newRig(t)
	to.configure(withSlurm())
	from := node(t, to)
	adaThere := authz.Caller{Name: "ada", UID: 61001, Groups: []string{"vision"}, Via: authz.Forwarded, Agent: "n1"}
	for name, row := range map[string]struct {
		who  osaccount.Account
		uid  string
		code codes.Code
		by   string
	}{
		"root":                {root, "61001", codes.OK, "root (uid 0) through agent n1"},
		"slurm":               {slurm, "61001", codes.OK, "slurm (uid 64030) through agent n1"},
		"somebody":            {bob, "61001", codes.PermissionDenied, ""},
		"root, for itself":    {root, "0", codes.PermissionDenied, ""},
		"root, for nobody":    {root, "4294967295", codes.PermissionDenied, ""},
		"root, for a name":    {root, "ada", codes.InvalidArgument, ""},
		"root, for a unknown": {root, "5555", codes.PermissionDenied, ""},
	} {
		t.Run(name, func(t *testing.T) {
			from.accounts.set(row.who, nil)
			for _, call := range []func() error{
				func() error { return asksFor(from.dial(nil), row.uid) },
				func() error { return byHTTP(from, row.uid, row.code) },
			} {
				err := call()
				if status.Code(err) != row.code && !errors.Is(err, errAsExpected) {
					t.Fatal(err)
				}
				got := to.desk.take()
				if (len(got) == 1) != (row.code == codes.OK) {
					t.Fatalf("the coordinator saw %+v", got)
				}
				if len(got) == 1 && (!same(got[0], adaThere) || got[0].By != row.by) {
					t.Errorf("the coordinator saw %+v", got[0])
				}
			}
		})
	}
}

var errAsExpected = errors.New("as expected")

func byHTTP(r *rig, uid string, code codes.Code) error {
	q, err := http.NewRequest(http.MethodGet, "http://localhost/v1/info", nil)
	if err != nil {
		return err
	}
	q.Header.Set("Datamove-For-Uid", uid)
	a, err := r.overSocket().Do(q)
	if err != nil {
		return err
	}
	want := map[codes.Code]int{codes.OK: 200, codes.PermissionDenied: 403, codes.InvalidArgument: 400}[code]
	if a.StatusCode != want {
		return fmt.Errorf("%s, not %d", a.Status, want)
	}
	return errors.Join(a.Body.Close(), errAsExpected)
}
