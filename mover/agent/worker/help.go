package worker

import (
	"context"
	"log/slog"
	"sync"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/engine/transfer"
	"datamove.dev/mover/telemetry"
)

// help does batches until it is told to stop.
func (w *worker) help(ctx context.Context, stream agentv1.WorkerService_ServeClient) error {
	r, err := w.request()
	if err != nil {
		return err
	}
	r.ExpectedManifest = w.expected()
	r.Lead = &engine.Coordination{AcquireSlot: w.AcquireSlot}
	r.Limiter = w.bandwidth
	helper, err := engine.Help(r, w.Open)
	if err != nil {
		return err
	}
	defer helper.Close()
	w.state.progress(helper)
	b := &batches{worker: w, helper: helper, yields: map[string]chan struct{}{}, stops: map[string]context.CancelFunc{}}
	w.listen(ctx, stream, func(o *agentv1.WorkerOrder) { b.order(ctx, o) })
	b.running.Wait()
	if _, stopped := told(ctx); stopped {
		return nil
	}
	return context.Cause(ctx)
}

// batches are the batches in work.
type batches struct {
	worker  *worker
	helper  *engine.Helper
	running sync.WaitGroup

	mu     sync.Mutex
	yields map[string]chan struct{}      // by batch; guarded by mu
	stops  map[string]context.CancelFunc // by batch; guarded by mu
}

func (b *batches) order(ctx context.Context, o *agentv1.WorkerOrder) {
	switch {
	case o.GetBatch() != nil:
		b.begin(ctx, o.GetBatch())
	case o.GetStop() != nil:
		b.end(o.GetStop())
	}
}

func (b *batches) begin(ctx context.Context, w *agentv1.WorkerBatch) {
	ctx, cancel := context.WithCancel(ctx)
	yield := make(chan struct{})
	b.mu.Lock()
	b.yields[w.GetId()], b.stops[w.GetId()] = yield, cancel
	b.mu.Unlock()
	b.running.Add(1)
	go func() {
		defer b.running.Done()
		defer cancel()
		b.do(ctx, w, yield)
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.yields, w.GetId())
		delete(b.stops, w.GetId())
	}()
}

// end stops one batch, in the way that is meant.
func (b *batches) end(s *agentv1.WorkerStop) {
	b.mu.Lock()
	defer b.mu.Unlock()
	yield, ok := b.yields[s.GetBatch()]
	switch {
	case !ok:
	case s.GetHow() == agentv1.How_HOW_YIELD:
		close(yield)
		delete(b.yields, s.GetBatch()) // not twice
	default:
		b.stops[s.GetBatch()]()
	}
}

func (b *batches) do(ctx context.Context, w *agentv1.WorkerBatch, yield <-chan struct{}) {
	end := &agentv1.EndBatchRequest{Id: w.GetId(), Epoch: w.GetEpoch()}
	if b.worker.trace.on {
		ctx = telemetry.Extract(ctx, w.GetTraceParent())
	}
	ctx, endSpan := telemetry.Span(ctx, "batch", slog.String("batch", w.GetId()))
	reply, err := b.reply(ctx, w, yield)
	endSpan(err)
	if err == nil {
		end.Reply, err = reply.Encode()
	}
	if err != nil {
		end.Error, end.ErrorKind = err.Error(), mover.KindName(err)
	}
	end.Counts = b.worker.counts.wire()
	end.Wants = int32(b.helper.Width())
	tctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	if _, err := b.worker.agent.EndBatch(tctx, end); err != nil {
		b.worker.log.Warn("the agent does not hear that a batch has ended", "batch", w.GetId(), "err", err)
	}
}

func (b *batches) reply(ctx context.Context, w *agentv1.WorkerBatch, yield <-chan struct{}) (*transfer.Reply, error) {
	work, err := transfer.DecodeWork(w.GetWork())
	if err != nil {
		return nil, err
	}
	defer b.worker.agent.forget(w.GetId())
	work.Again, work.Over = work.Again || w.GetAgain(), w.GetOver()
	return b.helper.Do(ctx, int(w.GetPair()), w.GetEpoch(), b.worker.agent.confirm(w.GetId(), w.GetEpoch()), yield, work)
}
