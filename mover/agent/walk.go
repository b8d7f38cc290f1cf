package agent

import (
	"errors"
	"io"

	agentv1 "datamove.dev/api/datamove/agent/v1"
)

// Walk implements agentv1.WorkerServiceServer: it passes the walk on.
func (p *process) Walk(in agentv1.WorkerService_WalkServer) error {
	if p.lead == nil {
		return errNoLead
	}
	out, err := p.agent.link.PutWalk(p.traced(in.Context(), ""))
	if err != nil {
		return err
	}
	m := &agentv1.PutWalkRequest{Task: p.task.GetId(), Epoch: p.epoch}
	for {
		chunk, err := in.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err // in's context ends out, too
		}
		m.Data = chunk.GetData()
		if out.Send(m) != nil {
			break // CloseAndRecv says why
		}
		m = &agentv1.PutWalkRequest{}
	}
	found, err := out.CloseAndRecv()
	if err != nil {
		return err
	}
	return in.SendAndClose(&agentv1.WalkResponse{Found: found})
}
