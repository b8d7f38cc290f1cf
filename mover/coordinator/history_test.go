package coordinator

import (
	"testing"
	"time"

	pb "datamove.dev/api/datamove/v1"
)

// TestHistory: rates of the last ten minutes are remembered, and told from a moment on.
func TestHistory(t *testing.T) {
	var h history
	begun := time.Unix(1e9, 0)
	for at := time.Duration(0); at <= time.Hour; at += rateEvery {
		h.add(begun.Add(at), at.Seconds())
	}
	all := h.since(time.Time{})
	if n := int(rateFor/rateEvery) + 1; len(all) != n || all[0].GetBytesPerSecond() != 3000 || all[n-1].GetBytesPerSecond() != 3600 {
		t.Errorf("%d moments, from %v to %v", len(all), all[0], all[len(all)-1])
	}
	if last := h.since(begun.Add(time.Hour - rateEvery)); len(last) != 1 || last[0].GetBytesPerSecond() != 3600 {
		t.Errorf("%v", last)
	}
}

// TestLooked: what was compared counts as done when a task is.
func TestLooked(t *testing.T) {
	for name, row := range map[string]struct {
		report      *pb.Report
		told        int64
		state       pb.TaskState
		files, want int64
		bytes       int64
	}{
		"a verify that is done":     {&pb.Report{Planned: &pb.Totals{Compares: 669, CompareBytes: 1 << 20}, Bytes: 1 << 20}, 600, pb.TaskState_TASK_STATE_DONE, 669, 669, 1 << 20},
		"a verify that differs":     {&pb.Report{Planned: &pb.Totals{Compares: 669, CompareBytes: 1 << 20}, Bytes: 1 << 20, Failed: 2}, 669, pb.TaskState_TASK_STATE_FAILED, 669, 669, 1 << 20},
		"one that was ended":        {&pb.Report{Planned: &pb.Totals{Compares: 669, CompareBytes: 1 << 20}, Bytes: 10}, 12, pb.TaskState_TASK_STATE_FAILED, 669, 12, 10},
		"a copy by checksum":        {&pb.Report{Planned: &pb.Totals{Files: 1, Bytes: 5, Compares: 9, CompareBytes: 90}, Files: 2, Bytes: 15}, 8, pb.TaskState_TASK_STATE_DONE, 10, 10, 95},
		"a copy that compares none": {&pb.Report{Planned: &pb.Totals{Files: 3, Bytes: 5}, Files: 2, Bytes: 4, Failed: 1}, 3, pb.TaskState_TASK_STATE_FAILED, 3, 2, 4},
	} {
		p := finalProgress(&pb.Task{State: row.state, Report: row.report, Progress: &pb.Progress{FilesDone: row.told}})
		if planned := p.GetPlanned().GetFiles() + p.GetPlanned().GetCompares(); p.GetFilesDone() != row.want || planned != row.files || p.GetBytesDone() != row.bytes {
			t.Errorf("%s: %v", name, p)
		}
	}
}
