package catalogserver

import (
	pb "datamove.dev/api/datamove/v1"
)

// The kinds that keep the facts about a tier up to date.
const (
	scans       = pb.TaskKind_TASK_KIND_SCAN        // walks a tree once
	follows     = pb.TaskKind_TASK_KIND_FOLLOW      // reads its change feed until it is cancelled
	checkpoints = pb.TaskKind_TASK_KIND_CHECKPOINTS // looks for checkpoints until it is cancelled
)

// Done reports why a task that its agent calls done is not: a scan is done when the catalog has the whole walk.
func (s *Server) Done(t *pb.Task) error {
	if t.GetSpec().GetKind() != scans {
		return nil
	}
	return s.scanned(t)
}
