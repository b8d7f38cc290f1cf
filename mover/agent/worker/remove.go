package worker

import (
	"context"
	"errors"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
	"datamove.dev/mover/task"
	"datamove.dev/mover/task/convert"
)

// RemoveTarget removes the target and everything below it. Where the target is there, check says before anything is
// removed why it has to stay; nil is no check.
func (j *Job) RemoveTarget(ctx context.Context, check func(context.Context, engine.Request) error) (engine.Report, error) {
	kind := task.Of(j.Spec())
	target, err := j.At(j.Spec().GetTarget())
	if err != nil {
		return engine.Report{}, err
	}
	r := engine.Request{Target: target, MaxDelete: convert.MaxDelete(j.Spec().GetOptions()), StateDir: j.order.GetStateDir(), Logger: j.log, Observer: j.state}
	err = j.look(ctx, r.Target) // what can not be opened is not touched
	there := err == nil
	if !there && !errors.Is(err, mover.ErrNotExist) {
		return engine.Report{}, err
	}
	if there && check != nil {
		if err := check(ctx, r); err != nil {
			return engine.Report{}, err
		}
	}
	if err := j.Confirm(ctx); err != nil {
		return engine.Report{}, err
	}
	j.Touch() // from here on others can change it, too
	if _, err := j.Seal(ctx, true); err != nil {
		if errors.Is(err, mover.ErrHeld) { // what a pod has was not unsealed
			j.touched.Store(false)
		}
		return engine.Report{}, err
	}
	report, err := engine.RemoveAll(ctx, r.Target, r, j.Open)
	j.touched.Store(!refused(report, err))
	if errors.Is(err, mover.ErrNotExist) && !kind.UserPaths {
		err = nil // a replica that is gone is removed
	}
	if err == nil && report.Failed == 0 {
		j.removeRoot(r.Target)
	}
	return report, err
}

// Seal has the agent seal what was staged, or unseal what is to be removed. described says that the agent has described it.
func (j *Job) Seal(ctx context.Context, off bool) (described bool, err error) {
	r, err := j.agent.Seal(ctx, &agentv1.SealRequest{Off: off})
	return r.GetDescribed(), FromAgent(ctx, err)
}

// look finds out whether a target is there, and can be opened.
func (j *Job) look(ctx context.Context, target location.Location) error {
	for _, err := range engine.List(ctx, target, false, j.Open) {
		return err
	}
	return nil
}

// removeRoot removes the folder itself, but for the root of a tier. It stays if it is not
// empty by now, or if the account may not remove it: its selected content is gone anyway.
func (j *Job) removeRoot(target location.Location) {
	asked, err := convert.Locate(j.Spec().GetTarget())
	if err != nil || asked.InTier() && asked.Path == "" || !target.IsPath() {
		return
	}
	s := j.Resolver()
	s.Strict = j.strict(target)
	if err := s.RemoveEmpty(target); err != nil && !errors.Is(err, mover.ErrNotExist) {
		j.log.Info("an empty folder stays", "path", target.Path, "err", err)
	}
}
