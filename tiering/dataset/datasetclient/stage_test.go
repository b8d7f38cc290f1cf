package datasetclient

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	datamovev1 "datamove.dev/api/datamove/v1"
)

// TestWaiting: a holder waits since it came, and still does when a staging is begun anew; after a restart, since what it waits for was
// asked for.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		task := func() *datamovev1.Task {
			return &datamovev1.Task{Id: "t", CreateTime: timestamppb.Now()}
		}
		m := &Mover{}
		since := func(what, holder string, of *datamovev1.Task, want time.Duration) {
			t.Helper()
			if got := time.Since(m.waiting(where{holder, "n"}, of)); got != want {
				t.Errorf("%s: for %s, and not %s", what, got, want)
			}
		}
		first := task()
		since("the first", "a", first, 0)
		time.Sleep(time.Hour)
		since("later", "a", first, time.Hour)
		since("who comes later", "b", task(), 0)
		since("another task", "a", task(), time.Hour)

		m = &Mover{}
		since("after a restart", "a", first, time.Hour)
		second := task()
		time.Sleep(time.Minute)
		since("for what was asked for after it", "c", second, 0)
	})
}
