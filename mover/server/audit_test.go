package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/server/auditlog"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/server/osaccount"
	"datamove.dev/test/must"
)

// What is written down: each denial once, each change before it happens, and no reading.
func TestAudit(t *testing.T) {
	r := newRig(t)
	conn, node := r.dial(nil), r.dial(r.agent("n1"))
	tasks := datamovev1.NewTaskServiceClient(conn)
	ctx := context.Background()
	for name, row := range map[string]struct {
		call func() error
		want []auditlog.Record
	}{
		"reading what one may read is not recorded": {
			func() error { _, err := info(conn); return err }, nil},
		"nor is it by HTTP": {
			func() error { return get(r.overSocket(), "http://localhost/v1/info", 200) }, nil},
		"a change is, with what it is about": {
			func() error {
				_, err := tasks.SubmitTask(ctx, &datamovev1.SubmitTaskRequest{Spec: &datamovev1.TaskSpec{Source: "/a", Target: "/b"}})
				return err
			},
			[]auditlog.Record{{HasUID: true, UID: 61001, Actor: "ada", Peer: "unix", Method: datamovev1.TaskService_SubmitTask_FullMethodName,
				Locations: []string{"/a", "/b"}, Allowed: true, Reason: "everybody"}},
		},
		"the same by HTTP": {
			func() error {
				_, err := fetch(r.overSocket(), http.MethodPost, "http://localhost/v1/tasks", `{"spec":{"source":"/a","target":"/b"}}`, 200)
				return err
			},
			[]auditlog.Record{{HasUID: true, UID: 61001, Actor: "ada", Peer: "unix", Method: datamovev1.TaskService_SubmitTask_FullMethodName,
				Locations: []string{"/a", "/b"}, Allowed: true, Reason: "everybody"}},
		},
		"a denial by the rules is, once": {
			func() error {
				_, err := datamovev1.NewAgentServiceClient(conn).DrainAgent(ctx, &datamovev1.DrainAgentRequest{Name: "n7"})
				return want(err, codes.PermissionDenied)
			},
			[]auditlog.Record{{HasUID: true, UID: 61001, Actor: "ada", Peer: "unix", Method: datamovev1.AgentService_DrainAgent_FullMethodName,
				Object: "n7", Code: "PERMISSION", Reason: "default"}},
		},
		"a denial by the service is, once": {
			func() error {
				_, err := tasks.GetTask(ctx, &datamovev1.GetTaskRequest{Id: "t9"})
				return want(err, codes.PermissionDenied)
			},
			[]auditlog.Record{{HasUID: true, UID: 61001, Actor: "ada", Peer: "unix", Method: datamovev1.TaskService_GetTask_FullMethodName,
				Object: "t9", Code: "PERMISSION", Reason: "show task t9"}},
		},
		"what is no route is denied": {
			func() error { return want(call(ctx, conn, "/no.such.Service/Method"), codes.PermissionDenied) },
			[]auditlog.Record{{HasUID: true, UID: 61001, Actor: "ada", Peer: "unix", Method: "/no.such.Service/Method", Code: "PERMISSION", Reason: "default"}},
		},
		"an agent that comes is recorded": {
			func() error {
				return want(call(ctx, node, agentv1.LinkService_Attend_FullMethodName), codes.Unimplemented)
			},
			[]auditlog.Record{{Actor: "agent n1", Method: agentv1.LinkService_Attend_FullMethodName, Allowed: true, Reason: "agent"}},
		},
		"what it says is not": {
			func() error { _, err := confirm(node); return err }, nil},
		"that somebody joins is": {
			func() error {
				_, err := agentv1.NewEnrollServiceClient(r.dial(r.tlsAs(nil))).Join(ctx, &agentv1.JoinRequest{Name: "n8"})
				return err
			},
			[]auditlog.Record{{Method: agentv1.EnrollService_Join_FullMethodName, Object: "n8", Allowed: true, Reason: "anybody"}},
		},
		"a page that is denied is": {
			func() error { return get(r.onLoopback(), "http://localhost/", http.StatusForbidden) },
			[]auditlog.Record{{Method: "http GET /", Code: "PERMISSION", Reason: "permission denied: nobody is known"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r.records.take()
			must.Do(t, row.call())
			got := r.records.take()
			if len(got) != len(row.want) {
				t.Fatalf("%d records, want %d: %+v", len(got), len(row.want), got)
			}
			for i, g := range got {
				w := row.want[i]
				if !strings.HasPrefix(g.Reason, w.Reason) || w.Peer != "" && g.Peer != w.Peer || g.Peer == "" {
					t.Errorf("record %+v, want %+v", g, w)
				}
				g.Reason, w.Reason, g.Peer, w.Peer = "", "", "", ""
				if fmt.Sprintf("%+v", g) != fmt.Sprintf("%+v", w) {
					t.Errorf("record %+v, want %+v", g, w)
				}
			}
		})
	}
}

func want(err error, code codes.Code) error {
	if status.Code(err) != code {
		return fmt.Errorf("%w, not %v", err, code)
	}
	return nil
}

// A service that writes a denial down itself has it written once, with all that the
// door knows of the call.
func TestServiceRecordsItself(t *testing.T) {
	r := newRig(t)
	r.desk.audit = func(ctx context.Context, one auditlog.Record) error { return r.records.append(ctx, Complete(ctx, one)) }
	_, err := datamovev1.NewTaskServiceClient(r.dial(nil)).GetTask(context.Background(), &datamovev1.GetTaskRequest{Id: "t9"})
	if status.Code(err) != codes.PermissionDenied {
		t.Fatal(err)
	}
	all := r.records.take()
	if len(all) != 1 || all[0].Actor != "ada" || !all[0].HasUID || all[0].Peer != "unix" || all[0].Reason != "owner" ||
		all[0].Method != datamovev1.TaskService_GetTask_FullMethodName {
		t.Errorf("recorded: %+v", all)
	}
	if got := Complete(context.Background(), auditlog.Record{Method: "lease.expire"}); got.Method != "lease.expire" || got.Peer != "" {
		t.Errorf("of no call: %+v", got)
	}
}

// What can not be written down does not happen; what is denied stays denied.
func TestAuditFails(t *testing.T) {
	r := newRig(t)
	conn := r.dial(nil)
	r.records.fail(fmt.Errorf("%w: %w", mover.ErrFull, errDisk))
	_, err := datamovev1.NewTaskServiceClient(conn).SubmitTask(context.Background(), &datamovev1.SubmitTaskRequest{})
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "can not be written down") {
		t.Errorf("a change: %v", err)
	}
	_, err = datamovev1.NewAdminServiceClient(conn).Reload(context.Background(), &datamovev1.ReloadRequest{})
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("a denial: %v", err)
	}
	lie, _ := said{UID: 0}.encode()
	if err := asIs(conn, lie); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a lie: %v", err)
	}
	if calls := r.desk.take(); len(calls) != 0 {
		t.Errorf("the service was called: %+v", calls)
	}
	if _, err := info(conn); err != nil {
		t.Errorf("reading: %v", err)
	}
}

// A panic is an answer, without what is in it.
func TestPanic(t *testing.T) {
	r := newRig(t)
	conn := r.dial(nil)
	for range 2 { // the server is still there
		_, err := datamovev1.NewTaskServiceClient(conn).CancelTask(context.Background(), &datamovev1.CancelTaskRequest{Id: "x"})
		if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v", err)
		}
	}
}

// One who calls too often is held up, and nobody else.
//
//safety:8 with TestIdleConnections
func TestRate(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Limits.Rate = 1 })
	conn := r.dial(nil)
	var limited error
	for range 4 { // two at once
		if _, err := info(conn); err != nil {
			limited = err
		}
	}
	if status.Code(limited) != codes.ResourceExhausted || !strings.Contains(limited.Error(), "more often than 1") {
		t.Errorf("got %v", limited)
	}
	must.Tell(t, get(r.overSocket(), "http://localhost/v1/info", http.StatusTooManyRequests))
	if all := r.records.take(); len(all) != 0 {
		t.Errorf("recorded: %+v", all)
	}
	r.accounts.set(bob, nil)
	if _, err := info(r.dial(nil)); err != nil {
		t.Errorf("somebody else: %v", err)
	}
	r.accounts.set(osaccount.Account{UID: r.self, Name: "service"}, nil)
	root := r.dial(nil)
	for range 10 {
		if _, err := info(root); err != nil {
			t.Fatalf("who runs the service: %v", err)
		}
	}
	node := r.dial(r.agent("n1"))
	for range 10 {
		if _, err := confirm(node); err != nil {
			t.Fatalf("an agent: %v", err)
		}
	}
	eve := said{Name: "eve", UID: 7}
	err := errors.Join(as(r, node, eve), as(r, node, eve), as(r, node, eve))
	if err == nil || as(r, node, said{Name: "mal", UID: 8}) != nil {
		t.Errorf("through an agent: %v", err)
	}
}

// Streams of one caller are counted over all connections, and come back.
//
//safety:8 with TestIdleConnections
func TestOpenCalls(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Limits.Calls = 3 })
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range 3 {
		s := must.Get(datamovev1.NewTaskServiceClient(r.dial(nil)).WatchTask(ctx, &datamovev1.WatchTaskRequest{Id: "forever"}))(t)
		if _, err := s.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := info(r.dial(nil)); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "3 open calls") {
		t.Errorf("a fourth: %v", err)
	}
	r.accounts.set(bob, nil)
	if _, err := info(r.dial(nil)); err != nil {
		t.Errorf("somebody else: %v", err)
	}
	r.accounts.set(ada, nil)
	cancel()
	eventually(t, "a call once the streams are over", func() bool { _, err := info(r.dial(nil)); return err == nil })
}

// Of calls that are no streams a person has fewer: each has its request and its answer in memory.
//
//safety:8 with TestIdleConnections
func TestShortCalls(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Limits.Short = 2 })
	hold := make(chan struct{})
	r.desk.hold = hold
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range 2 {
		conn := r.dial(nil)
		go func() {
			_, _ = datamovev1.NewTaskServiceClient(conn).ResumeTask(ctx, &datamovev1.ResumeTaskRequest{Id: "held"})
		}()
	}
	eventually(t, "both are open", func() bool { return r.callers.open() == 4 })
	if _, err := info(r.dial(nil)); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "2 open calls") {
		t.Errorf("a third: %v", err)
	}
	s := must.Get(datamovev1.NewTaskServiceClient(r.dial(nil)).WatchTask(ctx, &datamovev1.WatchTaskRequest{Id: "forever"}))(t)
	if _, err := s.Recv(); err != nil {
		t.Errorf("a stream: %v", err)
	}
	r.accounts.set(osaccount.Account{UID: r.self, Name: "service"}, nil)
	if _, err := info(r.dial(nil)); err != nil {
		t.Errorf("who runs the service: %v", err)
	}
	r.accounts.set(ada, nil)
	close(hold)
	eventually(t, "a call once they are answered", func() bool { _, err := info(r.dial(nil)); return err == nil })
}

// A caller that is denied again and again fills no disk with records of it.
func TestDenialsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig, remote, _ *pipes) {
		v := &request{caller: authz.Caller{Via: authz.Local, UID: ada.UID, Name: "ada"}, method: datamovev1.AdminService_Backup_FullMethodName}
		denied := 0
		for range 3 * deniedBurst {
			if err := r.enter(t.Context(), v, v.method, true, subject{}); errors.Is(err, mover.ErrPermission) {
				denied++
			}
			time.Sleep(time.Millisecond)
		}
		if n := len(r.records.take()); n != denied || n < deniedBurst || n > deniedBurst+deniedRate*4 {
			t.Errorf("%d records of %d denials", n, denied)
		}
	})
}

// The callers that are remembered have a bound, and those who use something stay.
//
//safety:8 with TestIdleConnections
func TestCallersAreBounded(t *testing.T) {
	c := newCallers(3)
	end := must.Get(c.begin("open", 1))(t)
	slow := pace{0.001, 1}
	must.Do(t, errors.Join(c.take("busy", slow), c.take("rested", pace{1e9, 1e9})))
	if err := c.take("new", slow); err != nil {
		t.Errorf("there was room for one: %v", err)
	}
	if err := c.take("another", slow); !errors.Is(err, mover.ErrTransient) {
		t.Errorf("there is no room: %v", err)
	}
	if err := c.take("busy", slow); !errors.Is(err, mover.ErrTransient) {
		t.Errorf("who is busy was forgotten: %v", err)
	}
	if _, err := c.begin("open", 1); !errors.Is(err, mover.ErrTransient) {
		t.Errorf("who has an open call was forgotten: %v", err)
	}
	end()
	if err := c.take("another", slow); err != nil {
		t.Errorf("there is room again: %v", err)
	}
	if got := len(c.of); got != 3 {
		t.Errorf("%d are remembered", got)
	}
}

// Every caller has a bucket of its own: no two have the same key.
func TestKeys(t *testing.T) {
	var keys []string
	for _, c := range []authz.Caller{
		{Via: authz.Local, UID: 1, Name: "a"}, {Via: authz.Certificate, UID: 1, Name: "a"}, {Via: authz.Agent, Agent: "a"},
		{Via: authz.Forwarded, Agent: "a", UID: 1, Name: "a"}, {Via: authz.Forwarded, Agent: "b", UID: 1, Name: "a"}, {},
	} {
		keys = append(keys, keyOf(c, "10.0.0.1:77"))
	}
	slices.Sort(keys)
	if len(slices.Compact(slices.Clone(keys))) != len(keys) {
		t.Errorf("keys %q", keys)
	}
	if a, b := keyOf(authz.Caller{}, "[fe80::1]:7"), keyOf(authz.Caller{}, "[fe80::1]:8"); a != b {
		t.Errorf("a new port is a new caller: %s, %s", a, b)
	}
}
