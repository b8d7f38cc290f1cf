package agent

import (
	"context"
	"errors"
	"io"

	agentv1 "datamove.dev/api/datamove/agent/v1"
)

// Follow implements agentv1.WorkerServiceServer: it passes on what is said of changes in a tier, and what is asked of it.
func (p *process) Follow(worker agentv1.WorkerService_FollowServer) error {
	if p.lead == nil {
		return errNoLead
	}
	ctx, end := context.WithCancel(p.traced(worker.Context(), ""))
	defer end()
	coordinator, err := p.agent.link.Follow(ctx)
	if err != nil {
		return err
	}
	if err := coordinator.Send(&agentv1.FollowRequest{Task: p.task.GetId(), Epoch: p.epoch}); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	go func() { // ends with the worker's stream, which ends with this call
		defer end()
		for {
			r, err := worker.Recv()
			if err != nil || coordinator.Send(r) != nil { // coordinator.Recv says why
				return
			}
		}
	}()
	for {
		r, err := coordinator.Recv()
		if err == nil {
			err = worker.Send(r)
		}
		if err != nil {
			return err
		}
	}
}
