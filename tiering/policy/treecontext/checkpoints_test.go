package treecontext

import (
	"slices"
	"testing"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/tiering/checkpoint"
	"datamove.dev/tiering/policy"
)

// TestRetentionOfRuns: retention of a policy goes by when checkpoints were saved, and of each run for itself; what one relies on is of its run.
//
//safety:5/jobs with tiering/checkpoint/replicate TestRolledBack
func TestRetentionOfRuns(t *testing.T) {
	var all []*Checkpoint
	for i, name := range []string{"a_4000", "a_5000", "a_3500", "a_3600", "b_1", "b_2"} {
		all = append(all, &Checkpoint{Checkpoint: &pb.Checkpoint{Name: []byte(name), Save: "of " + name, State: verified, Step: checkpoint.StepOf(name), MadeNs: int64(i)}, verified: true})
	}
	action := &policy.Action{Type: policy.Retain, KeepLast: 2}
	var goes []string
	for _, v := range retention(all, action) {
		if !v.Keep {
			goes = append(goes, v.Name)
		}
	}
	if !slices.Equal(goes, []string{"a_5000", "a_4000"}) {
		t.Errorf("%q go", goes)
	}
	var relied []string
	for _, r := range Relies(all, action, "a_4000") {
		relied = append(relied, string(r.GetName()))
	}
	if !slices.Equal(relied, []string{"a_3600", "a_3500"}) {
		t.Errorf("it relies on %q", relied)
	}
}
