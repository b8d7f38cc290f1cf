package idempotency

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/quota"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/test/must"
)

var (
	begun = time.Date(2027, 1, 31, 12, 0, 0, 0, time.UTC)
	ada   = authz.Caller{Name: "ada", UID: 1001}
	bob   = authz.Caller{Name: "bob", UID: 1002}
	one   = &pb.TaskSpec{Source: "/a", Target: "/b"}
	other = &pb.TaskSpec{Source: "/a", Target: "/c"}
)

func open(t *testing.T) *state.Ledger {
	l := must.Get(state.Open(t.TempDir(), state.Options{}))(t)
	t.Cleanup(func() { must.Tell(t, l.Close()) })
	return l
}

// TestBefore: the same caller, key and request have the answer of before; another request under the key is a conflict.
func TestBefore(t *testing.T) {
	l := open(t)
	must.Do(t, l.Update(t.Context(), state.Soon, func(tx *state.Tx) error {
		task := &pb.Task{Id: "t1", Spec: one, Owner: authz.AccountOf(ada), CreateTime: timestamppb.New(begun)}
		return errors.Join(state.Tasks.Put(tx, task), Put(tx, task.GetOwner(), "made", one, "t1", task.GetCreateTime()),
			Put(tx, task.GetOwner(), "none", one, NoTask, task.GetCreateTime()), Put(tx, task.GetOwner(), "", one, "t1", task.GetCreateTime()))
	}))
	for _, row := range []struct {
		name  string
		by    authz.Caller
		key   string
		asked *pb.TaskSpec
		task  string
		known bool
		err   error
	}{
		{"again", ada, "made", one, "t1", true, nil},
		{"another request", ada, "made", other, "", false, mover.ErrConflict},
		{"of another caller", bob, "made", one, "", false, nil},
		{"another key", ada, "new", one, "", false, nil},
		{"no key", ada, "", one, "", false, nil},
		{"a request that made no task", ada, "none", one, "", true, nil},
		{"another request, where none was made", ada, "none", other, "", false, mover.ErrConflict},
	} {
		must.Do(t, l.View(func(tx *state.Tx) error {
			task, err := Before(tx, row.by, row.key, row.asked)
			known, err1 := Known(tx, row.by, row.key, row.asked)
			if task.GetId() != row.task || known != row.known || !errors.Is(err, row.err) || !errors.Is(err1, row.err) {
				t.Errorf("%s: task %q, %v; known %v, %v", row.name, task.GetId(), err, known, err1)
			}
			return nil
		}))
	}
}

// full is what a caller may hold: all, or nothing more.
type full struct{ err error }

func (f full) MayHold(authz.Caller, quota.Resource) error { return f.err }

// TestForget: keys of requests without a task are kept for a day, and no longer; the others go with their task.
func TestForget(t *testing.T) {
	l := open(t)
	must.Do(t, l.Update(t.Context(), state.Soon, func(tx *state.Tx) error {
		return errors.Join(Remember(tx, full{}, ada, "old", one, begun), Remember(tx, full{}, ada, "new", one, begun.Add(2*time.Hour)), Remember(tx, full{mover.ErrFull}, ada, "", one, begun),
			Put(tx, authz.AccountOf(ada), "task", one, "t1", timestamppb.New(begun)))
	}))
	if err := l.Update(t.Context(), state.Soon, func(tx *state.Tx) error { return Remember(tx, full{mover.ErrFull}, ada, "more", one, begun) }); !errors.Is(err, mover.ErrFull) {
		t.Errorf("above the quota: %v", err)
	}
	for _, row := range []struct {
		after time.Duration
		want  string
	}{{KeysLast, "new old task"}, {KeysLast + time.Second, "new task"}, {KeysLast + 3*time.Hour, "task"}} {
		must.Do(t, Forget(t.Context(), l, func() time.Time { return begun.Add(row.after) }))
		var keys []string
		must.Do(t, l.View(func(tx *state.Tx) error {
			for k, err := range state.Keys.All(tx, state.Range{}) {
				if err != nil {
					return err
				}
				keys = append(keys, k.GetKey())
			}
			return nil
		}))
		if got := strings.Join(keys, " "); got != row.want {
			t.Errorf("after %v: keys %s, want %s", row.after, got, row.want)
		}
	}
}

// TestID: the id of what a request makes is that of its caller and key.
func TestID(t *testing.T) {
	a := ID(ada, "k", begun)
	if a != ID(ada, "k", begun.Add(time.Hour)) || len(a) != 20 || a == ID(bob, "k", begun) || a == ID(ada, "l", begun) {
		t.Errorf("the id is %s, later %s, of bob %s, of another key %s", a, ID(ada, "k", begun.Add(time.Hour)), ID(bob, "k", begun), ID(ada, "l", begun))
	}
	if first, second := ID(ada, "", begun), ID(ada, "", begun); first == second {
		t.Error("two requests without a key make the same")
	}
	must.Do(t, Check(strings.Repeat("k", KeyMost)))
	if err := Check(strings.Repeat("k", KeyMost+1)); !errors.Is(err, mover.ErrUsage) {
		t.Errorf("a long key: %v", err)
	}
}
