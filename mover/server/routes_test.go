package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"datamove.dev/api"
	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/server/auditlog"
	"datamove.dev/mover/server/authz"
	"datamove.dev/test/must"
)

// methods are all that the servers answer.
func (r *rig) methods() []string {
	var all []string
	for service, about := range r.people.GetServiceInfo() {
		for _, m := range about.Methods {
			all = append(all, "/"+service+"/"+m.Name)
		}
	}
	slices.Sort(all)
	return all
}

// manyStrangers has so many denials at once as a walk through all routes makes.
func manyStrangers(o *Options) { o.Limits.StrangerRate = 1000 }

// call calls any method with an empty message, and returns how that ended. Without a
// deadline of its own it relies on the server's: a denial comes before the message is looked at.
func call(ctx context.Context, conn grpc.ClientConnInterface, method string) error {
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method, grpc.ForceCodecV2(frames{}))
	if err != nil {
		return err
	}
	if err := s.SendMsg(&frame{data: mem.BufferSlice{mem.SliceBuffer(nil)}}); err != nil && err != io.EOF {
		return err
	}
	_ = s.CloseSend()
	return s.RecvMsg(&frame{})
}

// The promise: nobody gets anywhere who should not, on any route that there is.
func TestEveryRoute(t *testing.T) {
	r := newRig(t, manyStrangers)
	all := r.methods()
	if len(all) < 45 || !slices.Contains(all, agentv1.EnrollService_Join_FullMethodName) {
		t.Fatalf("these are not all methods: %q", all)
	}
	all = append(all, "/datamove.v1.TaskService/NoSuch", "/no.such.Service/Method", "/grpc.channelz.v1.Channelz/GetServers")
	forNodes := regexp.MustCompile(`^/datamove\.agent\.v1\.(LinkService/|EnrollService/Renew$)`)
	join := func(m string) bool { return m == agentv1.EnrollService_Join_FullMethodName }
	eve, _ := said{Name: "eve", UID: 7}.encode()

	for name, who := range map[string]struct {
		conn *grpc.ClientConn
		md   []string
		may  func(method string) bool
		code codes.Code
	}{
		"without a certificate": {conn: r.dial(r.tlsAs(nil)), may: join, code: codes.Unauthenticated},
		"without a certificate, for somebody else": {
			conn: r.dial(r.tlsAs(nil)), md: []string{behalfKey, eve}, may: join, code: codes.Unauthenticated},
		"with a certificate that is nobody's": {conn: r.dial(r.user("stranger")), may: join, code: codes.PermissionDenied},
		"an agent for itself": {
			conn: r.dial(r.agent("n1")), may: func(m string) bool { return forNodes.MatchString(m) || join(m) }, code: codes.PermissionDenied},
		"somebody through an agent": {
			conn: r.dial(r.agent("n2")), md: []string{behalfKey, eve}, may: func(m string) bool { return join(m) || open2all(m) }, code: codes.PermissionDenied},
		"somebody without a role": {conn: r.dial(nil), may: func(m string) bool { return join(m) || open2all(m) }, code: codes.PermissionDenied},
	} {
		t.Run(name, func(t *testing.T) {
			let := 0
			for _, method := range all {
				ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(context.Background(), who.md...))
				got := status.Code(call(ctx, who.conn, method))
				cancel()
				denied := got == codes.PermissionDenied || got == codes.Unauthenticated
				switch may := who.may(method); {
				case may && denied && !strings.HasSuffix(method, "/GetTask"): // which denies by itself
					t.Errorf("%s was denied: %v", method, got)
				case may:
					let++
				case got != who.code:
					t.Errorf("%s answered %v, not %v", method, got, who.code)
				}
			}
			if let == 0 {
				t.Error("nothing was let through: this row shows nothing")
			}
		})
	}
}

// open2all reports whether the rules open a method to everybody: package access has a
// table of them, and here counts that it is asked.
func open2all(method string) bool {
	rules, err := authz.New(authz.Input{UID: 1})
	if err != nil {
		panic(err)
	}
	return rules.MayCall(authz.Caller{Via: authz.Local, UID: 99}, method).Allowed
}

// route is one of HTTP.
type route struct{ method, path string }

// routes are those of the description of the API, and ours beside them.
func (r *rig) routes() []route {
	r.t.Helper()
	text := must.Get(fetch(r.overSocket(), http.MethodGet, "http://localhost/openapi.json", "", 200))(r.t)
	var described struct {
		Paths map[string]map[string]any
	}
	must.Do(r.t, json.Unmarshal([]byte(text), &described))
	all := []route{{"GET", "/"}, {"GET", "/page/x.js"}, {"GET", "/metrics"}, {"GET", "/openapi.json"}, {"GET", "/nowhere"}, {"POST", "/metrics"}, {"OPTIONS", "/v1/tasks"}}
	names := regexp.MustCompile(`\{[a-z]+\}`)
	for path, methods := range described.Paths {
		for method := range methods {
			all = append(all, route{strings.ToUpper(method), names.ReplaceAllString(path, "x1")})
		}
	}
	if len(all) < 35 {
		r.t.Fatalf("these are not all routes: %v", all)
	}
	return all
}

func TestEveryRouteOfHTTP(t *testing.T) {
	r := newRig(t, manyStrangers)
	everywhere := func(string) int { return http.StatusForbidden }
	for name, who := range map[string]struct {
		client *http.Client
		base   string
		want   func(path string) int
	}{
		"without a certificate":               {r.overTLS(r.tlsAs(nil)), "https://node-0", func(string) int { return http.StatusUnauthorized }},
		"with a certificate that is nobody's": {r.overTLS(r.user("stranger")), "https://node-0", everywhere},
		"an agent":                            {r.overTLS(r.agent("n1")), "https://node-0", everywhere},
		"on loopback, without a viewer": {r.onLoopback(), "http://localhost", func(path string) int {
			if path == "/metrics" {
				return 0
			}
			return http.StatusForbidden
		}},
		"by a foreign name": {r.overSocket(), "http://datamove.attacker.example", func(string) int { return http.StatusMisdirectedRequest }},
	} {
		t.Run(name, func(t *testing.T) {
			for _, route := range r.routes() {
				body := ""
				if route.method == http.MethodPost {
					body = "{}"
				}
				want := who.want(route.path)
				if want == 0 {
					continue
				}
				if _, err := fetch(who.client, route.method, who.base+route.path, body, want); err != nil {
					t.Error(err)
				}
			}
		})
	}
	if calls := r.desk.take(); len(calls) != 0 {
		t.Errorf("the service was called: %+v", calls)
	}
}

// With a viewer the page on loopback shows everything, and changes nothing.
func TestViewer(t *testing.T) {
	in := input()
	in.Roles["watch"] = authz.Role{Members: []string{"viewer"}, May: []string{"task.read.any"}}
	r := newRig(t)
	r.configure(in)
	c := r.onLoopback()
	for _, path := range []string{"/", "/page/x.js", "/metrics", "/openapi.json", "/v1/info"} {
		must.Tell(t, get(c, "http://localhost"+path, 200))
	}
	if got := r.desk.take(); len(got) != 1 || got[0].Name != "viewer" || got[0].UID != ^uint32(0) {
		t.Errorf("the service saw %+v", got)
	}
	if all := r.records.take(); len(all) != 0 {
		t.Errorf("reading was recorded: %+v", all)
	}
	changing := 0
	for _, route := range r.routes() {
		if route.method == http.MethodGet {
			continue
		}
		changing++
		if _, err := fetch(c, route.method, "http://localhost"+route.path, "{}", http.StatusForbidden); err != nil && route.path != "/metrics" {
			t.Error(err)
		}
	}
	if calls := r.desk.take(); len(calls) != 0 || changing < 15 {
		t.Errorf("the service was called: %+v, of %d", calls, changing)
	}
	if all := r.records.take(); len(all) < changing-2 || all[0].Allowed || all[0].HasUID {
		t.Errorf("%d of %d refusals recorded: %+v", len(all), changing, all)
	}
}

// Foreign, forged and expired certificates get no connection at all.
func TestBadCertificates(t *testing.T) {
	r := newRig(t)
	for name, config := range map[string]*tls.Config{
		"foreign": r.foreign("n1"), "expired": r.expired("n1"), "self-signed": r.selfSigned("n1"), "as the service": r.asService(),
	} {
		t.Run(name, func(t *testing.T) {
			r.records.take()
			err := call(context.Background(), r.dial(config), agentv1.LinkService_Confirm_FullMethodName)
			if status.Code(err) != codes.Unavailable {
				t.Errorf("got %v", err)
			}
			said := map[string]string{"foreign": "an authority that the service does not know", "expired": "has ended"}[name]
			if _, err := api.Dial(t.Context(), "tcp://"+r.port(), api.Options{TLS: config}); !errors.Is(err, mover.ErrPermission) ||
				!strings.Contains(err.Error(), cmp.Or(said, "certificate")) {
				t.Errorf("a person is told: %v", err)
			}
			if err := get(r.overTLS(config), "https://node-0/metrics", 0); err == nil || strings.Contains(err.Error(), "GET https://node-0/metrics: ") {
				t.Errorf("HTTP was answered: %v", err)
			}
			var all []auditlog.Record
			eventually(t, "a record of each", func() bool { all = append(all, r.records.take()...); return len(all) >= 2 })
			if all[0].Method != connect || all[0].Allowed || all[0].Reason == "" {
				t.Errorf("recorded: %+v", all)
			}
		})
	}
	if calls := r.desk.take(); len(calls) != 0 {
		t.Errorf("the service was called: %+v", calls)
	}
}
