package agent

import (
	"context"
	"sync"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/share"
)

// turns gives units of all processes their turn.
type turns struct {
	scheduler *share.Scheduler
	buckets   share.Buckets

	mu    sync.Mutex
	flows map[share.Flow]int             // tasks that have a process here; guarded by mu
	rates map[share.Direction]share.Rate // guarded by mu
}

// limits says whether a direction has a limit.
func (t *turns) limits(d share.Direction) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, has := t.rates[d]
	return has
}

// passTime is how long a process that is alone here asks for no turns. Whoever comes
// waits no longer for its share.
const passTime = 100 * time.Millisecond

// alone reports whether nobody else wants turns, and nothing limits what is charged.
func (t *turns) alone(charges []share.Charge) bool {
	for _, c := range charges {
		if t.limits(share.Direction{Endpoint: c.Endpoint, Write: c.Write}) {
			return false
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.flows) <= 1
}

func newTurns() *turns {
	return &turns{scheduler: share.NewScheduler(share.Options{}), flows: map[share.Flow]int{}}
}

// enter and leave tell that a task has a process here.
func (t *turns) enter(f share.Flow) { t.count(f, 1) }
func (t *turns) leave(f share.Flow) { t.count(f, -1) }

func (t *turns) count(f share.Flow, by int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.flows[f] += by; t.flows[f] <= 0 {
		delete(t.flows, f)
	}
}

// limit sets what this agent may use of the bandwidths that all share, and what projects
// are to have of its turns.
func (t *turns) limit(l *agentv1.Limits) {
	rates := map[share.Direction]share.Rate{}
	for _, r := range l.GetLimits() {
		rates[share.Direction{Endpoint: r.GetEndpoint(), Write: r.GetWrite()}] = share.Rate{Bytes: r.GetBytesPerSecond(), Ops: r.GetOpsPerSecond()}
	}
	t.mu.Lock()
	t.rates = rates
	t.mu.Unlock()
	t.scheduler.SetWeights(share.Weights{Projects: l.GetProjects()})
	_ = t.buckets.Set(rates) // there are fewer than it takes: config bounds them
}

// waits is how long a process has waited for its turns.
type waits struct{ queue, limit time.Duration }

// acquire waits for a turn of a flow and pays the limits of both ends. How many turns run
// at one time follows from what each process says of itself: all flows share what one of
// them would use alone, so that there is a line, and the scheduler decides who is next.
func (t *turns) acquire(ctx context.Context, f share.Flow, c share.Cost, width share.Width, charges []share.Charge) (release func(share.Cost), w waits, err error) {
	if w.limit, err = t.buckets.Wait(ctx, charges); err != nil {
		return nil, w, err
	}
	begun := time.Now()
	release, err = t.scheduler.Acquire(ctx, f, c, width)
	w.queue = time.Since(begun)
	return release, w, err
}

// Pay waits until so much may pass to an endpoint, or from it, of what this node moves and no
// process does: its limits are for all together. How much of them this node has is divided by
// what its tasks move; what others leave is for everybody.
func (a *Agent) Pay(ctx context.Context, endpoint string, write bool, bytes, ops int64) error {
	charge := []share.Charge{{Endpoint: endpoint, Write: write, Bytes: bytes, Ops: ops}}
	waited, err := a.turns.buckets.Wait(ctx, charge)
	a.limitWaited(charge, waited)
	return err
}

// flowOf is whose turns a task takes.
func flowOf(task *pb.Task) share.Flow {
	return share.Flow{Class: task.GetSpec().GetClass(), Project: task.GetSpec().GetProject(), User: task.GetOwner().GetName(), Task: task.GetId()}
}
