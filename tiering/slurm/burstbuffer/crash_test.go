package burstbuffer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/kill"
	"datamove.dev/test/must"
	"datamove.dev/test/seed"
	"datamove.dev/tiering/slurm"
)

// crash is one job whose phases are killed, each as often as a die says.
type crash struct {
	*world
	*rand.Rand
	id  uint32
	run int // of the job: it may be requeued

	killed int      // phases
	lost   []*phase // whose processes of Slurm's were killed, and which may be at work still
}

// TestKilled kills phases, and the mover, at a step of a phase, and lets the job be requeued; in the end all is as if nobody had. The seed decides what
// is killed, and at which step.
//
//safety:5/jobs phases and the mover killed at any step, teardowns that are half done or lost, runs that never began, copies that fail for good or can not begin, runs of a job that was requeued, a run that is given up beside the next one, or that its slurmctld has left, a phase that is killed before what outlives it has begun, a number that comes again for another person
func TestKilled(t *testing.T) {
	t.Parallel()
	random := seed.Rand(t)
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		for i := range kill.Times(8, 40) {
			c := &crash{world: w, Rand: random, id: uint32(100 + i)}
			c.whole()
			t.Logf("%d phases were killed, in %d runs", c.killed, c.run)
			if t.Failed() {
				t.Fatalf("job %d", i)
			}
		}
	})
}

// whole is a job from its submission to its end.
func (c *crash) whole() {
	c.Helper()
	purged := fmt.Sprintf("temp/%d", c.id)
	c.write(purged+"/file", "to be purged")
	c.owned(c.path(purged))
	dir := "scratch/jobs/" + c.job(c.id).Dir()
	for c.run = 1; ; c.run++ {
		c.quick(func(c *crash, o *Controller) error {
			time.Sleep(time.Nanosecond) // runs are told apart by when they began
			return o.Setup(c.job(c.id), text("stage-in=dataset:train required", "stage-in=shared:notes to=scratch:notes required", "stage-out=scratch:out to=results:%j", "purge=temp:"+fmt.Sprint(c.id)))
		})
		if c.run < 3 && c.IntN(4) == 0 {
			c.lose((*Controller).In)
			if c.staged() || c.IntN(2) == 0 {
				c.teardown(true)
			}
			continue
		}
		c.long((*Controller).In)
		if c.requeued() {
			c.teardown(true)
			continue
		}
		c.quick(func(c *crash, o *Controller) error { return o.Nodes(c.id, Place{Nodes: []string{"n1"}, Name: "train"}) })
		if c.run < 3 && c.IntN(2) == 0 { // whose end is that of the run: what is left of it goes by itself, also where Slurm kills its teardown, too
			c.lose((*Controller).Before)
			if c.ready() || c.IntN(2) == 0 {
				c.teardown(true)
			}
			continue
		}
		c.long((*Controller).Before)
		c.prolog(c.id)
		c.wants(dir+"/train/picture", "a picture")
		c.wants(dir+"/notes/note", "a note")
		c.wrote(c.id, fmt.Sprintf("out/run%d", c.run))
		if !c.epilog(c.id) {
			c.Fatal("its results are gone")
		}
		c.quick(func(c *crash, o *Controller) error { return o.Ended(c.id, End{}) })
		c.does(func(ctx context.Context, o *Controller) error { return o.Out(ctx, c.id, 0) })
		c.teardown(false)
		c.wants(fmt.Sprintf("results/%d/run%d", c.id, c.run), fmt.Sprintf("%d out/run%d", c.id, c.run))
		if !c.requeued() {
			break
		}
	}
	c.ends(purged)
}

// lose kills the process of Slurm's of a phase that brings data, and sometimes what outlives it, too. Else that is at work still beside the phases behind it.
func (c *crash) lose(do func(*Controller, context.Context, uint32) error) {
	c.Helper()
	f, both := c.first(c.id, false), c.IntN(2) == 0
	p := c.world.phase(c.step(), func(p *phase) {
		if both {
			p.kill()
		} else {
			f.end()
		}
	}, outliving(f, c.id, do))
	select {
	case <-p.happened:
		c.killed++
	case <-p.ended:
		f.end()
	}
	c.lost = append(c.lost, p)
}

// step is one at which something happens.
func (c *crash) step() int { return 1 + c.IntN(40) }

// ready says whether pre_run has come to its end, so that Slurm kills no teardown any more.
func (c *crash) ready() bool {
	x, err := c.Controller.Run(c.id)
	return err == nil && c.records().begun(x)
}

// staged says the same of data_in.
func (c *crash) staged() bool {
	var s Staged
	err := c.records().read(c.id, fileStaged, &s)
	return err == nil && len(s.Paths) > 0
}

// requeued says whether the job begins anew.
func (c *crash) requeued() bool { return c.run < 3 && c.IntN(3) == 0 }

// does runs a phase to its end, after some that were killed before it together with what outlives them, as the end of a host does: killed alone, the
// phase would end the run. Or it loses the mover.
func (c *crash) does(do func(context.Context, *Controller) error) {
	c.Helper()
	for range c.IntN(4) {
		p := c.world.phase(c.step(), die, do)
		<-p.ended
		select {
		case <-p.happened:
			c.killed++
		default:
		}
	}
	at := 0
	if c.IntN(6) == 0 {
		at = c.step()
	}
	p := c.world.phase(at, live, do)
	select {
	case <-p.happened:
		c.world.kill()
		c.start()
	case <-p.ended:
	}
	<-p.ended
	must.Do(c.T, p.err)
}

// quick is a phase that asks nothing of the mover.
func (c *crash) quick(do func(*crash, *Controller) error) {
	c.Helper()
	c.does(func(_ context.Context, o *Controller) error { return do(c, o) })
}

// long is one that outlives the process that Slurm knows.
func (c *crash) long(do func(*Controller, context.Context, uint32) error) {
	c.Helper()
	c.does(func(ctx context.Context, o *Controller) error {
		return outliving(c.first(c.id, false), c.id, do)(ctx, o)
	})
}

func (c *crash) teardown(hurry bool) {
	c.Helper()
	c.does(func(ctx context.Context, o *Controller) error { return o.Teardown(ctx, c.id, hurry) })
}

// ends looks whether nothing of the job is left.
func (c *crash) ends(purged string) {
	c.Helper()
	for _, p := range c.lost {
		<-p.ended
	}
	must.Do(c.T, c.Teardown(c.Context(), 1, false)) // what a mover that was away has not heard it hears now
	c.wants(purged+"/file", "")
	if c.epilog(c.id) {
		c.Error("its directory stays")
	}
	for t, err := range c.service.Tasks(c.Context(), &datamovev1.ListTasksRequest{Labels: map[string]string{slurm.Label: fmt.Sprint(c.id)}}) {
		must.Do(c.T, err)
		if !api.Ended(t.GetState()) {
			c.Errorf("%s of %s is left", t.GetState(), t.GetSpec())
		}
	}
	c.wantsHeld()
	for _, what := range []string{fileJob, fileEnded} { // what means nothing without them goes after an hour
		if left, err := c.records().all(what); err != nil || len(left) > 0 {
			c.Errorf("%v have a record still, %v", left, err)
		}
	}
}
