package agent

import (
	"errors"
	"io"

	agentv1 "datamove.dev/api/datamove/agent/v1"
)

// Items implements agentv1.WorkerServiceServer: it passes on what is to be done for a run of a policy.
func (p *process) Items(_ *agentv1.ItemsRequest, out agentv1.WorkerService_ItemsServer) error {
	if p.lead == nil {
		return errNoLead
	}
	in, err := p.agent.link.ReadItems(p.traced(out.Context(), ""), &agentv1.ReadItemsRequest{Task: p.task.GetId(), Epoch: p.epoch})
	if err != nil {
		return err
	}
	for {
		some, err := in.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = out.Send(some)
		}
		if err != nil {
			return err
		}
	}
}
