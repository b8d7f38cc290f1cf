package coordinator

import (
	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
)

// The kinds that keep the facts about a tier up to date.
const (
	scans       = pb.TaskKind_TASK_KIND_SCAN        // walks a tree once
	follows     = pb.TaskKind_TASK_KIND_FOLLOW      // reads its change feed until it is cancelled
	checkpoints = pb.TaskKind_TASK_KIND_CHECKPOINTS // looks for checkpoints until it is cancelled
)

func (s *catalogServer) catalogKinds() map[pb.TaskKind]Kind {
	return map[pb.TaskKind]Kind{scans: scanKind{s: s.c}, follows: plain{}, checkpoints: plain{}}
}

// scanKind walks a tree for the catalog.
type scanKind struct {
	plain
	s *Service
}

// Judge implements Kind: a scan is done when the catalog has the whole walk.
func (k scanKind) Judge(_ *lead, t *pb.Task, _ *agentv1.FinishRequest) error {
	return k.s.catalog.scanned(t)
}
