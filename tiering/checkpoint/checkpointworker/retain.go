package checkpointworker

import (
	"context"
	"errors"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/agent/worker"
	"datamove.dev/mover/engine"
	"datamove.dev/tiering/checkpoint"
	"datamove.dev/tiering/checkpoint/replicate"
)

// Retain is the Runner that removes the checkpoints in the target that are not to stay, and notes before that one has come there.
type Retain struct{ worker.FollowsLinks }

// Run implements worker.Runner.
func (Retain) Run(ctx context.Context, j *worker.Job) (report engine.Report, err error) {
	begun := time.Now()
	spec := j.Spec().GetRetention()
	target, err := j.At(j.Spec().GetTarget())
	if err != nil {
		return report, err
	}
	site := &replicate.Site{Open: j.Open, Log: j.Log(), Request: engine.Request{StateDir: j.Order().GetStateDir(), Observer: j}, Trust: replicate.Trust}
	folder, err := site.Folder(ctx, target, checkpoint.Profile(spec.GetProfile()), false)
	if err != nil {
		return report, err
	}
	defer folder.Close()
	if err := j.Confirm(ctx); err != nil {
		return report, err
	}
	j.Touch()
	if name := string(spec.GetArrived()); name != "" {
		if err := site.Vouch(ctx, folder, name, mover.Server); err != nil {
			return report, err
		}
	}
	j.State(engine.Removing, "")
	keep := checkpoint.Keep{Last: int(spec.GetLast()), Every: spec.GetEvery()}
	tiers, err := replicate.Judge(ctx, []*replicate.Folder{folder}, keep)
	if err != nil {
		return report, err
	}
	if err := site.Assure(ctx, tiers, keep); err != nil {
		return report, err
	}
	for _, v := range tiers[0].Verdicts {
		if v.Keep {
			continue
		}
		if err := site.Remove(ctx, tiers[0], v.Name); err != nil && !errors.Is(err, mover.ErrChanged) {
			return report, err
		}
		report.Notes = append(report.Notes, mover.Printable(v.Name)+" was removed: "+v.Why)
	}
	report.Elapsed = time.Since(begun)
	return report, nil
}
