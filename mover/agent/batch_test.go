package agent

import (
	"errors"
	"log/slog"
	"testing"

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
