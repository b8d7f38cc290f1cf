package runners

import (
	"testing"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/task"
)

// TestEveryKind: a worker does each kind of task that the coordinator knows, and no other.
func TestEveryKind(t *testing.T) {
	all := Of(nil)
	for n := range pb.TaskKind_name {
		kind := pb.TaskKind(n)
		if _, runs := all[kind]; runs != (task.KindOf(kind).Action != "") {
			t.Errorf("%v: it has a runner: %v", kind, runs)
		}
	}
	if len(all) != len(pb.TaskKind_name)-1 { // without UNSPECIFIED
		t.Errorf("%d runners", len(all))
	}
}
