package datasetclient

import (
	"slices"
	"strings"
	"testing"

	pb "datamove.dev/api/datamove/v1"
)

// TestView: of each node the newest staging counts, and what failed before it does not.
func TestView(t *testing.T) {
	staging := func(source, node string, state pb.TaskState, done, total int64, why, failed string) *pb.Task {
		name, _ := strings.CutPrefix(source, "dataset:")
		return &pb.Task{Id: "t" + node, Dataset: name, Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_STAGE, Source: source, Node: node}, State: state,
			Progress: &pb.Progress{BytesDone: done, Planned: &pb.Totals{Bytes: total}}, Why: why, Error: failed}
	}
	const running, queued, over = pb.TaskState_TASK_STATE_RUNNING, pb.TaskState_TASK_STATE_QUEUED, pb.TaskState_TASK_STATE_FAILED
	v := &View{
		leases: []*pb.Lease{{Holder: "csi:a:1", Node: "n2"}, {Holder: "csi:a:2", Node: "n2"}, {Holder: "csi:a:3", Node: "n1"}, {Holder: "csi:ab:1", Node: "n9"}},
		tasks: []*pb.Task{
			staging("dataset:x@0123456789ab", "n4", running, 43<<30, 100<<30, "", ""),
			staging("dataset:x", "n3", queued, 0, 0, "no room on scratch", ""),
			staging("dataset:y", "n3", running, 1, 2, "", ""),
			staging("s3://b/p", "n6", running, 1, 2, "", ""),
			staging("dataset:x", "n4", over, 0, 0, "", "long ago"),
			staging("dataset:x", "n5", over, 0, 0, "", "the source is gone\nline"),
		},
	}
	for _, row := range []struct {
		what      string
		got, want []string
	}{
		{"on", v.On("csi:a:"), []string{"n1", "n2"}},
		{"coming", v.Coming("dataset:x"), []string{"n3: waiting: no room on scratch (task tn3)", "n4: 43% of 100 GiB (task tn4)"}},
		{"failed", v.Failed("dataset:x"), []string{`n5: "the source is gone\nline" (task tn5)`}},
		{"of a location", v.Coming("s3://b/p"), []string{"n6: 50% of 2 B (task tn6)"}},
		{"of another version", v.Coming("dataset:x@ba"), nil},
		{"of others", v.Coming("dataset:z"), nil},
	} {
		if !slices.Equal(row.got, row.want) {
			t.Errorf("%s: %q, and not %q", row.what, row.got, row.want)
		}
	}
}
