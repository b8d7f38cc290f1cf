package rig

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/test/bufconn"

	"datamove.dev/cmd/datamoved/runners"
	"datamove.dev/mover"
	"datamove.dev/mover/agent"
	"datamove.dev/mover/agent/sandbox"
	"datamove.dev/mover/agent/worker"
)

// firstPID is a number that no process has.
const firstPID = 1<<22 + 1

// workers are the goroutines that work for the agents of a cluster.
type workers struct {
	cluster *Cluster
	died    sync.Map // addresses of those that were killed before their end

	mu   sync.Mutex
	all  map[int]*goroutine // by PID; guarded by mu, as next and what goroutines say of it
	next int
}

// goroutine is a worker.
type goroutine struct {
	workers  *workers
	agent    string
	pid      int
	life     *life
	ours     net.Conn // the end of the agent
	theirs   net.Conn
	stop     context.CancelCauseFunc
	confined chan struct{} // closed by Confine
	done     chan struct{}

	state string // the directory of its journals; "" before Confine. Guarded by workers.mu, as all below
	image string // of state, when it was killed; "" is none
}

// ready starts a worker. It is agent.Options.Ready.
func (w *workers) ready(agentName string) func(sandbox.Options) (agent.Waiting, error) {
	return func(sandbox.Options) (agent.Waiting, error) {
		ours, theirs := pipe()
		ctx, stop := context.WithCancelCause(context.Background())
		w.mu.Lock()
		defer w.mu.Unlock()
		g := &goroutine{
			workers: w, agent: agentName, pid: firstPID + w.next, life: w.newLife(agentName, firstPID+w.next), ours: ours, theirs: theirs, stop: stop,
			confined: make(chan struct{}), done: make(chan struct{}),
		}
		g.life.ends = g.kill
		w.next++
		w.all[g.pid] = g
		go g.run(ctx)
		return waiting{g}, nil
	}
}

// newLife is the life of a worker in the weather of the cluster.
func (w *workers) newLife(agentName string, pid int) *life {
	return newLife(w.cluster.refused, func(op string) (time.Duration, bool) {
		if weather := w.cluster.weather.Load(); weather != nil {
			return (*weather).Call(agentName, pid, op)
		}
		return 0, false
	})
}

// pipe is a connection in memory.
func pipe() (net.Conn, net.Conn) {
	l := bufconn.Listen(connBytes)
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, _ := l.Accept() // only we dial
		accepted <- c
	}()
	dialled, err := l.Dial()
	if err != nil {
		panic(err) // it is open
	}
	return <-accepted, dialled
}

func (g *goroutine) run(ctx context.Context) {
	defer close(g.done)
	select {
	case <-g.confined:
		_ = worker.Run(ctx, &conn{Conn: g.theirs, life: g.life, broken: make(chan struct{})}, worker.Options{Runners: runners.Of(nil), Stderr: testWriter{}, Around: g.life.around, Dial: g.dial})
	case <-ctx.Done():
	}
	_ = g.theirs.Close()
	g.life.hangUp()
	w := g.workers
	w.mu.Lock()
	delete(w.all, g.pid)
	state, image := g.state, g.image
	w.mu.Unlock()
	if image == "" {
		return
	}
	again := restore
	if w.sharing(g, state) {
		again = restoreUnlocked
	}
	if err := again(state, image); err != nil {
		w.cluster.t.Errorf("the state of a worker that was killed: %v", err)
	}
}

// sharing reports whether another worker has the same journals.
func (w *workers) sharing(g *goroutine, state string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, other := range w.all {
		if other != g && other.state == state {
			return true
		}
	}
	return false
}

// kill ends the goroutine; it does nothing any more.
func (g *goroutine) kill() {
	select {
	case <-g.done:
	default:
		g.workers.died.Store(g.address(), true)
	}
	g.life.kill()
	g.stop(errKilled)
	_ = g.theirs.Close()
	_ = g.ours.Close()
}

// waiting is a goroutine that waits to hear what it may reach.
type waiting struct{ *goroutine }

// Confine implements agent.Waiting.
func (w waiting) Confine(_ context.Context, roots sandbox.Confinement, _ func(string)) (agent.Worker, error) {
	if err := w.life.does("begin"); err != nil {
		return nil, fmt.Errorf("%w: it ended before it was ready", mover.ErrTransient)
	}
	w.workers.mu.Lock()
	defer w.workers.mu.Unlock()
	if w.life.isDead() {
		return nil, fmt.Errorf("%w: it ended before it was ready", mover.ErrTransient)
	}
	if len(roots.Write) > 0 {
		w.state = roots.Write[0]
	}
	close(w.confined)
	return running(w), nil
}

// Stop implements agent.Waiting.
func (w waiting) Stop() error { return running(w).Stop(0) }

// running is a goroutine that works.
type running struct{ *goroutine }

// Conn implements agent.Worker.
func (r running) Conn() net.Conn { return r.ours }

// PID implements agent.Worker.
func (r running) PID() int { return r.pid }

// Crash implements agent.Worker: a panic of a goroutine ends the test.
func (running) Crash() string { return "" }

// Done implements agent.Worker.
func (r running) Done() <-chan struct{} { return r.done }

// Stop implements agent.Worker.
func (r running) Stop(grace time.Duration) error {
	if grace > 0 {
		r.stop(context.Canceled)
		select {
		case <-r.done:
		case <-time.After(grace):
		}
	}
	r.kill()
	<-r.done
	return nil
}

// of are the workers of some ids.
func (w *workers) of(pids []int) (found []*goroutine) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, pid := range pids {
		if g := w.all[pid]; g != nil {
			found = append(found, g)
		}
	}
	return found
}

// idle are the workers of an agent that wait for a task.
func (w *workers) idle(agentName string) (found []*goroutine) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range w.all {
		if g.agent == agentName && g.state == "" && !g.life.isDead() {
			found = append(found, g)
		}
	}
	return found
}

// ofAgent are the workers of an agent.
func (w *workers) ofAgent(name string) (found []*goroutine) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range w.all {
		if g.agent == name {
			found = append(found, g)
		}
	}
	return found
}

// die kills a worker at rest: its state stays what it is now.
func (g *goroutine) die() error {
	synctest.Wait()
	w := g.workers
	w.mu.Lock()
	defer w.mu.Unlock()
	if g.state != "" && g.image == "" {
		g.image = fmt.Sprint(g.state, ".image-", g.pid)
		if err := imageOf(g.state, g.image); err != nil {
			return err
		}
	}
	g.kill()
	return nil
}
