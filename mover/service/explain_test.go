package service

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "datamove.dev/api/datamove/v1"
)

// A task that moves as fast as it may is not held back by its source, where that limit is.
func TestExplainOwnLimit(t *testing.T) {
	for _, c := range []struct {
		limit   int64
		helpers []string
		rate    float64
		want    pb.Bottleneck
	}{
		{100, nil, 95, pb.Bottleneck_BOTTLENECK_LIMIT},
		{100, nil, 50, pb.Bottleneck_BOTTLENECK_SOURCE},
		{100, []string{"n2", "n3"}, 95, pb.Bottleneck_BOTTLENECK_SOURCE},
		{100, []string{"n2", "n3"}, 290, pb.Bottleneck_BOTTLENECK_LIMIT},
		{0, nil, 95, pb.Bottleneck_BOTTLENECK_SOURCE},
	} {
		got := explain(&pb.Task{State: pb.TaskState_TASK_STATE_RUNNING, Helpers: c.helpers,
			Spec:     &pb.TaskSpec{Options: &pb.Options{BytesPerSecond: c.limit}},
			Progress: &pb.Progress{SourceWait: durationpb.New(time.Second), BytesPerSecond: c.rate}})
		if got.GetBottleneck() != c.want || got.GetAdvice() == "" {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
