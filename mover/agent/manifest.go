package agent

import (
	"errors"
	"io"

	agentv1 "datamove.dev/api/datamove/agent/v1"
)

// Manifest implements agentv1.WorkerServiceServer: it passes the manifest on.
func (p *process) Manifest(_ *agentv1.ManifestRequest, out agentv1.WorkerService_ManifestServer) error {
	if p.lead == nil {
		return errNoLead
	}
	in, err := p.agent.link.ReadManifest(p.traced(out.Context(), ""), &agentv1.ReadManifestRequest{Task: p.task.GetId(), Epoch: p.epoch})
	if err != nil {
		return err
	}
	for {
		chunk, err := in.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = out.Send(&agentv1.ManifestResponse{Data: chunk.GetData()})
		}
		if err != nil {
			return err
		}
	}
}
