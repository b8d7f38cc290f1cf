package agent

import (
	"context"
	"sync"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/fairshare"
)

// turns gives units of all processes their turn.
type turns struct {
	scheduler *fairshare.Scheduler
	buckets   fairshare.Buckets

	mu    sync.Mutex
	flows map[fairshare.Flow]int                 // tasks that have a process here; guarded by mu
	rates map[fairshare.Direction]fairshare.Rate // guarded by mu
}

// limits says whether a direction has a limit.
func (t *turns) limits(d fairshare.Direction) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, has := t.rates[d]
	return has
}

// passTime is how long a process that is alone here asks for no turns. A process that
// comes waits no longer for its share.
const passTime = 100 * time.Millisecond

// alone reports whether no other flow wants turns, and nothing limits what is charged.
func (t *turns) alone(charges []fairshare.Charge) bool {
	for _, c := range charges {
		if t.limits(fairshare.Direction{Endpoint: c.Endpoint, Write: c.Write}) {
			return false
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.flows) <= 1
}

func newTurns() *turns {
	return &turns{scheduler: fairshare.NewScheduler(fairshare.Options{}), flows: map[fairshare.Flow]int{}}
}

// enter and leave tell that a task has a process here.
func (t *turns) enter(f fairshare.Flow) { t.count(f, 1) }
func (t *turns) leave(f fairshare.Flow) { t.count(f, -1) }

func (t *turns) count(f fairshare.Flow, by int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.flows[f] += by; t.flows[f] <= 0 {
		delete(t.flows, f)
	}
}

// limit sets what this agent may use of the bandwidths that all share, and what projects
// are to have of its turns.
func (t *turns) limit(l *agentv1.Limits) {
	rates := map[fairshare.Direction]fairshare.Rate{}
	for _, r := range l.GetLimits() {
		rates[fairshare.Direction{Endpoint: r.GetEndpoint(), Write: r.GetWrite()}] = fairshare.Rate{Bytes: r.GetBytesPerSecond(), Ops: r.GetOpsPerSecond()}
	}
	t.mu.Lock()
	t.rates = rates
	t.mu.Unlock()
	t.scheduler.SetWeights(fairshare.Weights{Projects: l.GetProjects()})
	_ = t.buckets.Set(rates) // there are fewer than it takes: config bounds them
}

// waits is how long a process has waited for its turns.
type waits struct{ queue, limit time.Duration }

// acquire waits for a turn of a flow and pays the limits of both ends. How many turns run
// at one time follows from what each process says of itself: all flows share what one of
// them would use alone, so that flows queue, and the scheduler picks the next one.
func (t *turns) acquire(ctx context.Context, f fairshare.Flow, c fairshare.Cost, width fairshare.Width, charges []fairshare.Charge) (release func(fairshare.Cost), w waits, err error) {
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
	charge := []fairshare.Charge{{Endpoint: endpoint, Write: write, Bytes: bytes, Ops: ops}}
	waited, err := a.turns.buckets.Wait(ctx, charge)
	a.limitWaited(charge, waited)
	return err
}

// flowOf is the flow of a task.
func flowOf(task *pb.Task) fairshare.Flow {
	return fairshare.Flow{Class: task.GetSpec().GetClass(), Project: task.GetSpec().GetProject(), User: task.GetOwner().GetName(), Task: task.GetId()}
}
