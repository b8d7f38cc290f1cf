package agent

import (
	"errors"
	"fmt"
	"io"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover"
)

// Manifest implements agentv1.WorkerServiceServer: it passes the manifest on, where the lead is to compare with it. Others could learn from it
// what is in a dataset that their user may not read.
func (p *process) Manifest(_ *agentv1.ManifestRequest, out agentv1.WorkerService_ManifestServer) error {
	if p.lead == nil {
		return errNoLead
	}
	if !p.job.GetExpects() {
		return fmt.Errorf("%w: task %s compares nothing with a manifest", mover.ErrPermission, p.task.GetId())
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
