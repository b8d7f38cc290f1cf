package burstbuffer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"datamove.dev/api"
	"datamove.dev/mover"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
	"datamove.dev/tiering/dataset/datasetclient"
)

// bringing are the phases that outlive their processes.
var bringing = map[string]func(*Controller, context.Context, uint32) error{"data_in": (*Controller).In, "pre_run": (*Controller).Before}

// TestDeserted: when slurmctld ends, what a phase of its was bringing goes on, and is what the next one waits for. When the phase alone is
// killed, because the job is cancelled, it ends.
//
//safety:5/jobs with TestKilled
func TestDeserted(t *testing.T) {
	t.Parallel()
	for name := range bringing {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rig.Bubble(t, func(t *testing.T) { goesOn(t, name) })
		})
	}
}

func goesOn(t *testing.T, name string) {
	w := served(t)
	data := noise(largeBytes)
	w.write("slow/data7/file", data)
	w.large("slow/data8/file")
	begun := func(id uint32, deserted bool) (*slurms, *phase) {
		t.Helper()
		if name == "data_in" {
			w.setup(id, fmt.Sprintf("stage-in=slow:data%d to=results:data%d", id, id))
		} else {
			w.setup(id, fmt.Sprintf("stage-in=slow:data%d to=scratch:data required", id))
			must.Do(t, w.In(t.Context(), id))
			w.nodes(id, "n1")
		}
		f := w.first(id, deserted)
		p := w.phase(0, nil, outliving(f, id, bringing[name]))
		w.service.Until("it is copied", func() bool { return strings.Join(w.tasks(id), " ") == "copy RUNNING" })
		return f, p
	}
	f7, stopped := begun(7, true)
	f7.end()
	f8, cancelled := begun(8, false)
	f8.end()
	next := w.phase(0, nil, outliving(w.first(7, false), 7, bringing[name]))
	<-next.ended
	must.Do(t, next.err)
	w.wantsTasks(7, "copy DONE")
	at := "results/data7/"
	if name == "pre_run" {
		at = "scratch/jobs/" + w.job(7).Dir() + "/data/"
	}
	w.wants(at+"file", data)
	<-stopped.ended
	must.Do(t, stopped.err)
	<-cancelled.ended
	wantsError(t, cancelled.err, context.Canceled)
	if _, err := w.Controller.Run(8); !errors.Is(err, mover.ErrNotExist) {
		t.Errorf("the job that was cancelled goes on: %v", err)
	}
	w.wantsUndone()
	w.wantsTasks(8, "copy CANCELLED")
	must.Do(t, w.Teardown(t.Context(), 7, true))
	w.wantsUndone()
}

// TestOutlivedLate: a phase is killed at once, and the job begins anew before what outlives the phase has begun. That does not end the new run.
//
//safety:5/jobs with TestKilled
func TestOutlivedLate(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		w.setup(7, "stage-in=dataset:near")
		old := w.first(7, false)
		old.end()
		w.setup(7, "stage-in=dataset:near")
		for name, do := range bringing {
			late := w.phase(0, nil, outliving(old, 7, do))
			<-late.ended
			wantsError(t, late.err, mover.ErrConflict)
			if now, err := w.Controller.Run(7); err != nil || now.RunID() == old.run {
				t.Fatalf("after a late %s: %v, %v", name, now, err)
			}
		}
		next := w.phase(0, nil, outliving(w.first(7, false), 7, (*Controller).In))
		<-next.ended
		must.Do(t, next.err)
	})
}

// TestOutlived: the work of a phase that outlives its slurmctld is not told to stop by a process that ends, since another one may wait for it by then.
//
//safety:5/jobs with TestKilled
func TestOutlived(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]struct{ deserted, taken bool }{
		"another turn":            {deserted: true, taken: true},
		"terminated":              {},
		"deserted and terminated": {deserted: true},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				w := unserved(t)
				w.setup(7, leaves)
				f := w.first(7, how.deserted)
				ctx, terminate := context.WithCancel(t.Context())
				begun, left := make(chan context.Context), make(chan error)
				go func() {
					left <- w.Outlive(ctx, 7, f, func(work context.Context, _ uint32) error {
						begun <- work
						<-t.Context().Done()
						return nil
					})
				}()
				work := <-begun
				if how.deserted {
					f.end()
				}
				time.Sleep(time.Minute)
				if how.taken {
					_, err := w.Take(7, f.run)
					must.Do(t, err)
				} else {
					terminate()
				}
				if err := <-left; !errors.Is(err, ctx.Err()) {
					t.Errorf("it has left with %v; want %v", err, ctx.Err())
				}
				if work.Err() != nil {
					t.Errorf("the work was told to stop: %v", context.Cause(work))
				}
				terminate()
			})
		})
	}
}

// TestOutlivedTooLate: what begins when its phase and its slurmctld are gone takes the turn of no later phase; where the phase alone is gone the job is cancelled, and its run ends.
//
//safety:5/jobs with TestKilled
func TestOutlivedTooLate(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		for _, deserted := range []bool{true, false} {
			w.setup(7, leaves, "stage-in=dataset:near")
			old := w.first(7, deserted)
			old.end()
			next := must.Get(w.Take(7, old.run))(t)
			for name, do := range bringing {
				late := w.phase(0, nil, outliving(old, 7, do))
				<-late.ended
				if deserted && late.err != nil {
					t.Errorf("a late %s: %v", name, late.err)
				}
				if w.over(next) == deserted {
					t.Errorf("slurmctld is gone %v, and after a late %s the turn is over %v", deserted, name, w.over(next))
				}
			}
			w.wantsHeld()
			w.wantsUndone()
		}
	})
}

// TestOutlivedByTeardown: a job is cancelled while its slurmctld is away, and the next one tears it down. What a phase that outlives the first one asks for just then is let go.
//
//safety:5/jobs with TestKilled
func TestOutlivedByTeardown(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		w.setup(7, leaves, "stage-in=dataset:near")
		x := must.Get(w.Controller.Run(7))(t)
		f := w.first(7, true)
		begun, torn := make(chan struct{}), make(chan struct{})
		p := w.phase(0, nil, outliving(f, 7, func(c *Controller, ctx context.Context, _ uint32) error {
			close(begun)
			<-torn
			wk := c.work(x)
			defer wk.close()
			ctx = api.For(context.WithoutCancel(ctx), w.uid) // it is on its way
			_, err := wk.stage.Ask(ctx, datasetclient.Source{Location: "dataset:near", Tier: "shared"}, wk.own.Holder("warm:near"))
			return errors.Join(err, wk.mark(ctx))
		}))
		<-begun
		f.end()
		time.Sleep(100 * time.Millisecond)
		must.Do(t, w.Teardown(t.Context(), 7, true))
		close(torn)
		<-p.ended
		must.Do(t, p.err)
		w.wantsHeld()
		w.wantsUndone()
		w.wantsTasks(7, "mark CANCELLED")
	})
}
