package burstbuffer

import (
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
)

// TestTwoClusters: of two Slurm clusters on one coordinator, a job of one never counts for a job of the same number and user of the other one. Where neither has a name in the
// configuration the second one is held with the reason, and what is asked for the first one stays; with a name for one of them both go on.
func TestTwoClusters(t *testing.T) {
	t.Parallel()
	const asks, leaves = "stage-in=dataset:train to=scratch:in required", "stage-out=scratch:out to=results:%j"
	for _, row := range []struct {
		what           string
		name, other    string // as Slurm has them
		named, another string // as the configuration has them
		held           bool
	}{
		{"neither has a name", "a", "b", "", "", true},
		{"one cluster whose slurmctld has moved", "a", "a", "", "", false},
		{"Slurm does not tell", "", "b", "", "", false},
		{"one of an earlier version and one with a name", "", "b", "", "b", false},
		{"one has a name", "a", "b", "", "b", false},
		{"the other one has", "a", "b", "a", "", false},
		{"both have", "a", "b", "a", "b", false},
	} {
		t.Run(row.what, func(t *testing.T) {
			t.Parallel()
			rig.Bubble(t, func(t *testing.T) {
				w := served(t)
				at := func(name, named string) *Controller {
					conf := *w.Config
					conf.Slurm.Cluster = named
					return &Controller{Config: &conf, Records: w.path("records-of-" + name + named), Dial: w.Dial, Name: name}
				}
				first, second := at(row.name, row.named), at(row.other, row.another)
				for _, c := range []*Controller{first, second} {
					time.Sleep(time.Second) // they are other runs
					must.Do(t, c.Setup(w.job(7), text(asks, leaves)))
				}
				must.Do(t, first.In(t.Context(), 7))
				before := w.held()
				err := second.In(t.Context(), 7)
				if row.held {
					wantsError(t, err, mover.ErrRefused, "Slurm cluster a has a job 7", "slurm.cluster", "release the job")
				} else {
					must.Do(t, err)
				}
				must.Do(t, second.Teardown(t.Context(), 7, true))
				if row.name == row.other || row.name == "" && row.another == "" {
					return // one holder, and one job
				}
				w.wantsHeld(before...)
				of := []string{"mark PAUSED", "stage DONE"}
				if !row.held {
					of = []string{"mark CANCELLED", "mark PAUSED", "stage DONE"}
				}
				w.wantsTasks(7, of...)
			})
		})
	}
}
