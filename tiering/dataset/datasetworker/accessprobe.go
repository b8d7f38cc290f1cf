package datasetworker

import (
	"context"
	"time"

	"datamove.dev/mover/agent/worker"
	"datamove.dev/mover/engine"
)

// AccessProbe is the Runner of the question whether the owner may read the source.
type AccessProbe struct{ worker.FollowsLinks }

// Run implements worker.Runner.
func (AccessProbe) Run(ctx context.Context, j *worker.Job) (engine.Report, error) {
	begun := time.Now()
	l, err := j.At(j.Spec().GetSource())
	if err == nil {
		err = engine.ProbeAccess(ctx, l, j.Open)
	}
	return engine.Report{Elapsed: time.Since(begun)}, err
}
