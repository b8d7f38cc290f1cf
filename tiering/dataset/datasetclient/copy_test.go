package datasetclient

import (
	"errors"
	"fmt"
	"testing"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
)

// TestStop: a copy that is to end has ended then, also where it just ended by itself.
func TestStop(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := served(t)
		m := of(t, c)
		m.Label = "test-copy"
		ends := map[datamovev1.TaskState]int{}
		for i := range 12 {
			key := fmt.Sprint("copy ", i)
			var u *Underway
			if err := m.Copy(t.Context(), Order{Key: key, From: "shared:train", To: fmt.Sprint("shared:copies/", i)}); !errors.As(err, &u) {
				t.Fatal(err)
			}
			seen := must.Get(c.WatchTask(t.Context(), &datamovev1.WatchTaskRequest{Id: u.Task}))(t)
			for range i { // at each of its steps
				if now, err := seen.Recv(); err != nil || api.Ended(now.GetState()) {
					must.Do(t, err)
					break
				}
			}
			must.Do(t, m.Stop(t.Context(), key))
			last := must.Get(m.Last(t.Context(), key))(t)
			ends[last.GetState()]++
			if !api.Ended(last.GetState()) {
				t.Fatalf("it is %s", last.GetState())
			}
		}
		if t.Log(ends); ends[datamovev1.TaskState_TASK_STATE_DONE] == 0 || ends[datamovev1.TaskState_TASK_STATE_CANCELLED] == 0 {
			t.Error("all ended alike")
		}
		other := of(t, c)
		other.Label, other.Labels = "other-copy", map[string]string{"slurm-job": "7"}
		if err := other.Copy(t.Context(), Order{Key: "copy 0", From: "shared:train", To: "shared:other"}); !errors.As(err, new(*Underway)) {
			t.Errorf("another user of the mover, with the same key: %v", err)
		}
		labelled := 0
		for task, err := range c.Tasks(t.Context(), &datamovev1.ListTasksRequest{Labels: other.Labels}) {
			must.Do(t, err)
			if got := task.GetSpec().GetTarget(); got != "shared:other" {
				t.Errorf("a copy to %s", got)
			}
			labelled++
		}
		if labelled != 1 {
			t.Errorf("%d copies have the label", labelled)
		}
		must.Do(t, m.Stop(t.Context(), "one of which nobody heard"))
	})
}
