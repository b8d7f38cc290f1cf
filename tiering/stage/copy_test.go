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
		if err := m.Copy(t.Context(), key, "shared:train", fmt.Sprint("shared:copies/", i)); !errors.As(err, new(*Underway)) {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i) * 2 * time.Millisecond)
		must(t, m.Stop(t.Context(), key))
		last, err := m.copying(t.Context(), client, key)
		must(t, err)
		ends[last.GetState()]++
		if !api.Ended(last.GetState()) {
			t.Fatalf("it is %s", last.GetState())
		}
	}
	t.Log(ends)
	must(t, m.Stop(t.Context(), "one of which nobody heard"))
}
