package ledger

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	datamovev1 "datamove.dev/api/datamove/v1"
)

// TestBringing: tasks are found by where they bring data to, and by when they have ended.
func TestBringing(t *testing.T) {
	const (
		queued, running, paused = datamovev1.TaskState_TASK_STATE_QUEUED, datamovev1.TaskState_TASK_STATE_RUNNING, datamovev1.TaskState_TASK_STATE_PAUSED
		done, failed            = datamovev1.TaskState_TASK_STATE_DONE, datamovev1.TaskState_TASK_STATE_FAILED
		copies, syncs, stages   = datamovev1.TaskKind_TASK_KIND_COPY, datamovev1.TaskKind_TASK_KIND_SYNC, datamovev1.TaskKind_TASK_KIND_STAGE
	)
	l := fresh(t, Options{})
	for i, x := range []struct {
		target string
		kind   datamovev1.TaskKind
		state  datamovev1.TaskState
		end    int64
	}{
		0:  {"slow:chain", copies, queued, 0},
		1:  {"slow:chain/", syncs, running, 0},
		2:  {"slow:", copies, paused, 0},
		3:  {"slow:chain/deep/er", stages, queued, 0},
		4:  {"slow:chain2", copies, queued, 0},
		5:  {"slow:chain", datamovev1.TaskKind_TASK_KIND_VERIFY, queued, 0},
		6:  {"slow:chain", copies, failed, 100},
		7:  {"slow:chain", copies, done, 200},
		8:  {"slow:chain/deep", copies, failed, 300},
		9:  {"/mnt//a/b", copies, queued, 0},
		10: {"s3://bucket/a/b", copies, queued, 0},
	} {
		m := task(i)
		m.State, m.EndTime, m.StartTime = x.state, nil, nil
		m.Spec = &datamovev1.TaskSpec{Kind: x.kind, Target: x.target}
		if x.end > 0 {
			m.StartTime, m.EndTime = timestamppb.New(timestamppb.Now().AsTime()), &timestamppb.Timestamp{Seconds: x.end}
		}
		update(t, l, func(tx *Tx) error { return Tasks.Put(tx, m) })
	}
	held := task(12)
	held.State, held.Why, held.StartTime, held.EndTime = paused, HeldBack, nil, nil
	held.Spec = &datamovev1.TaskSpec{Kind: copies, Target: "slow:chain"}
	update(t, l, func(tx *Tx) error { return Tasks.Put(tx, held) })
	never := task(11)
	never.State, never.StartTime, never.EndTime = failed, nil, &timestamppb.Timestamp{Seconds: 400}
	never.Spec = &datamovev1.TaskSpec{Kind: copies, Target: "slow:chain"}
	update(t, l, func(tx *Tx) error { return Tasks.Put(tx, never) })
	for _, c := range []struct {
		name, place string
		after       int64 // 0 asks for those that have not ended
		want        []int
	}{
		{"at, above and below", "slow:chain", 0, []int{0, 1, 2, 3}},
		{"a name that only begins so is another", "slow:chain2/x", 0, []int{2, 4}},
		{"the whole tier", "slow:", 0, []int{0, 1, 2, 3, 4}},
		{"a path in another spelling", "/mnt/a/./b/", 0, []int{9}},
		{"the root", "/", 0, []int{9}},
		{"a bucket", "s3://bucket", 0, []int{10}},
		{"nothing there", "s3://bucket/a/c", 0, nil},
		{"ended since, but for what never began", "slow:chain", 100, []int{6, 7, 8}},
		{"ended later", "slow:chain/deep", 150, []int{7, 8}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var want, got []string
			for _, n := range c.want {
				want = append(want, task(n).Id)
			}
			view(t, l, func(tx *Tx) error {
				rows := Bringing(tx, c.place, "")
				if c.after > 0 {
					rows = Brought(tx, c.place, &timestamppb.Timestamp{Seconds: c.after})
				}
				got = all(t, (*datamovev1.Task).GetId, rows)
				return nil
			})
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("found %q, want %q", got, want)
			}
		})
	}
}
