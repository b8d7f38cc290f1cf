package usage

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/coordinator/quota"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/test/must"
)

var (
	begun = time.Date(2027, 1, 31, 12, 0, 0, 0, time.UTC)
	ada   = authz.Caller{Name: "ada", UID: 1001, Via: authz.Local}
	bob   = authz.Caller{Name: "bob", UID: 1002, Via: authz.Local}
)

// serve is a server of usage in which an account may hold two tasks.
func serve(t *testing.T) *Server {
	l := must.Get(state.Open(t.TempDir(), state.Options{}))(t)
	t.Cleanup(func() { must.Tell(t, l.Close()) })
	conf := &config.Config{Quotas: config.Quotas{Default: config.Quota{Tasks: 2}}}
	rules := must.Get(authz.New(authz.Input{UID: 990}))(t)
	return must.Get(New(t.Context(), Options{Ledger: l, Config: func() *config.Config { return conf }, Rules: func() *authz.Rules { return rules }, Now: func() time.Time { return begun }}))(t)
}

// TestMayHold: what an account holds follows the ledger, and no account takes from another one.
func TestMayHold(t *testing.T) {
	s := serve(t)
	put := func(id string, of authz.Caller, in pb.TaskState) {
		must.Do(t, s.o.Ledger.Update(t.Context(), state.Soon, func(tx *state.Tx) error {
			return state.Tasks.Put(tx, &pb.Task{Id: id, Spec: &pb.TaskSpec{}, Owner: authz.AccountOf(of), State: in, CreateTime: timestamppb.New(begun)})
		}))
	}
	wants := func(what string, c authz.Caller, want error) {
		t.Helper()
		if err := s.MayHold(c, quota.Tasks); !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	wants("none", ada, nil)
	put("t1", ada, pb.TaskState_TASK_STATE_QUEUED)
	wants("one", ada, nil)
	put("t2", ada, pb.TaskState_TASK_STATE_RUNNING)
	wants("two", ada, mover.ErrQuota)
	wants("another account", bob, nil)
	wants("root, which no quota names", authz.Caller{Name: "root", Via: authz.Local}, nil)
	put("t1", ada, pb.TaskState_TASK_STATE_DONE)
	wants("one has ended", ada, nil)
}

// TestAdd: what tasks have moved is summed by day in UTC, project and account.
func TestAdd(t *testing.T) {
	s := serve(t)
	for _, one := range []struct {
		of      authz.Caller
		project string
		at      time.Time
	}{{ada, "vision", begun}, {ada, "vision", begun.Add(-11 * time.Hour)}, {ada, "vision", begun.Add(12 * time.Hour)}, {ada, "speech", begun}, {bob, "vision", begun}} {
		task := &pb.Task{Spec: &pb.TaskSpec{Project: one.project}, Owner: authz.AccountOf(one.of), EndTime: timestamppb.New(one.at), Report: &pb.Report{Files: 3, Bytes: 10, Failed: 1}}
		must.Do(t, s.o.Ledger.Update(t.Context(), state.Soon, func(tx *state.Tx) error { return Add(tx, task) }))
	}
	got := map[string]int64{}
	must.Do(t, s.o.Ledger.View(func(tx *state.Tx) error {
		for u, err := range state.Usage.All(tx, state.Range{}) {
			if err != nil {
				return err
			}
			if u.GetFiles() != 3*u.GetTasks() || u.GetBytes() != 10*u.GetTasks() || u.GetFailed() != u.GetTasks() || u.GetDay().AsTime().Hour() != 0 {
				t.Errorf("%v", u)
			}
			got[strings.Join([]string{u.GetDay().AsTime().Format(time.DateOnly), u.GetProject(), u.GetOwner().GetName()}, " ")] = u.GetTasks()
		}
		return nil
	}))
	want := map[string]int64{"2027-01-31 vision ada": 2, "2027-02-01 vision ada": 1, "2027-01-31 speech ada": 1, "2027-01-31 vision bob": 1}
	if len(got) != len(want) {
		t.Errorf("%v, want %v", got, want)
	}
	for key, n := range want {
		if got[key] != n {
			t.Errorf("%s: %d tasks, want %d", key, got[key], n)
		}
	}
}
