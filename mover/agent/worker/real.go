package worker

import (
	"context"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover/engine"
)

// tellReal says where paths are without symbolic links, as this account sees them.
func (w *worker) tellReal(ctx context.Context) error {
	var all []engine.Named
	for _, p := range w.order.GetResolve() {
		all = append(all, engine.Named{Path: p.GetPath(), Itself: p.GetItself()})
	}
	_, err := w.agent.Real(ctx, &agentv1.RealRequest{Paths: engine.RealPaths(all)})
	return FromAgent(ctx, err)
}
