package agent

import (
	"context"

	agentv1 "datamove.dev/api/datamove/agent/v1"
)

// Checkpoints implements agentv1.WorkerServiceServer: it passes on which checkpoints are in a tier.
func (p *process) Checkpoints(ctx context.Context, r *agentv1.TellCheckpointsRequest) (*agentv1.TellCheckpointsResponse, error) {
	if p.lead == nil {
		return nil, errNoLead
	}
	r.Task, r.Epoch = p.task.GetId(), p.epoch
	return p.agent.link.TellCheckpoints(p.traced(ctx, ""), r)
}
