package siege

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/task"
)

// Who submits with a key while the coordinator is killed, and asks again with the
// same key, has one task, whatever was lost in between.
func TestSubmittedTwice(t *testing.T) {
	t.Parallel()
	s := newSite(t, plan{})
	const many = 40
	request := func(i int) *pb.SubmitTaskRequest {
		return &pb.SubmitTaskRequest{IdempotencyKey: fmt.Sprint("key-", i), Spec: &pb.TaskSpec{
			Kind: pb.TaskKind_TASK_KIND_COPY, Source: "shared:a", Target: fmt.Sprint("shared:b", i)}}
	}
	ids := make([]string, many)
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() {
			time.Sleep(time.Duration(i) * 5 * time.Millisecond) // some before the kill, some while there is nobody
			got, err := s.Submit(context.Background(), request(i))
			if err != nil {
				t.Errorf("submit %d: %v", i, err)
			}
			ids[i] = got.GetId()
		})
	}
	for range 2 {
		time.Sleep(40 * time.Millisecond) // a kill finds some on their way
		s.crash()
		s.start()
	}
	all.Wait()
	for i := range many {
		got, err := s.Submit(t.Context(), request(i))
		if err != nil || got.GetId() != ids[i] {
			t.Errorf("key %d was task %s and is %s: %v", i, ids[i], got.GetId(), err)
		}
	}
	l, err := s.ListTasks(t.Context(), &pb.ListTasksRequest{PageSize: 1000})
	check(t, err)
	if len(l.GetTasks()) != many {
		t.Errorf("of %d keys there are %d tasks", many, len(l.GetTasks()))
	}
}

// Of two tasks with one target the second waits, and says for whom. A process that
// works by itself finds the target held: it ends with 5, and so does the task that
// finds such a process there.
func TestOverlappingTargets(t *testing.T) {
	long(t)
	t.Parallel()
	s := newSite(t, plan{nodes: []string{"n1"}})
	f := s.files("target")
	first := f.copy(slowly...)
	first.moving(begun)
	alone := s.tool.Do(t, 5, "copy", "--service", "none", f.from(), f.to())
	if said := alone.Stderr(); !strings.Contains(said, "held by another run") || !strings.Contains(said, "process ") {
		t.Errorf("a process beside a task: %s", said)
	}
	second := f.copy()
	second.until("the second says for whom it waits", func(now *pb.Task) bool { return strings.Contains(now.GetWhy(), first.id) })
	first.done()
	second.done()
	f.arrived()

	byHand := s.tool.Start(t, append([]string{"copy", "--service", "none", f.from(), s.path("shared/third")}, slowly...)...)
	byHand.Until("it has drafts", func() bool {
		drafts, _ := filepath.Glob(s.path("shared/third/*/.datamove-*"))
		return len(drafts) > 0
	})
	third := s.order("copy", "shared:source", "shared:third")
	third.ends(5, task.Failed)
	if now := third.now(); !strings.Contains(now.GetError(), fmt.Sprint("process ", byHand.PID())) {
		t.Errorf("a task beside a process: %s", now.GetError())
	}
	byHand.Want(0)
}
