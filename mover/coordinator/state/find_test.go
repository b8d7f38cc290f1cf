package state

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	datamovev1 "datamove.dev/api/datamove/v1"
	_ "datamove.dev/test/seed/property" // of rapid
)

var states = []datamovev1.TaskState{
	datamovev1.TaskState_TASK_STATE_QUEUED, datamovev1.TaskState_TASK_STATE_RUNNING, datamovev1.TaskState_TASK_STATE_PAUSED,
	datamovev1.TaskState_TASK_STATE_DONE, datamovev1.TaskState_TASK_STATE_FAILED,
}

// through says whether a filter lets a task through, the slow way.
func through(f TaskFilter, m *datamovev1.Task, wishes []*ledgerv1.Wish) bool {
	switch {
	case len(f.States) > 0 && !slices.Contains(f.States, m.State),
		f.Project != "" && m.Spec.Project != f.Project,
		f.After != "" && f.Oldest && m.Id <= f.After,
		f.After != "" && !f.Oldest && m.Id >= f.After:
		return false
	}
	if has(f, m.Owner, m.Spec.Labels) {
		return true
	}
	return len(f.Labels) > 0 && slices.ContainsFunc(wishes, func(w *ledgerv1.Wish) bool {
		return w.Task == m.Id && has(f, w.Lease.Owner, w.Lease.Labels)
	})
}

func has(f TaskFilter, owner *datamovev1.Account, labels map[string]string) bool {
	for k, v := range f.Labels {
		if labels[k] != v {
			return false
		}
	}
	return f.Owner == "" || User(owner) == f.Owner
}

// Every filter finds what looking at all tasks finds, in order.
func TestFindTasks(t *testing.T) {
	l := fresh(t, Options{})
	tasks := 3 * lastPage
	var model []*datamovev1.Task
	var wishes []*ledgerv1.Wish
	r := uint64(1)
	for n := range tasks {
		m := queuedTask(n)
		r = r*6364136223846793005 + 1442695040888963407
		m.State = states[r>>33%5]
		m.Spec.Labels = map[string]string{"slurm_job": strconv.Itoa(n / 10), "k=": strconv.Itoa(int(r >> 40 % 3))}
		model = append(model, m)
		update(t, l, func(tx *Tx) error {
			for i := range []int{0, 0, 0, 1, 2, 700}[r>>45%6] / (1 + n%97) { // some have more than a page
				w := &ledgerv1.Wish{Task: m.Id, Lease: &datamovev1.Lease{Id: "lease" + strconv.Itoa(i), Owner: &datamovev1.Account{Name: "user" + strconv.Itoa(i%3)}}}
				if i%2 == 0 {
					w.Lease.Labels = map[string]string{"slurm_job": strconv.Itoa(i % 7 / 2), "k=": strconv.Itoa(i % 4)}
				}
				if err := StageWaiters.Put(tx, w); err != nil {
					return err
				}
				wishes = append(wishes, w)
			}
			return Tasks.Put(tx, m)
		})
	}
	waiting := map[string][]*ledgerv1.Wish{}
	for _, w := range wishes {
		waiting[w.Task] = append(waiting[w.Task], w)
	}
	filter := rapid.Custom(func(t *rapid.T) TaskFilter {
		f := TaskFilter{Oldest: rapid.Bool().Draw(t, "oldest")}
		f.States = rapid.SliceOfN(rapid.SampledFrom(states), 0, 3).Draw(t, "states")
		f.Project = rapid.SampledFrom([]string{"", "", "p3", "p4", "none"}).Draw(t, "project")
		f.Owner = rapid.SampledFrom([]string{"", "", "user1", "user2"}).Draw(t, "owner")
		f.Labels = rapid.MapOfN(rapid.SampledFrom([]string{"slurm_job", "k="}), rapid.SampledFrom([]string{"0", "1", "2"}), 0, 2).Draw(t, "labels")
		if rapid.Bool().Draw(t, "page") {
			f.After = queuedTask(rapid.IntRange(0, tasks).Draw(t, "after")).Id
		}
		return f
	})
	rapid.Check(t, func(rt *rapid.T) {
		f := filter.Draw(rt, "filter")
		var want []string
		for _, m := range model {
			if through(f, m, waiting[m.Id]) {
				want = append(want, m.Id)
			}
		}
		if !f.Oldest {
			slices.Reverse(want)
		}
		look := func(tx *Tx) error {
			got := all(t, (*datamovev1.Task).GetId, FindTasks(tx, f))
			n, err := CountTasks(tx, f)
			if !slices.Equal(got, want) || n != len(want) {
				rt.Errorf("%+v finds %d (%d): %.5q ..., want %d: %.5q ...", f, len(got), n, got, len(want), want)
			}
			return err
		}
		view(t, l, look)
		update(t, l, look) // there, iterators are scarce
	})
}

// What goes with a task goes with it; what is of others stays.
func TestPrune(t *testing.T) {
	for name, c := range map[string]struct {
		before time.Time
		newest int
		want   int // that are gone
	}{
		"by time":             {ended(30).EndTime.AsTime(), 0, 10},
		"by number":           {time.Unix(0, 0), 5, 29},
		"by both":             {ended(90).EndTime.AsTime(), 20, 30},
		"nothing is so old":   {time.Unix(0, 0), 0, 0},
		"nothing is too much": {time.Unix(0, 0), 34, 0},
		"all":                 {time.Now().AddDate(100, 0, 0), 1, 34},
	} {
		t.Run(name, func(t *testing.T) {
			l := fresh(t, Options{})
			for n := range 100 {
				mess(t, l, n) // every third has ended
			}
			gone, err := l.Prune(t.Context(), c.before, c.newest)
			if err != nil || gone != c.want {
				t.Errorf("%d are gone, %v, want %d", gone, err, c.want)
			}
			var want []string
			for n := range 100 {
				if n%3 != 0 || n/3 >= c.want {
					want = append(want, queuedTask(n).Id)
				}
			}
			view(t, l, func(tx *Tx) error {
				if got := all(t, (*datamovev1.Task).GetId, Tasks.All(tx, Range{})); !slices.Equal(got, want) {
					t.Errorf("left %q", got)
				}
				for name, got := range map[string][]string{
					"keys":   all(t, (*ledgerv1.Key).GetTask, KeysByTask.All(tx, Range{})),
					"drafts": all(t, (*ledgerv1.Draft).GetTask, Drafts.All(tx, Range{})),
				} {
					if !slices.Equal(got, want) {
						t.Errorf("%s of %q", name, got)
					}
				}
				return nil
			})
		})
	}
}

// A task with more rows than a step deletes, and tasks that ended in the same
// instant, go too, and exactly as many as should.
//
//safety:8 with mover/coordinator TestForgetTasks
func TestPruneMany(t *testing.T) {
	l := fresh(t, Options{})
	const rows = 2*pruneRows + pruneRows/2
	update(t, l, func(tx *Tx) error {
		for n := range rows {
			if err := Batches.Put(tx, batch(n)); err != nil {
				return err
			}
		}
		for n := range 50 {
			m := ended(n)
			m.EndTime = timestamppb.New(time.Unix(1_790_000_000, 0))
			if err := Tasks.Put(tx, m); err != nil {
				return err
			}
		}
		return nil
	})
	gone, err := l.Prune(t.Context(), time.Unix(0, 0), 7)
	if err != nil || gone != 43 {
		t.Errorf("%d are gone, %v", gone, err)
	}
	view(t, l, func(tx *Tx) error {
		if left := all(t, (*ledgerv1.Batch).GetId, Batches.All(tx, Range{})); len(left) != 0 {
			t.Errorf("%d batches of a task that is gone", len(left))
		}
		return nil
	})
}
