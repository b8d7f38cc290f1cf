package rig

import (
	"context"
	"os"
	"path/filepath"
	"testing/synctest"

	"datamove.dev/mover/engine"
	"datamove.dev/test/must"
)

// Process is a program beside the service, as a watch of checkpoints: a goroutine that can be killed. It is named in [Weather.Call].
type Process struct {
	c     *Cluster
	life  *life
	state string // the directory of its journals
	stop  context.CancelCauseFunc
	ended chan struct{}
	err   error // of run; to be read when it has ended
}

// Begin starts a program. Its state is in a directory of its own, from one life to the next; around is for what it opens.
func (c *Cluster) Begin(name string, run func(ctx context.Context, state string, around func(engine.Opener) engine.Opener) error) *Process {
	c.t.Helper()
	ctx, stop := context.WithCancelCause(context.Background())
	p := &Process{c: c, life: c.workers.newLife(name, 0), state: filepath.Join(c.Dir, "programs", name), stop: stop, ended: make(chan struct{})}
	must.Do(c.t, os.MkdirAll(p.state, 0o700))
	go func() {
		defer close(p.ended)
		p.err = run(ctx, p.state, p.life.around)
	}()
	c.t.Cleanup(func() {
		p.life.kill()
		p.stop(errKilled)
		<-p.ended
	})
	return p
}

// Kill kills it: from now on it does nothing any more with what it has opened, and its state is as it is now.
func (p *Process) Kill() {
	p.c.t.Helper()
	synctest.Wait()
	image := p.state + ".image"
	must.Do(p.c.t, imageOf(p.state, image))
	p.life.kill()
	p.stop(errKilled)
	<-p.ended
	must.Do(p.c.t, restore(p.state, image))
}

// Stop ends it in good order, and returns its error.
func (p *Process) Stop() error {
	p.stop(context.Canceled)
	<-p.ended
	return p.err
}

// Sleep stops it, until Wake.
func (p *Process) Sleep() { p.life.sleep() }

// Wake has it go on.
func (p *Process) Wake() { p.life.wake() }
