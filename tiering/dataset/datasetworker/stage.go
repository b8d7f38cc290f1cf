package datasetworker

import (
	"context"

	"datamove.dev/mover/agent/worker"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
)

// Stage is the Runner that brings a replica to a tier, seals it, and reads it again to compare it with the manifest.
type Stage struct{}

// Run implements worker.Runner.
func (Stage) Run(ctx context.Context, j *worker.Job) (engine.Report, error) {
	report, err := j.Transfer(ctx)
	if err != nil || !stagesDataset(j) {
		return report, err
	}
	j.State(engine.Closing, "what is there now is read, to be compared with the manifest")
	described, err := j.Seal(ctx, false) // what is compared is what stays
	if err == nil && !described {
		_, err = describe(ctx, j, j.Spec().GetTarget())
	}
	return report, err
}

// Strict implements worker.Runner.
func (Stage) Strict(j *worker.Job, l location.Location) bool {
	return stagesDataset(j) && isAt(j, l, j.Spec().GetTarget())
}

// stagesDataset reports whether the target of a staging becomes a replica of a version.
func stagesDataset(j *worker.Job) bool { return j.Spec().GetStaging().GetDataset() != "" }
