package datasetclient

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
		stopped := func(key string) datamovev1.TaskState {
			must.Do(t, m.Stop(t.Context(), key))
			return must.Get(m.Last(t.Context(), key))(t).GetState()
		}
		for i := range 12 {
			key := fmt.Sprint("copy ", i)
			var u *Underway
			if err := m.Copy(t.Context(), Order{Key: key, From: "shared:train", To: fmt.Sprint("shared:copies/", i)}); !errors.As(err, &u) {
				t.Fatal(err)
			}
			seen := must.Get(c.WatchTask(t.Context(), &datamovev1.WatchTaskRequest{Id: u.Task}))(t)
			ended := false
			for step := 0; !ended && (step < i || i == 11); step++ { // at each of its steps, and after its end
				now := must.Get(seen.Recv())(t)
				ended = api.Ended(now.GetState())
			}
			if last := stopped(key); !api.Ended(last) || i == 11 && last != datamovev1.TaskState_TASK_STATE_DONE {
				t.Fatalf("copy %d is %s", i, last)
			}
		}
		// Of several units of work: the first one passes a limit at once, and may be all of a copy of less.
		must.Do(t, os.WriteFile(filepath.Join(c.Dir, "shared", "train", "large"), make([]byte, 20<<20), 0o644))
		c.Slowly("shared", 1) // a copy of days
		if err := m.Copy(t.Context(), Order{Key: "slow", From: "shared:train", To: "shared:copies/slow"}); !errors.As(err, new(*Underway)) {
			t.Fatal(err)
		}
		if last := stopped("slow"); last != datamovev1.TaskState_TASK_STATE_CANCELLED {
			t.Errorf("a copy of days is %s", last)
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
