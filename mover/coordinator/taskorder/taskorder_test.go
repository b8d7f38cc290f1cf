package taskorder

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/task"
	"datamove.dev/test/must"
)

var begun = time.Date(2027, 1, 31, 12, 0, 0, 0, time.UTC)

// of is a task that an account submits so many seconds after the first one.
func of(owner string, after int, source, target string) *pb.Task {
	at := begun.Add(time.Duration(after) * time.Second)
	uid := map[string]uint32{"root": 0, "ada": 1001, "bob": 1002}[owner]
	return &pb.Task{Id: task.NewID(at), State: task.Queued, Owner: &pb.Account{Name: owner, Uid: uid}, CreateTime: timestamppb.New(at),
		Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: source, Target: target}}
}

// TestOrder: a task waits for earlier ones that bring what it reads, and for those that read or change what it changes.
func TestOrder(t *testing.T) {
	conf := &config.Config{Tiers: map[string]config.Tier{"project": {Path: "/lustre"}, "cold": {S3: &config.S3{Bucket: "archive"}}}}
	l := open(t)
	order := New(l, func() *config.Config { return conf }, func(*pb.Task) bool { return true })
	for _, row := range []struct {
		name             string
		earlier          *pb.Task
		behind, overtake bool
	}{
		{"brings what it reads", of("ada", 0, "cold:x", "project:in"), true, false},
		{"brings it, spelled as a path", of("ada", 0, "cold:x", "/lustre/in"), true, false},
		{"brings what lies around it", of("ada", 0, "cold:x", "project:"), true, true}, // and the target
		{"brings what lies in it", of("ada", 0, "cold:x", "project:in/part"), true, false},
		{"brings what only begins like it", of("ada", 0, "cold:x", "project:input"), false, false},
		{"brings it later", of("ada", 20, "cold:x", "project:in"), false, false},
		{"of another account", of("bob", 0, "cold:x", "project:in"), false, false},
		{"of root, which brings data for others", of("root", 0, "cold:x", "project:in"), true, false},
		{"reads what it changes", of("ada", 0, "project:out", "cold:y"), false, true},
		{"of another account reads what it changes", of("bob", 0, "project:out", "cold:y"), false, false},
		{"of root reads what it changes", of("root", 0, "project:out", "cold:y"), false, false},
		{"changes the same", of("ada", 0, "cold:x", "project:out"), false, true},
		{"reads the same", of("ada", 0, "project:in", "cold:y"), false, false},
	} {
		it := of("ada", 10, "project:in", "project:out")
		must.Do(t, l.Update(t.Context(), state.Soon, func(tx *state.Tx) error {
			return errors.Join(state.Tasks.Put(tx, row.earlier), state.Tasks.Put(tx, it))
		}))
		behind, overtakes := order.Behind(it), order.Overtakes(it)
		for said, want := range map[string]bool{behind: row.behind, overtakes: row.overtake} {
			if want && !strings.Contains(said, row.earlier.GetId()) {
				t.Errorf("an earlier task %s: it is not waited for: behind %q, overtakes %q", row.name, behind, overtakes)
			}
		}
		if (behind != "") != row.behind || (overtakes != "") != row.overtake {
			t.Errorf("a task %s: behind %q, overtakes %q", row.name, behind, overtakes)
		}
		forget(t, l)
	}
}

// open returns a ledger without tasks.
func open(t *testing.T) *state.Ledger {
	l := must.Get(state.Open(t.TempDir(), state.Options{}))(t)
	t.Cleanup(func() { must.Tell(t, l.Close()) })
	return l
}

// forget takes all tasks out of a ledger.
func forget(t *testing.T, l *state.Ledger) {
	must.Do(t, l.Update(t.Context(), state.Soon, func(tx *state.Tx) error {
		all, err := state.Collect(state.Tasks.All(tx, state.Range{}))
		for _, one := range all {
			err = errors.Join(err, state.Tasks.Delete(tx, one.GetId()))
		}
		return err
	}))
}

// TestHalfBrought: what an earlier task has not brought to its end is not read by a task that relied on the whole.
func TestHalfBrought(t *testing.T) {
	l := open(t)
	order := New(l, func() *config.Config { return &config.Config{} }, func(*pb.Task) bool { return true })
	for _, row := range []struct {
		name   string
		ended  pb.TaskState
		after  int // when the task that reads was submitted
		again  bool
		want   error
		refuse bool
	}{
		{"done", task.Done, 10, false, nil, false},
		{"failed", task.Failed, 10, false, mover.ErrRefused, true},
		{"cancelled", task.Cancelled, 10, false, mover.ErrRefused, true},
		{"failed, and is to be done again", task.Failed, 10, true, mover.ErrConflict, true},
		{"failed before it was submitted", task.Failed, 30, false, nil, false},
	} {
		writer, reader := of("ada", 0, "cold:x", "/data"), of("ada", row.after, "/data", "cold:y")
		writer.State, writer.EndTime = row.ended, timestamppb.New(begun.Add(20*time.Second))
		writer.StartTime, writer.Tries, writer.Epoch = writer.CreateTime, 1, 1
		must.Do(t, l.Update(t.Context(), state.Soon, func(tx *state.Tx) error {
			err := errors.Join(state.Tasks.Put(tx, writer), state.Tasks.Put(tx, reader))
			if row.again {
				err = errors.Join(err, state.Tasks.Put(tx, of("ada", 25, "cold:x", "/data")))
			}
			return err
		}))
		must.Do(t, l.View(func(tx *state.Tx) error {
			if err := order.HalfBrought(tx, reader); (err != nil) != row.refuse || !errors.Is(err, row.want) {
				t.Errorf("a writer that is %s: %v, want %v", row.name, err, row.want)
			}
			return nil
		}))
		forget(t, l)
	}
}
