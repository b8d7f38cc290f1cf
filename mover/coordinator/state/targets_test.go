package state

import (
	"iter"
	"slices"
	"strconv"
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
		m := queuedTask(i)
		m.State, m.EndTime, m.StartTime = x.state, nil, nil
		m.Spec = &datamovev1.TaskSpec{Kind: x.kind, Target: x.target}
		if x.end > 0 {
			m.StartTime, m.EndTime = timestamppb.New(timestamppb.Now().AsTime()), &timestamppb.Timestamp{Seconds: x.end}
		}
		update(t, l, func(tx *Tx) error { return Tasks.Put(tx, m) })
	}
	held := queuedTask(12)
	held.State, held.Why, held.StartTime, held.EndTime = paused, HeldBack, nil, nil
	held.Spec = &datamovev1.TaskSpec{Kind: copies, Target: "slow:chain"}
	update(t, l, func(tx *Tx) error { return Tasks.Put(tx, held) })
	never := queuedTask(11)
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
				want = append(want, queuedTask(n).Id)
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

// TestReading: tasks that have not ended are found by what they read and what they remove, also where links lead.
func TestReading(t *testing.T) {
	const copies, verifies, removes = datamovev1.TaskKind_TASK_KIND_COPY, datamovev1.TaskKind_TASK_KIND_VERIFY, datamovev1.TaskKind_TASK_KIND_REMOVE
	l := fresh(t, Options{})
	var many []string
	for i := range 2 * sourcesMost {
		many = append(many, "slow:many/"+strconv.Itoa(i))
	}
	for i, x := range []struct {
		spec  *datamovev1.TaskSpec
		state datamovev1.TaskState
		real  []*datamovev1.RealPath
	}{
		0: {&datamovev1.TaskSpec{Kind: copies, Source: "slow:a", Target: "slow:out"}, datamovev1.TaskState_TASK_STATE_QUEUED, nil},
		1: {&datamovev1.TaskSpec{Kind: verifies, Source: "cold:a", Target: "slow:a/b"}, datamovev1.TaskState_TASK_STATE_RUNNING, nil},
		2: {&datamovev1.TaskSpec{Kind: copies, Sources: many, Target: "cold:many"}, datamovev1.TaskState_TASK_STATE_PAUSED, nil},
		3: {&datamovev1.TaskSpec{Kind: copies, Source: "/lnk/a", Target: "/lnk/out"}, datamovev1.TaskState_TASK_STATE_RUNNING,
			[]*datamovev1.RealPath{{Location: "/lnk/a", Real: "fast:a"}, {Location: "/lnk/out", Real: "fast:out"}}},
		4: {&datamovev1.TaskSpec{Kind: removes, Target: "slow:a"}, datamovev1.TaskState_TASK_STATE_QUEUED, nil},
		5: {&datamovev1.TaskSpec{Kind: copies, Source: "slow:a", Target: "slow:out"}, datamovev1.TaskState_TASK_STATE_DONE, nil},
		6: {&datamovev1.TaskSpec{Kind: removes, Target: "slow:a"}, datamovev1.TaskState_TASK_STATE_FAILED, nil},
	} {
		m := queuedTask(i)
		m.Spec, m.State, m.RealPaths, m.Dataset = x.spec, x.state, x.real, ""
		update(t, l, func(tx *Tx) error { return Tasks.Put(tx, m) })
	}
	for _, c := range []struct {
		name  string
		find  func(tx *Tx, place, last string) iter.Seq2[*datamovev1.Task, error]
		place string
		last  string
		want  []int
	}{
		{"read", Reading, "slow:a", "", []int{0, 1, 2}}, // 2 reads many places of that tier
		{"to be read, and ended", func(tx *Tx, place, _ string) iter.Seq2[*datamovev1.Task, error] {
			return Read(tx, place, &timestamppb.Timestamp{})
		}, "slow:a/b", "", []int{5}},
		{"read below", Reading, "slow:a/b/c", "", []int{0, 1, 2}},
		{"read above", Reading, "slow:", "", []int{0, 1, 2}},
		{"read over a link, by its text", Reading, "/lnk", "", []int{3}},
		{"read over a link, by where that leads", Reading, "fast:a/x", "", []int{3}},
		{"brought over a link", Bringing, "fast:out", "", []int{3}},
		{"removed", Removing, "slow:a/b", "", []int{4}},
		{"up to an id", Reading, "slow:a", queuedTask(0).Id, []int{0}},
		{"nothing", Reading, "cold:x", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var want, got []string
			for _, n := range c.want {
				want = append(want, queuedTask(n).Id)
			}
			view(t, l, func(tx *Tx) error {
				got = all(t, (*datamovev1.Task).GetId, c.find(tx, c.place, c.last))
				return nil
			})
			slices.Sort(got)
			slices.Sort(want)
			if got = slices.Compact(got); !slices.Equal(got, want) {
				t.Errorf("found %q, want %q", got, want)
			}
		})
	}
}
