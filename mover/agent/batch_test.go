package agent

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// TestTakeBuried: a process that has ended takes no batch, of which nobody would tell.
func TestTakeBuried(t *testing.T) {
	a := &Agent{log: slog.New(slog.DiscardHandler)}
	p := newProcess(a, &pb.Task{Id: "t", Spec: &pb.TaskSpec{}}, nil)
	must.Do(t, p.take("before", &session{}))
	delete(p.batches, "before") // it has told its end
	p.bury(endedByItself(errors.New("signal: killed")))
	if err := p.take("after", &session{}); !errors.Is(err, mover.ErrTransient) {
		t.Errorf("a process that has ended takes a batch: %v", err)
	}
}

// TestStartsHelper: a task has one process, so one start at a time; another task does not wait for it.
func TestStartsHelper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &Agent{starting: map[string]chan struct{}{}}
		first := must.Get(a.startsHelper(t.Context(), "slow"))(t)
		must.Get(a.startsHelper(t.Context(), "other"))(t)()
		var second func()
		go func() { second, _ = a.startsHelper(t.Context(), "slow") }()
		synctest.Wait()
		if second != nil {
			t.Error("two helpers of a task start at once")
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errLeaving)
		if _, err := a.startsHelper(ctx, "slow"); !errors.Is(err, errLeaving) {
			t.Errorf("what waits for a start and is over: %v", err)
		}
		first()
		synctest.Wait()
		if second == nil {
			t.Fatal("the second does not start when the first has")
		}
		second()
		if len(a.starting) != 0 {
			t.Errorf("%v are left", a.starting)
		}
	})
}
