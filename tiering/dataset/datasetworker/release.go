package datasetworker

import (
	"context"
	"errors"
	"fmt"
	"path"

	"datamove.dev/mover"
	"datamove.dev/mover/agent/worker"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
	"datamove.dev/mover/task/convert"
)

// Release is the Runner that removes a replica of which another copy stays.
type Release struct{}

// Run implements worker.Runner.
func (Release) Run(ctx context.Context, j *worker.Job) (engine.Report, error) {
	return j.RemoveTarget(ctx, func(ctx context.Context, r engine.Request) error { return mayRelease(ctx, j, r) })
}

// Strict implements worker.Runner.
func (Release) Strict(j *worker.Job, l location.Location) bool {
	return isAt(j, l, j.Spec().GetTarget()) || isAt(j, l, j.Spec().GetSource())
}

// Purge is the Runner that removes scratch of which no other copy is promised.
type Purge struct{}

// Run implements worker.Runner.
func (Purge) Run(ctx context.Context, j *worker.Job) (engine.Report, error) {
	return j.RemoveTarget(ctx, nil)
}

// Strict implements worker.Runner.
func (Purge) Strict(j *worker.Job, l location.Location) bool { return isAt(j, l, j.Spec().GetTarget()) }

// mayRelease looks, before anything is removed, at what the ledger can only believe: that
// the replica is what it was, and that the copy which is to survive it is there.
func mayRelease(ctx context.Context, j *worker.Job, r engine.Request) error {
	spec := j.Spec()
	if spec.GetOptions().GetChecksum() {
		j.State(engine.Locking, "what is to be removed is read, to see that it is what it was")
		if _, err := describe(ctx, j, spec.GetTarget()); err != nil {
			return err
		}
	}
	if spec.GetSource() == "" {
		return nil
	}
	survivor, err := j.At(spec.GetSource())
	if err != nil {
		return err
	}
	j.State(engine.Locking, "the copy that stays is compared with what is to be removed")
	err = engine.VerifySurvivingCopy(ctx, r.Target, survivor, r, j.Open)
	if errors.Is(err, mover.ErrChanged) { // times may differ and contents not: its digest tells
		j.State(engine.Locking, "the copy that stays is read, because it is not plain that it is what it was")
		_, err = describe(ctx, j, spec.GetSource())
	}
	if errors.Is(err, mover.ErrChanged) || errors.Is(err, mover.ErrConflict) || errors.Is(err, mover.ErrNotExist) {
		err = &mover.Error{Op: "release", Location: spec.GetTarget(), Err: fmt.Errorf("it stays, because %s is no other copy of it any more (%s): %w",
			mover.Printable(spec.GetSource()), err.Error(), mover.ErrCorrupt)}
	}
	return err
}

// isAt says whether a path is that of a location in a tier, or the folder around it.
func isAt(j *worker.Job, l location.Location, text string) bool {
	asked, err := convert.Locate(text)
	if err != nil || !asked.InTier() || !l.IsPath() {
		return false
	}
	at, err := j.Resolve(asked)
	return err == nil && (l.Path == at.Path || asked.Path != "" && l.Path == path.Dir(at.Path))
}
