package datasetserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
	"datamove.dev/mover/telemetry"
)

// finds has a look done, as a task of the caller, and waits for its end.
func (s *accessProber) finds(ctx context.Context, c authz.Caller, spec *pb.TaskSpec) error {
	if !s.c.Reachable(c, spec) {
		return &mover.Error{Op: "look at", Location: cmp.Or(spec.GetSource(), spec.GetTarget()), Err: mover.Because(mover.ErrUnreachable, "no agent that could do it is there")}
	}
	t := s.server.newTask(c, spec)
	t.TraceParent = telemetry.Inject(ctx)
	changed, done, err := s.c.Watch(t.GetId())
	if err != nil {
		return err
	}
	defer done()
	if err := s.ledger.Update(ctx, state.Soon, func(tx *state.Tx) error { return state.Tasks.Put(tx, t) }); err != nil {
		return err
	}
	s.looks.forgetLater(t.GetId(), s.now())
	s.c.Submitted(ctx, t)
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for {
		now, err := s.c.Task(t.GetId())
		if err != nil {
			return err
		}
		if task.Ended(now.GetState()) {
			return found(now)
		}
		select {
		case <-changed:
			continue
		case <-again.C:
			if now.GetState() != task.Queued || s.c.Reachable(c, spec) {
				continue
			}
			err = mover.Because(mover.ErrUnreachable, "the agent that could do it has gone")
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		failed := s.c.Cancel(context.WithoutCancel(ctx), now)
		return errors.Join(&mover.Error{Op: "look at", Location: cmp.Or(spec.GetSource(), spec.GetTarget()), Err: err}, failed)
	}
}

// found is what a look has found.
func found(t *pb.Task) error {
	switch t.GetState() {
	case task.Done:
		return nil
	case task.Failed:
		return mover.Because(cmp.Or(mover.KindNamed(t.GetErrorKind()), mover.ErrTransient), "%s", mover.Printable(t.GetError()))
	}
	return fmt.Errorf("%w: the look was cancelled", mover.ErrTransient)
}

// forgetLooks forgets the tasks of looks that are over: there are many, and they have done nothing.
func (s *accessProber) forgetLooks(ctx context.Context) error {
	for _, id := range s.looks.due(s.now().Add(-lookKept)) {
		err := s.ledger.Update(ctx, state.Soon, func(tx *state.Tx) error {
			t, err := state.Tasks.Get(tx, id)
			switch {
			case err != nil:
				return mover.IgnoreNotExist(err)
			case !task.Ended(t.GetState()):
				s.looks.forgetLater(id, s.now())
				return nil
			}
			return state.Tasks.Delete(tx, id)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
