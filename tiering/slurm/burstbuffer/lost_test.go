package burstbuffer

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
)

// leaves is what the jobs here ask for.
const leaves = "stage-out=scratch:out to=results:%j"

// TestNeverBegan: of a run that never came to its nodes no mark stays, however it ends, and no directory.
//
//safety:5/jobs with TestKilled
func TestNeverBegan(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		ends := map[uint32]struct {
			what string
			do   func(id uint32)
		}{
			7: {"it is torn down, with no hurry", func(id uint32) { must.Do(t, w.Teardown(t.Context(), id, false)) }},
			8: {"its teardown is lost, and it is brought in anew", func(id uint32) {
				w.setup(id, leaves)
				must.Do(t, w.In(t.Context(), id))
				w.wantsTasks(id, "mark CANCELLED", "mark PAUSED")
				must.Do(t, w.Teardown(t.Context(), id, true))
			}},
			9: {"its teardown is lost, and it is cancelled before it is brought in anew", func(id uint32) {
				w.setup(id, leaves)
				w.setup(id, leaves)
				must.Do(t, w.Teardown(t.Context(), id, true))
			}},
			10: {"its teardown is lost, and so is the next one's", func(id uint32) {
				for range 2 {
					w.setup(id, leaves)
					must.Do(t, w.In(t.Context(), id))
				}
				must.Do(t, w.Teardown(t.Context(), id, false))
			}},
			11: {"it is given up", func(id uint32) {
				x := must.Get(w.Controller.Run(id))(t)
				must.Do(t, w.GiveUp(t.Context(), x))
			}},
			12: {"it is given up after its teardown", func(id uint32) {
				x := must.Get(w.Controller.Run(id))(t)
				must.Do(t, w.Teardown(t.Context(), id, false))
				must.Do(t, w.GiveUp(t.Context(), x))
			}},
			13: {"it is given up when the next one has begun, which goes on", func(id uint32) {
				x := must.Get(w.Controller.Run(id))(t)
				w.setup(id, leaves)
				must.Do(t, w.In(t.Context(), id))
				must.Do(t, w.GiveUp(t.Context(), x))
				w.wantsTasks(id, "mark CANCELLED", "mark PAUSED")
				must.Do(t, w.Teardown(t.Context(), id, true))
			}},
			14: {"the mover is away as it ends, and as the next one ends", func(id uint32) {
				w.kill()
				must.Do(t, w.Teardown(t.Context(), id, true))
				w.setup(id, leaves)
				must.Do(t, w.Teardown(t.Context(), id, true))
				w.start()
				must.Do(t, w.Teardown(t.Context(), 99, true))
			}},
		}
		for _, id := range slices.Sorted(maps.Keys(ends)) {
			end := ends[id]
			w.setup(id, leaves)
			must.Do(t, w.In(t.Context(), id))
			w.nodes(id, "n1")
			w.prolog(id)
			w.wantsTasks(id, "mark PAUSED")
			end.do(id)
			for _, task := range w.tasks(id) {
				if task != "mark CANCELLED" {
					t.Errorf("%s: %q is left", end.what, task)
				}
			}
			if w.epilog(id) {
				t.Errorf("%s: its directory stays", end.what)
			}
		}
		w.wantsUndone()
	})
}

// TestLostTeardown: of a run that has begun nothing is taken back because its teardown is lost.
//
//safety:5/jobs with TestKilled
func TestLostTeardown(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		w.begun(7, leaves)
		w.wrote(7, "out/answer")
		w.setup(7, leaves)
		must.Do(t, w.In(t.Context(), 7))
		w.wantsTasks(7, "mark PAUSED", "mark PAUSED")
		must.Do(t, w.Teardown(t.Context(), 7, true))
		w.wantsTasks(7, "mark CANCELLED", "mark PAUSED")
		if !w.epilog(7) {
			t.Error("what it has written is gone")
		}
	})
}

// TestUndoneMeanwhile: a job that begins anew while somebody undoes what its run before has left waits for that, or its data would go, too.
//
//safety:5/jobs with TestKilled
func TestUndoneMeanwhile(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		w.setup(7, "stage-in=dataset:near")
		must.Do(t, w.In(t.Context(), 7))
		x := must.Get(w.Controller.Run(7))(t)
		w.setup(7, "stage-in=dataset:near")
		letGo := must.Get(w.records().claim(t.Context(), file{7, x.ended()}))(t)
		must.Do(t, w.GiveUp(w.within(time.Second), x)) // by what outlives a phase of that run
		wantsError(t, w.In(w.within(time.Second), 7), mover.ErrTimeout, "another hook still undoes it")
		letGo()
		must.Do(t, w.In(t.Context(), 7))
		w.wantsUndone()
		must.Do(t, w.GiveUp(t.Context(), x))
		w.wantsHeld("slurm:7:warm:near on ")
		must.Do(t, w.Teardown(t.Context(), 7, true))
		w.wantsHeld()
		w.wantsUndone()
	})
}

// TestHurriedMeanwhile: a run that is given up while its teardown without hurry is done has a second note, which is undone, too; the next run waits for both.
//
//safety:5/jobs with TestKilled
func TestHurriedMeanwhile(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		w.begun(7, leaves)
		x := must.Get(w.Controller.Run(7))(t)
		w.kill()
		must.Do(t, w.Teardown(t.Context(), 7, false))
		w.start()
		letGo := must.Get(w.records().claim(t.Context(), file{7, x.ended()}))(t)
		w.setup(7, leaves)
		must.Do(t, w.GiveUp(w.within(time.Second), x))
		wantsError(t, w.In(w.within(time.Second), 7), mover.ErrTimeout, "another hook still undoes it")
		letGo()
		must.Do(t, w.In(t.Context(), 7))
		w.wantsUndone()
		w.wantsTasks(7, "mark CANCELLED", "mark PAUSED")
	})
}

// TestSameNumber: a job that has the number of one that Slurm has forgotten, of somebody else, ends what that one has left, as whose it was.
//
//safety:5/jobs with TestKilled
func TestSameNumber(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		w.setup(7, leaves)
		must.Do(t, w.In(t.Context(), 7))
		own := w.job(7)
		own.UID, own.GID = rig.People["bob"], rig.People["bob"]
		w.setupFor(own, leaves)
		must.Do(t, w.Teardown(t.Context(), 7, false))
		w.wantsTasks(7, "mark CANCELLED")
		w.wantsUndone()
	})
}

// TestLateReady: a pre_run that ends when another run has begun says nothing of that one.
//
//safety:5/jobs with TestKilled
func TestLateReady(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := unserved(t)
		w.setup(7, leaves)
		x := must.Get(w.Controller.Run(7))(t)
		w.setup(7, leaves)
		must.Do(t, w.ready(x))
		now := must.Get(w.Controller.Run(7))(t)
		if w.records().begun(now) || w.records().begun(x) {
			t.Error("a run has begun, as if its nodes had been made ready")
		}
		must.Do(t, w.ready(now))
		if !w.records().begun(now) {
			t.Error("it has not begun, with its nodes made ready")
		}
		w.write("records/7.ready", "{") // what can not be read may have been so
		if !w.records().begun(now) {
			t.Error("it has not begun, as far as can be known")
		}
		must.Do(t, os.WriteFile(w.path("records/7.job"), []byte("{"), 0o600))
		wantsError(t, w.ready(now), mover.ErrCorrupt, "7.job")
		w.setup(7, leaves)
		if !w.heard("what an earlier run of it has left is not known") {
			t.Errorf("%q", w.told)
		}
	})
}

// TestForsaken: a run whose slurmctld has ended in its pre_run goes on with the next one's, and is given up when nobody comes.
//
//safety:5/jobs with TestKilled
func TestForsaken(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		w.setup(7, leaves, "stage-in=dataset:near")
		must.Do(t, w.In(t.Context(), 7))
		take := func() (Turn, error) {
			x, _ := w.Controller.Run(7) // none has no RunID
			return w.Take(7, x.RunID())
		}
		lost, err := take()
		must.Do(t, err)
		_, err = take()
		must.Do(t, err)
		must.Do(t, w.Forsake(w.within(10*time.Second), lost)) // another pre_run has come
		w.wantsTasks(7, "mark PAUSED")
		w.wantsHeld("slurm:7:warm:near on ")
		w.setup(7, leaves, "stage-in=dataset:near")
		must.Do(t, w.In(t.Context(), 7))
		must.Do(t, w.Forsake(w.within(10*time.Second), lost)) // whose run is another one now
		w.wantsTasks(7, "mark CANCELLED", "mark PAUSED")
		_, err = w.Take(7, lost.RunID())
		wantsError(t, err, mover.ErrConflict)
		lost, err = take()
		must.Do(t, err)
		wantsError(t, w.Forsake(w.within(time.Second), lost), context.DeadlineExceeded)
		w.wantsHeld("slurm:7:warm:near on ")
		must.Do(t, w.Forsake(t.Context(), lost))
		w.wantsTasks(7, "mark CANCELLED", "mark CANCELLED")
		w.wantsHeld()
		w.wantsUndone()
		if _, err := take(); !errors.Is(err, mover.ErrNotExist) {
			t.Errorf("a job that is given up goes on: %v", err)
		}
	})
}
