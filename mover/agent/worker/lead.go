package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/engine/transfer"
	"datamove.dev/mover/remedy"
	"datamove.dev/mover/task"
	"datamove.dev/mover/task/convert"
	"datamove.dev/mover/telemetry"
)

// lead does the whole task and tells how it ended.
func (w *worker) lead(ctx context.Context) error {
	sctx, endSpan := telemetry.Span(ctx, "move", slog.String("kind", w.job.GetSpec().GetKind().String()))
	report, err := w.work(sctx)
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
	return fromAgent(tctx, err)
}

// untouched says of a task that failed whether it has changed nothing: a removal has not begun, and anything else was refused everywhere.
func (w *worker) untouched(report engine.Report, err error) bool {
	if kind := task.Of(w.job.GetSpec()); kind.Brings() && kind.UserPaths {
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
	r.Lead = &engine.Coordination{Epoch: w.job.GetEpoch(), Before: w.job.GetBefore()}
	r.Observer = nil
	if err := drop(ctx, r, w.open); err != nil {
		w.log.Warn("drafts stay behind; the next run on their target drops them", "err", err)
	}
}

// lost reports whether this worker is not the lead of the task any more.
func (w *worker) lost(ctx context.Context) bool {
	return errors.Is(w.agent.mine("", w.job.GetEpoch())(context.WithoutCancel(ctx)), mover.ErrHeld)
}

// endTimeout bounds how long the agent may take to hear how it ended.
const endTimeout = 30 * time.Second

// move is the run of a task that the engine does: it compares, and copies if it may.
func (w *worker) move(ctx context.Context) (engine.Report, error) {
	r, err := w.request()
	if err != nil {
		return engine.Report{}, err
	}
	if r.ExpectedManifest, err = w.expect(ctx); err != nil {
		return engine.Report{}, err
	}
	r.Lead = &engine.Coordination{Epoch: w.job.GetEpoch(), Before: w.job.GetBefore(), ConfirmLease: w.agent.mine("", w.job.GetEpoch()), AcquireSlot: w.turn, SaveDraft: w.keep, InheritedDrafts: w.over()}
	r.Limiter = w.bandwidth
	if w.swarm != nil {
		r.Lead.Swarm = w.swarm
	}
	if w.job.GetMayCrew() {
		r.Lead.Helpers = func(pair int) transfer.Helpers { return &crew{w.agent, pair} }
	}
	task, err := engine.Start(ctx, r, w.open)
	if err != nil {
		return engine.Report{}, err
	}
	w.state.sees(task)
	report, err := task.Wait()
	report.Notes = append(report.Notes, w.swarm.notes()...)
	if r.Work == engine.Verify { // nothing is moved: what counts is what was read
		report.Bytes = task.Snapshot().BytesDone
	}
	if err != nil && report.Failed > 0 && ctx.Err() == nil {
		err = &someFailed{report.Failed, err}
	}
	return report, err
}

// someFailed is the end of a task of which items failed.
type someFailed struct {
	n   int64
	err error
}

func (e *someFailed) Error() string {
	return fmt.Sprintf("%d items failed; the gravest: %v", e.n, e.err)
}
func (e *someFailed) Unwrap() error { return e.err }

// turn notes when the first byte may pass.
func (w *worker) turn(ctx context.Context, ask transfer.SlotRequest) (transfer.Slot, error) {
	endSpan := w.trace.unit(ctx, ask.Bytes, ask.Ops)
	turn, err := w.agent.turn(ctx, ask, w.swarm != nil)
	if err != nil {
		endSpan(err)
		return turn, err
	}
	if ask.Bytes > 0 {
		w.state.passed(time.Now())
	}
	done := turn.Done
	turn.Done = func(moved int64) { done(moved); endSpan(nil) }
	return turn, nil
}

func (w *worker) keep(ctx context.Context, d engine.Draft, on bool) error {
	_, err := w.agent.Note(ctx, &agentv1.NoteRequest{Draft: &agentv1.KeptDraft{Pair: int32(d.Pair), Token: string(d.Token), Pieces: d.Pieces, Number: d.Number}, On: on})
	return fromAgent(ctx, err)
}

func (w *worker) over() (drafts []engine.Draft) {
	for _, d := range w.job.GetOver() {
		drafts = append(drafts, engine.Draft{Pair: int(d.GetPair()), Token: mover.Token(d.GetToken()), Pieces: d.GetPieces()})
	}
	return drafts
}

// crew is the other agents, through ours. It is a transfer.Helpers of one pair.
type crew struct {
	agent agent
	pair  int
}

func (c *crew) Wanted(ctx context.Context) (others int, err error) {
	r, err := c.agent.Wanted(ctx, &agentv1.WantedRequest{})
	return int(r.GetAgents()), fromAgent(ctx, err)
}

func (c *crew) Give(ctx context.Context, work *transfer.Work) (*transfer.Reply, error) {
	b, err := work.Encode()
	if err != nil {
		return nil, err
	}
	r, err := c.agent.Hand(ctx, &agentv1.HandRequest{
		Pair: int32(c.pair), Work: b, Bytes: work.Bytes(), Entries: work.Entries(), Parts: work.Parts != nil,
	})
	switch {
	case err != nil:
		return nil, fromAgent(ctx, err)
	case r.GetNobody() && len(r.GetOver()) > 0:
		return nil, &transfer.Begun{Over: r.GetOver()}
	case r.GetNobody():
		return nil, transfer.ErrNobody
	case r.GetSilent():
		return nil, transfer.ErrSilent
	}
	return transfer.DecodeReply(r.GetReply())
}
