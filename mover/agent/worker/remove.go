package worker

import (
	"context"
	"errors"
	"fmt"
	"path"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
	"datamove.dev/mover/task"
	"datamove.dev/mover/task/convert"
)

// remove removes the target and everything below it.
func (w *worker) remove(ctx context.Context) (engine.Report, error) {
	kind := task.Of(w.job.GetSpec())
	r, err := w.removal()
	if err != nil {
		return engine.Report{}, err
	}
	err = w.look(ctx, r.Target) // what can not be opened is not touched
	there := err == nil
	if !there && !errors.Is(err, mover.ErrNotExist) {
		return engine.Report{}, err
	}
	if there && kind.Replica {
		if err := w.mayRelease(ctx, r); err != nil {
			return engine.Report{}, err
		}
	}
	if err := w.agent.mine("", w.job.GetEpoch())(ctx); err != nil {
		return engine.Report{}, err
	}
	w.touched.Store(true) // from here on others can change it, too
	if _, err := w.seal(ctx, true); err != nil {
		if errors.Is(err, mover.ErrHeld) { // what a pod has was not unsealed
			w.touched.Store(false)
		}
		return engine.Report{}, err
	}
	report, err := engine.RemoveAll(ctx, r.Target, r, w.open)
	w.touched.Store(!refused(report, err))
	if errors.Is(err, mover.ErrNotExist) && !kind.UserPaths {
		err = nil // a replica that is gone is removed
	}
	if err == nil && report.Failed == 0 {
		w.removeRoot(r.Target)
	}
	return report, err
}

// seal has the agent seal what was staged, or unseal what is to be removed. described says that the agent has described it.
func (w *worker) seal(ctx context.Context, off bool) (described bool, err error) {
	r, err := w.agent.Seal(ctx, &agentv1.SealRequest{Off: off})
	return r.GetDescribed(), fromAgent(ctx, err)
}

// look finds out whether a target is there, and can be opened.
func (w *worker) look(ctx context.Context, target location.Location) error {
	for _, err := range engine.List(ctx, target, false, w.open) {
		return err
	}
	return nil
}

// mayRelease looks, before anything is removed, at what the ledger can only believe: that
// the replica is what it was, and that the copy which is to survive it is there.
func (w *worker) mayRelease(ctx context.Context, r engine.Request) error {
	spec := w.job.GetSpec()
	if spec.GetOptions().GetChecksum() {
		w.state.State(engine.Locking, "what is to be removed is read, to see that it is what it was")
		if _, err := w.describe(ctx, spec.GetTarget()); err != nil {
			return err
		}
	}
	if spec.GetSource() == "" {
		return nil
	}
	survivor, err := w.at(spec.GetSource())
	if err != nil {
		return err
	}
	w.state.State(engine.Locking, "the copy that stays is compared with what is to be removed")
	err = engine.VerifySurvivingCopy(ctx, r.Target, survivor, r, w.open)
	if errors.Is(err, mover.ErrChanged) { // times may differ and contents not: its digest tells
		w.state.State(engine.Locking, "the copy that stays is read, because it is not plain that it is what it was")
		_, err = w.describe(ctx, spec.GetSource())
	}
	if errors.Is(err, mover.ErrChanged) || errors.Is(err, mover.ErrConflict) || errors.Is(err, mover.ErrNotExist) {
		err = &mover.Error{Op: "release", Place: spec.GetTarget(), Err: fmt.Errorf("it stays, because %s is no other copy of it any more (%s): %w",
			mover.Printable(spec.GetSource()), err.Error(), mover.ErrCorrupt)}
	}
	return err
}

// removeRoot removes the folder itself, but for the root of a tier. It stays if it is not
// empty by now, or if the account may not remove it: its selected content is gone anyway.
func (w *worker) removeRoot(target location.Location) {
	asked, err := convert.Locate(w.job.GetSpec().GetTarget())
	if err != nil || asked.InTier() && asked.Path == "" || !target.IsPath() {
		return
	}
	s := w.site()
	s.Strict = w.strict(target)
	if err := s.RemoveEmpty(target); err != nil && !errors.Is(err, mover.ErrNotExist) {
		w.log.Info("an empty folder stays", "path", target.Path, "err", err)
	}
}

// isAt says whether a path is that of a location in a tier, or the folder around it.
func (w *worker) isAt(l location.Location, text string) bool {
	asked, err := convert.Locate(text)
	if err != nil || !asked.InTier() || !l.IsPath() {
		return false
	}
	at, err := w.resolve(asked)
	return err == nil && (l.Path == at.Path || asked.Path != "" && l.Path == path.Dir(at.Path))
}
