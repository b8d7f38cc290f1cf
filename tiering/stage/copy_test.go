package stage

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
)

// TestStop: a copy that is to end has ended then, also where it just ended by itself.
func TestStop(t *testing.T) {
	_, client := served(t)
	m := &Mover{Dial: func(context.Context) (*api.Client, error) { return client, nil }, Node: "n1", Label: "test-copy"}
	ends := map[datamovev1.TaskState]int{}
	for i := range 40 {
		key := fmt.Sprint("copy ", i)
		if err := m.Copy(t.Context(), Order{Key: key, From: "shared:train", To: fmt.Sprint("shared:copies/", i)}); !errors.As(err, new(*Underway)) {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i) * 2 * time.Millisecond)
		must(t, m.Stop(t.Context(), key))
		last, err := m.Last(t.Context(), key)
		must(t, err)
		ends[last.GetState()]++
		if !api.Ended(last.GetState()) {
			t.Fatalf("it is %s", last.GetState())
		}
	}
	t.Log(ends)
	other := &Mover{Dial: m.Dial, Node: "n1", Label: "other-copy", Labels: map[string]string{"slurm-job": "7"}}
	if err := other.Copy(t.Context(), Order{Key: "copy 0", From: "shared:train", To: "shared:other"}); !errors.As(err, new(*Underway)) {
		t.Errorf("another user of the mover, with the same key: %v", err)
	}
	labelled := 0
	for task, err := range client.Tasks(t.Context(), &datamovev1.ListTasksRequest{Labels: other.Labels}) {
		must(t, err)
		if got := task.GetSpec().GetTarget(); got != "shared:other" {
			t.Errorf("a copy to %s", got)
		}
		labelled++
	}
	if labelled != 1 {
		t.Errorf("%d copies have the label", labelled)
	}
	must(t, m.Stop(t.Context(), "one of which nobody heard"))
}
