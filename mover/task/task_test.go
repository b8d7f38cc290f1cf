package task_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/task"
)

var states = []pb.TaskState{task.Queued, task.Running, task.Paused, task.Done, task.Failed, task.Cancelled}

// TestLifeCycle is the drawing of the table.
func TestLifeCycle(t *testing.T) {
	var drawing []string
	for _, from := range states {
		var to []string
		for _, s := range states {
			if task.May(from, s) {
				to = append(to, task.Word(s))
			}
		}
		drawing = append(drawing, strings.TrimSpace(fmt.Sprintf("%-9s -> %s", task.Word(from), strings.Join(to, " "))))
	}
	want := `queued    -> running paused failed cancelled
running   -> queued paused done failed cancelled
paused    -> queued failed cancelled
done      ->
failed    ->
cancelled ->`
	if got := strings.Join(drawing, "\n"); got != want {
		t.Errorf("the life of a task is\n%s\nwant\n%s", got, want)
	}
}

func TestMove(t *testing.T) {
	for _, from := range states {
		for _, to := range states {
			m := &pb.Task{Id: "x", State: from, Revision: 7}
			err := task.Move(m, to)
			if said := (*mover.Error)(nil); errors.As(err, &said) && said.Op == "" {
				t.Errorf("%v -> %v: %v does not say what can not be done", from, to, err)
			}
			switch {
			case task.May(from, to) && (err != nil || m.State != to || m.Revision != 8):
				t.Errorf("%v -> %v: %v, now %v", from, to, err, m)
			case !task.May(from, to) && (!errors.Is(err, mover.ErrConflict) || m.State != from || m.Revision != 7):
				t.Errorf("%v -> %v: %v, now %v", from, to, err, m)
			}
		}
		if task.Ended(from) != (len(slices.DeleteFunc(slices.Clone(states), func(s pb.TaskState) bool { return !task.May(from, s) })) == 0) {
			t.Errorf("%v: Ended says %v", from, task.Ended(from))
		}
	}
}

func TestIDs(t *testing.T) {
	seen := map[string]bool{}
	last := ""
	for i := range 1000 {
		id := task.NewID(time.UnixMilli(1_790_000_000_000 + int64(i)))
		if !task.ValidID(id) || seen[id] || id <= last {
			t.Fatalf("id %q after %q", id, last)
		}
		seen[id], last = true, id
	}
	for _, bad := range []string{"", "..", "0123456789abcdefghj/", strings.Repeat("l", 20), strings.Repeat("0", 21)} {
		if task.ValidID(bad) {
			t.Errorf("%q passes for an id", bad)
		}
	}
}

func TestClasses(t *testing.T) {
	for kind, want := range map[pb.TaskKind]pb.TaskClass{
		pb.TaskKind_TASK_KIND_COPY: pb.TaskClass_TASK_CLASS_REPLICATE, pb.TaskKind_TASK_KIND_STAGE: pb.TaskClass_TASK_CLASS_STAGE,
	} {
		if got := task.ClassOf(&pb.TaskSpec{Kind: kind}); got != want {
			t.Errorf("%v is %v, want %v", kind, got, want)
		}
	}
	if got := task.ClassOf(&pb.TaskSpec{Class: pb.TaskClass_TASK_CLASS_RESTORE}); got != pb.TaskClass_TASK_CLASS_RESTORE {
		t.Errorf("a class that is said becomes %v", got)
	}
}

// TestDestroys: of each kind it is said whether it takes something away, also of those to come.
func TestDestroys(t *testing.T) {
	const copies, removes = false, true
	want := map[pb.TaskKind]bool{
		pb.TaskKind_TASK_KIND_UNSPECIFIED: copies, pb.TaskKind_TASK_KIND_COPY: copies, pb.TaskKind_TASK_KIND_SYNC: copies, pb.TaskKind_TASK_KIND_VERIFY: copies,
		pb.TaskKind_TASK_KIND_DESCRIBE: copies, pb.TaskKind_TASK_KIND_STAGE: copies, pb.TaskKind_TASK_KIND_LOOK: copies, pb.TaskKind_TASK_KIND_SCAN: copies,
		pb.TaskKind_TASK_KIND_UNDO: copies, pb.TaskKind_TASK_KIND_FOLLOW: copies, pb.TaskKind_TASK_KIND_CHECKPOINTS: copies, pb.TaskKind_TASK_KIND_BURST: copies,
		pb.TaskKind_TASK_KIND_REMOVE: removes, pb.TaskKind_TASK_KIND_RELEASE: removes, pb.TaskKind_TASK_KIND_PURGE: removes, pb.TaskKind_TASK_KIND_TIER: removes,
		pb.TaskKind_TASK_KIND_RETAIN: removes,
	}
	for n, name := range pb.TaskKind_name {
		kind := pb.TaskKind(n)
		if is, said := want[kind]; !said || task.Destroys(&pb.TaskSpec{Kind: kind}) != is {
			t.Errorf("%s removes %v", name, !is)
		}
	}
	for _, spec := range []*pb.TaskSpec{
		{Kind: pb.TaskKind_TASK_KIND_SYNC, Options: &pb.Options{RemoveExtra: true}},
		{Kind: pb.TaskKind_TASK_KIND_BURST, Burst: &pb.BurstWork{Step: pb.BurstStep_BURST_STEP_DOWN}},
	} {
		if !task.Destroys(spec) {
			t.Errorf("%v does not remove", spec)
		}
	}
}

// TestIDsAreInOrder: ids that are made in one millisecond follow each other as they were made.
func TestIDsAreInOrder(t *testing.T) {
	now, last := time.UnixMilli(1_790_000_000_000), ""
	for i := range 10_000 {
		id := task.NewID(now)
		if id <= last || !task.ValidID(id) {
			t.Fatalf("id %d is %s, after %s", i, id, last)
		}
		last = id
	}
	if later := task.NewID(now.Add(time.Millisecond)); later <= last {
		t.Errorf("a millisecond later: %s, after %s", later, last)
	}
}

// TestKinds: each kind of the wire has its facts, which do not contradict each other.
func TestKinds(t *testing.T) {
	for n, name := range pb.TaskKind_name {
		kind := task.KindOf(pb.TaskKind(n))
		if n == 0 {
			if !reflect.ValueOf(kind).IsZero() {
				t.Errorf("%s has facts: %+v", name, kind)
			}
			continue
		}
		switch {
		case kind.Command == "" || kind.Action == "":
			t.Errorf("%s has no command or no permission", name)
		case kind.Moves && !kind.ReadsSource, kind.Standing && !kind.Housekeeping, kind.Feed && !kind.Standing,
			kind.RemovesTarget && (kind.Moves || kind.ReadOnly || kind.Destroys == nil),
			kind.ReadOnly && (kind.Overwrites || kind.Destroys != nil),
			kind.UserPaths && !kind.Submitted, kind.Submitted && (kind.Housekeeping || kind.Replica || kind.Probe),
			kind.Replica && kind.Overwrites:
			t.Errorf("%s contradicts itself: %+v", name, kind)
		}
	}
	if word := task.KindWord(pb.TaskKind_TASK_KIND_COPY); word != "copy" {
		t.Errorf("the word of copy is %q", word)
	}
}
