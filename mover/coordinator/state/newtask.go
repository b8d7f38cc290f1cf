package state

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/task"
)

// NewTask makes a queued task of an account. It is not stored yet.
func NewTask(spec *pb.TaskSpec, owner *pb.Account, now time.Time) *pb.Task {
	return &pb.Task{Id: task.NewID(now), Spec: spec, Owner: owner, State: task.Queued, CreateTime: timestamppb.New(now), Revision: 1}
}
