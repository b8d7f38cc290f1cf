package burstbuffer

import (
	"context"
	"errors"
	"time"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/tiering/slurm"
)

// silencePatience is how long results wait for a node that does not answer. Slurm begins a job anew on other nodes only when its results
// have left, or can not.
const silencePatience = time.Minute

// silence watches whether the node of a copy answers.
type silence struct {
	since time.Time // zero: it does
}

// gone says whether the node has not answered for too long.
func (s *silence) gone(ctx context.Context, w *work, t *datamovev1.Task) bool {
	waits := t.GetState() == datamovev1.TaskState_TASK_STATE_QUEUED || t.GetSpec().GetLabels()[slurm.PartLabel] == slurm.Watch && !api.Ended(t.GetState())
	if !waits || t.GetSpec().GetNode() == "" || w.answers(ctx, t.GetSpec().GetNode()) {
		s.since = time.Time{}
		return false
	}
	if s.since.IsZero() {
		s.since = time.Now()
	}
	return time.Since(s.since) > silencePatience
}

// answers says whether the agent of a node is there; also when the service can not be asked.
func (w *work) answers(ctx context.Context, node string) bool {
	client, err := w.stage.Client(ctx)
	if err != nil {
		return true
	}
	for a, err := range client.Agents(ctx, &datamovev1.ListAgentsRequest{}) {
		if err != nil {
			return true
		}
		if a.GetName() == node {
			return a.GetState() == datamovev1.AgentState_AGENT_STATE_READY || a.GetState() == datamovev1.AgentState_AGENT_STATE_DRAINING
		}
	}
	return false
}

// put has a copy wait until a person resumes it: what an old run of a job has left on a node that comes back is not to replace what a newer one has
// brought meanwhile. It is no failure of the phase, after which Slurm would not begin the job again.
func (w *work) put(ctx context.Context, d deed, t *datamovev1.Task) error {
	client, err := w.stage.Client(ctx)
	if err == nil {
		_, err = client.PauseTask(ctx, &datamovev1.PauseTaskRequest{Id: t.GetId()})
	}
	if err != nil && !errors.Is(err, mover.ErrConflict) {
		return err
	}
	w.tell("%s: the node does not answer; when it does, datamove task resume %s brings what is there, and datamove task cancel %s gives it up", d.summary(), t.GetId(), t.GetId())
	return nil
}
