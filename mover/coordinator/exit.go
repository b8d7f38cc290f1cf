package coordinator

import (
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/task"
	"datamove.dev/mover/task/convert"
)

// exitCode is that of a command which waits for a task.
func exitCode(state pb.TaskState, kind string, r *pb.Report) int32 {
	switch state {
	case task.Cancelled:
		return exitCancelled
	case task.Failed:
		return int32(convert.ExitCode(kind, r.GetFailed()))
	}
	return 0
}
