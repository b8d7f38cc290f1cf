package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/remedy"
	"datamove.dev/mover/task"
	"datamove.dev/mover/task/convert"
	"datamove.dev/mover/telemetry"
)

// lead does the whole task and tells how it ended.
func (w *worker) lead(ctx context.Context) error {
	sctx, endSpan := telemetry.Span(ctx, "move", slog.String("kind", w.Spec().GetKind().String()))
	report, err := w.run(sctx)
	endSpan(err)
	end := &agentv1.EndLeadRequest{Report: convert.Report(report), FirstByteTime: firstByte(w.state.firstPassed())}
	end.Report.Found = w.found
	if err != nil {
		end.Error, end.ErrorKind, end.Untouched, end.Unlike = err.Error(), mover.KindName(err), w.untouched(report, err), errors.Is(err, mover.ErrUnlike)
		end.Report.Remedy = remedy.About(err)
	}
	end.Counts = w.counts.wire()
	how, stopped := told(ctx)
	switch end.Stopped = stopped; {
	case how == agentv1.How_HOW_LOST || errors.Is(err, mover.ErrHeld) && w.lost(ctx):
		w.discard(context.WithoutCancel(ctx), engine.Abandon)
		return nil // the coordinator takes no report of a lost lead
	case stopped && how == agentv1.How_HOW_CANCEL:
		w.discard(context.WithoutCancel(ctx), engine.Discard)
	}
	tctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	_, err = w.agent.EndLead(tctx, end)
	return FromAgent(tctx, err)
}

// untouched says of a task that failed whether it has changed nothing: a removal has not begun, and anything else was refused everywhere.
func (w *worker) untouched(report engine.Report, err error) bool {
	if kind := task.Of(w.Spec()); kind.Brings() && kind.UserPaths {
		return refused(report, err)
	}
	return !w.touched.Load()
}

// refused says of a run that failed whether nothing was done, because the account may do nothing there. A refusal is certain: no other
// failure says that nothing has happened.
func refused(r engine.Report, err error) bool {
	if r.Files+r.Bytes+r.Others+r.Updated+r.Removed != 0 || r.Failed == 0 && err == nil || r.Failed != int64(len(r.Failures)) {
		return false
	}
	for _, f := range r.Failures {
		if !errors.Is(f.Err, mover.ErrPermission) {
			return false
		}
	}
	return r.Failed > 0 || errors.Is(err, mover.ErrPermission)
}

// discard drops what was begun and not published.
func (w *worker) discard(ctx context.Context, drop func(context.Context, engine.Request, engine.Opener) error) {
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	r, err := w.request()
	if err != nil { // it is one that has no drafts
		return
	}
	r.Lead = &engine.Coordination{Epoch: w.order.GetEpoch(), Before: w.order.GetBefore()}
	r.Observer = nil
	if err := drop(ctx, r, w.Open); err != nil {
		w.log.Warn("drafts stay behind; the next run on their target drops them", "err", err)
	}
}

// lost reports whether this worker is not the lead of the task any more.
func (w *worker) lost(ctx context.Context) bool {
	return errors.Is(w.Confirm(context.WithoutCancel(ctx)), mover.ErrHeld)
}

// endTimeout bounds how long the agent may take to hear how it ended.
const endTimeout = 30 * time.Second
