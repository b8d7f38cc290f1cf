package task

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "datamove.dev/api/datamove/v1"
)

// TestQueuedForNothing: what a task waits for that no agent takes is said by itself, once, and what the task says is said before it.
func TestQueuedForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var screen strings.Builder
		w := &Watcher{Task: &Request{Command: "copy"}, Screen: &screen}
		queuedTask := &pb.Task{State: pb.TaskState_TASK_STATE_QUEUED}
		ctx, stop := context.WithCancel(t.Context())
		var asking sync.WaitGroup
		asking.Go(func() {
			w.asks(ctx, func() (*pb.Explanation, error) {
				return &pb.Explanation{Text: "only n9 can do it, which is not an agent of this service", Advice: "have it join"}, nil
			})
		})
		w.hear(queuedTask)
		time.Sleep(3 * turnTime)
		synctest.Wait()
		queuedTask.Why = "task x writes to the same place"
		w.hear(queuedTask)
		time.Sleep(3 * turnTime)
		synctest.Wait()
		w.hear(&pb.Task{State: pb.TaskState_TASK_STATE_RUNNING})
		time.Sleep(3 * turnTime)
		stop()
		asking.Wait()
		want := "datamove: copy: queued: only n9 can do it, which is not an agent of this service; try: have it join\ndatamove: copy: queued: task x writes to the same place\n"
		if got := screen.String(); got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
	})
}
