package agent

import (
	"context"

	agentv1 "datamove.dev/api/datamove/agent/v1"
)

// Burst implements agentv1.WorkerServiceServer: it passes on what is known of a burst.
func (p *process) Burst(ctx context.Context, r *agentv1.ReadBurstRequest) (answer *agentv1.ReadBurstResponse, err error) {
	if p.lead == nil {
		return nil, errNoLead
	}
	r.Task, r.Epoch = p.task.GetId(), p.epoch
	err = p.insist(p.traced(ctx, ""), func(ctx context.Context) (err error) { answer, err = p.agent.link.ReadBurst(ctx, r); return err })
	return answer, err
}

// KeepBurst implements agentv1.WorkerServiceServer: the coordinator keeps the record of the burst of the task.
func (p *process) KeepBurst(ctx context.Context, r *agentv1.KeepBurstRequest) (answer *agentv1.KeepBurstResponse, err error) {
	if p.lead == nil {
		return nil, errNoLead
	}
	r.Task, r.Epoch = p.task.GetId(), p.epoch
	err = p.insist(p.traced(ctx, ""), func(ctx context.Context) (err error) { answer, err = p.agent.link.KeepBurst(ctx, r); return err })
	return answer, err
}

// Spend implements agentv1.WorkerServiceServer: it asks for money until there is an answer. The same key again changes nothing.
func (p *process) Spend(ctx context.Context, r *agentv1.SpendRequest) (answer *agentv1.SpendResponse, err error) {
	if p.lead == nil {
		return nil, errNoLead
	}
	r.Task, r.Epoch = p.task.GetId(), p.epoch
	err = p.insist(p.traced(ctx, ""), func(ctx context.Context) (err error) { answer, err = p.agent.link.Spend(ctx, r); return err })
	return answer, err
}
