package worker

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/backend"
	"datamove.dev/mover/backend/throttle"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/engine/transfer"
	"datamove.dev/mover/location"
	"datamove.dev/mover/p2p/peer"
	"datamove.dev/mover/task/convert"
)

// Job is one task in the process that does it: what a [Runner] may use. It has the request, opens locations with the
// rights of the owner, calls the agent and the coordinator behind it, and reports progress. All methods but Found may
// be called by many goroutines at once.
type Job struct {
	order     *agentv1.Job
	agent     agent
	options   Options
	log       *slog.Logger
	counts    *counts
	state     *state
	trace     tracer
	bandwidth *throttle.Bandwidth // of this process, of that of the task; nil is unlimited
	swarm     *member             // nil is none
	touched   atomic.Bool         // something may have been removed
	found     string              // for the report; of the goroutine of the Runner alone
}

// NewJob makes the job of an order. [Run] makes the one of its process; a test of a Runner makes its own.
func NewJob(order *agentv1.Job, client agentv1.WorkerServiceClient, o Options) *Job {
	j := &Job{order: order, agent: newAgent(client), options: o, counts: newCounts(order)}
	j.log = slog.New(slog.NewTextHandler(cmp.Or[io.Writer](o.Stderr, io.Discard), &slog.HandlerOptions{Level: levelOf(order.GetLogLevel())})).With("task", order.GetTask())
	j.bandwidth = throttle.NewBandwidth(cmp.Or(order.GetBytesPerSecond(), order.GetSpec().GetOptions().GetBytesPerSecond()))
	j.state = newState(j.log, j.counts, j.bandwidth)
	return j
}

// Spec is the request: what is to be done.
func (j *Job) Spec() *pb.TaskSpec { return j.order.GetSpec() }

// Order is all that the agent said of the task: its ID, owner and epoch, its directory for state, the spec.
func (j *Job) Order() *agentv1.Job { return j.order }

// Log is the log of the task.
func (j *Job) Log() *slog.Logger { return j.log }

// Agent calls the agent, which passes on what the coordinator answers. [FromAgent] translates the errors of all calls and streams.
func (j *Job) Agent() agentv1.WorkerServiceClient { return j.agent.WorkerServiceClient }

// PeerClient asks agents of other nodes, and shows them a ticket.
func (j *Job) PeerClient(ticket string) (*peer.Client, error) {
	client, err := peer.NewClient(j.order.GetAuthorities())
	if err != nil {
		return nil, err
	}
	client.Dial = j.options.Dial
	client.Present(ticket)
	return client, nil
}

// At is the path or bucket that a location on the wire is.
func (j *Job) At(text string) (location.Location, error) {
	l, err := convert.Locate(text)
	if err == nil {
		l, err = j.Resolve(l)
	}
	return l, err
}

// Resolve makes a tier's location the path or bucket that it is.
func (j *Job) Resolve(l location.Location) (location.Location, error) {
	resolver := j.Resolver()
	resolved, ok := resolver.Resolve(l)
	if !ok || resolved.IsDataset() {
		return l, fmt.Errorf("%w: %s is in no tier of this job", mover.ErrUsage, l)
	}
	return resolved, nil
}

// Open opens a backend, and has its calls counted. It is an engine.Opener.
func (j *Job) Open(ctx context.Context, l location.Location, o engine.OpenOptions) (mover.Backend, error) {
	resolver := j.Resolver()
	resolver.Strict = j.strict(l)
	return j.Metered(resolver.Open)(ctx, l, o)
}

// Resolver is the tiers of the job with their secrets, for a component that opens locations by itself, through Metered.
func (j *Job) Resolver() backend.Resolver {
	s := resolverOf(j.order, j.agent.keys, j.options.FileSystem)
	s.Dial = j.options.Dial
	return s
}

// Metered has the calls of what open opens counted.
func (j *Job) Metered(open engine.Opener) engine.Opener {
	if j.options.Around != nil {
		open = j.options.Around(open)
	}
	return j.counts.metered(open)
}

// Request is the spec as a request to the engine, which runs under the lease, slots and rate of this job.
func (j *Job) Request() (engine.Request, error) {
	r, err := j.request()
	if err == nil {
		j.Coordinate(&r)
	}
	return r, err
}

// Coordinate has a request run under the lease, slots and rate of this job.
func (j *Job) Coordinate(r *engine.Request) {
	r.Lead = &engine.Coordination{Epoch: j.order.GetEpoch(), Before: j.order.GetBefore(), IsOver: j.isOver, ConfirmLease: j.Confirm, AcquireSlot: j.AcquireSlot}
	r.Limiter = j.bandwidth
}

// Confirm asks whether the task is still this process's: before each change that no other worker may make.
func (j *Job) Confirm(ctx context.Context) error { return j.agent.confirm("", j.order.GetEpoch())(ctx) }

// isOver asks whether the writer that has the lock of the target was a lead of our service that is over.
func (j *Job) isOver(ctx context.Context, epoch uint64) bool {
	r, err := j.agent.Mine(ctx, &agentv1.MineRequest{Epoch: j.order.GetEpoch(), Holder: epoch})
	return err == nil && r.GetOver()
}

// AcquireSlot waits until a unit of work may begin on this node, and notes when the first byte may pass. It is a transfer.AcquireSlot.
func (j *Job) AcquireSlot(ctx context.Context, ask transfer.SlotRequest) (transfer.Slot, error) {
	endSpan := j.trace.unit(ctx, ask.Bytes, ask.Ops)
	turn, err := j.agent.acquireSlot(ctx, ask, j.swarm != nil)
	if err != nil {
		endSpan(err)
		return turn, err
	}
	if ask.Bytes > 0 {
		j.state.passed(time.Now())
	}
	done := turn.Done
	turn.Done = func(moved int64) { done(moved); endSpan(nil) }
	return turn, nil
}

// Touch notes that the task has begun to remove or change something: from now on its failure leaves the target in doubt.
func (j *Job) Touch() { j.touched.Store(true) }

// Found sets what the report says that the task has found, as JSON.
func (j *Job) Found(text string) { j.found = text }

// State implements engine.Observer: what the task does now, and why it waits.
func (j *Job) State(phase engine.Phase, why string) { j.state.State(phase, why) }

// Item implements engine.Observer: what became of an entry.
func (j *Job) Item(it engine.Item) { j.state.Item(it) }

// Progress has the progress of the task read from these counters from now on.
func (j *Job) Progress(l engine.Live) { j.state.progress(l) }

// request is the spec as a request to the engine, without a lease.
func (j *Job) request() (engine.Request, error) {
	r, err := convert.Request(j.Spec(), j.Resolve)
	if err != nil {
		return r, err
	}
	r.StateDir, r.Logger, r.Observer = j.order.GetStateDir(), j.log, j.state
	return r, nil
}
