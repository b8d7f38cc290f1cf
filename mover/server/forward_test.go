package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"datamove.dev/api"
	agentv1 "datamove.dev/api/datamove/agent/v1"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/server/osaccount"
	"datamove.dev/test/must"
)

// node is the server of a node that is an agent only: a rig whose socket leads to another's.
func node(t *testing.T, to *rig) *rig {
	t.Helper()
	r := &rig{t: t, desk: to.desk, records: &records{}, accounts: &accounts{peer: bob}}
	r.socket = "unix://" + filepath.Join(shortDir(t), "s")
	var err error
	r.Server, err = Open(Options{
		Listen: []string{r.socket}, Rules: func() Rules { return Passing{} }, Accounts: r.accounts, Audit: r.records.append,
		Forward: to.dial(to.agent("n1")),
	})
	must.Do(t, err)
	r.run()
	return r
}

var bobThroughN1 = authz.Caller{Name: "bob", UID: 61002, Via: authz.Forwarded, Agent: "n1"}

// Who asks on the socket of a node is, to the coordinator, somebody through that node.
func TestForward(t *testing.T) {
	to := newRig(t)
	from := node(t, to)
	conn := from.dial(nil)
	for name, call := range map[string]func() error{
		"a call":  func() error { _, err := info(conn); return err },
		"by HTTP": func() error { return get(from.overSocket(), "http://localhost/v1/info", 200) },
		"a stream": func() error {
			s, err := datamovev1.NewTaskServiceClient(conn).WatchTask(context.Background(), &datamovev1.WatchTaskRequest{Id: "t"})
			if err != nil {
				return err
			}
			for i := range 3 {
				if m, err := s.Recv(); err != nil || m.GetId() != fmt.Sprint(i) {
					return fmt.Errorf("message %d is %v, %w", i, m, err)
				}
			}
			_, err = s.Recv()
			return want(err, codes.NotFound)
		},
		"with lies": func() error {
			lie, _ := said{UID: 0, Name: "root"}.encode()
			return asIs(conn, lie)
		},
		"with other words": func() error {
			ctx := metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer x", "x-secret", "y")
			_, err := datamovev1.NewAdminServiceClient(conn).GetInfo(ctx, &datamovev1.GetInfoRequest{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			must.Do(t, call())
			if got := to.desk.take(); len(got) != 1 || !same(got[0], bobThroughN1) {
				t.Errorf("the coordinator saw %+v", got)
			}
		})
	}
}

// An error is the same behind a node as in front of the coordinator.
func TestForwardedErrors(t *testing.T) {
	to := newRig(t)
	from := node(t, to)
	client, err := api.Dial(t.Context(), from.socket, api.Options{})
	must.Do(t, err)
	defer client.Close()
	_, err = client.GetTask(context.Background(), &datamovev1.GetTaskRequest{Id: "t9"})
	if err == nil || err.Error() != "show task t9: permission denied: it is somebody else's" || !strings.Contains(fmt.Sprint(mover.KindName(err)), "PERMISSION") {
		t.Errorf("got %v", err)
	}
	if all := to.records.take(); len(all) != 1 || all[0].Agent != "n1" || all[0].Actor != "bob" || all[0].UID != bob.UID {
		t.Errorf("the coordinator recorded %+v", all)
	}
	// Of roles the coordinator decides: bob is an operator there.
	if _, err := client.PauseTask(context.Background(), &datamovev1.PauseTaskRequest{Id: "t"}); err != nil {
		t.Error(err)
	}
}

// What agents say among themselves does not pass, nor what nobody knows.
func TestNotForwarded(t *testing.T) {
	to := newRig(t)
	from := node(t, to)
	conn := from.dial(nil)
	for _, method := range []string{
		agentv1.LinkService_Confirm_FullMethodName, agentv1.LinkService_Attend_FullMethodName, agentv1.EnrollService_Renew_FullMethodName,
		agentv1.EnrollService_Join_FullMethodName, "/no.such.Service/Method", "/datamove.v1.TaskService/NoSuch",
	} {
		if err := call(context.Background(), conn, method); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: %v", method, err)
		}
	}
	if got := to.desk.take(); len(got) != 0 {
		t.Errorf("the coordinator saw %+v", got)
	}
	must.Tell(t, get(from.overSocket(), "http://localhost/", http.StatusNotFound))
}

// Streams go both ways until one side ends them.
func TestForwardedStreams(t *testing.T) {
	to := newRig(t)
	from := node(t, to)
	conn := from.dial(nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	must.Do(t, err)
	for range 3 {
		q := &grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}}
		must.Do(t, s.Send(q))
		if a, err := s.Recv(); err != nil || len(a.GetListServicesResponse().GetService()) < 8 {
			t.Fatalf("%v, %v", a, err)
		}
	}
	w, err := datamovev1.NewTaskServiceClient(conn).WatchTask(ctx, &datamovev1.WatchTaskRequest{Id: "forever"})
	if err == nil {
		_, err = w.Recv()
	}
	must.Do(t, err)
	if h, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{}); err != nil || h.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("%v, %v", h, err)
	}
	cancel()
	eventually(t, "the coordinator's streams are over", func() bool { return to.callers.open() == 0 && from.callers.open() == 0 })
}

// A coordinator that is away is an error that clients wait on, as if they had called
// it themselves.
func TestForwardToNobody(t *testing.T) {
	away, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return nil, net.ErrClosed }))
	must.Do(t, err)
	defer away.Close()
	r := &rig{t: t, desk: &desk{}, records: &records{}, accounts: &accounts{peer: ada}, socket: "unix://" + filepath.Join(shortDir(t), "s")}
	r.Server, err = Open(Options{Listen: []string{r.socket}, Rules: func() Rules { return Passing{} }, Accounts: r.accounts, Audit: r.records.append, Forward: away})
	must.Do(t, err)
	r.run()
	_, err = info(r.dial(nil))
	if s := status.Convert(err); s.Code() != codes.Unavailable || len(s.Details()) != 0 {
		t.Errorf("got %v, %v", s, s.Details())
	}
}

// More groups than can be told are an error, and not a part of them.
func TestTooManyGroups(t *testing.T) {
	to := newRig(t)
	from := node(t, to)
	many := osaccount.Account{UID: 7, Name: "joiner"}
	for i := range maxGroups + 1 {
		many.GroupNames = append(many.GroupNames, fmt.Sprint("g", i))
	}
	from.accounts.set(many, nil)
	if _, err := info(from.dial(nil)); status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), "groups") {
		t.Errorf("got %v", err)
	}
	many.GroupNames = many.GroupNames[1:]
	from.accounts.set(many, nil)
	if _, err := info(from.dial(nil)); err != nil {
		t.Error(err)
	}
	if got := to.desk.take(); len(got) != 1 || len(got[0].Groups) != maxGroups {
		t.Errorf("%d calls", len(got))
	}
	must.Tell(t, get(from.overSocket(), "http://localhost/v1/info", 200))
}
