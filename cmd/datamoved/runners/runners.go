// Package runners says what a worker of datamoved does for each kind of task: one line for each. It has no state. TestEveryKind
// holds the table to the kinds that the coordinator knows.
package runners

import (
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/agent/worker"
	"datamove.dev/tiering/burst/burstworker"
	"datamove.dev/tiering/catalog/catalogworker"
	"datamove.dev/tiering/checkpoint/checkpointworker"
	"datamove.dev/tiering/dataset/datasetworker"
	"datamove.dev/tiering/policy/policyworker"
)

// Of returns the runners of a worker that hears of changes by these feeds; nil hears of none.
func Of(feeds catalogworker.Feeds) worker.Runners {
	return worker.Runners{
		pb.TaskKind_TASK_KIND_COPY:        worker.Transfer{},
		pb.TaskKind_TASK_KIND_SYNC:        worker.Transfer{},
		pb.TaskKind_TASK_KIND_VERIFY:      worker.Transfer{},
		pb.TaskKind_TASK_KIND_REMOVE:      worker.Remove{},
		pb.TaskKind_TASK_KIND_DESCRIBE:    datasetworker.Describe{},
		pb.TaskKind_TASK_KIND_STAGE:       datasetworker.Stage{},
		pb.TaskKind_TASK_KIND_RELEASE:     datasetworker.Release{},
		pb.TaskKind_TASK_KIND_PURGE:       datasetworker.Purge{},
		pb.TaskKind_TASK_KIND_LOOK:        datasetworker.AccessProbe{},
		pb.TaskKind_TASK_KIND_SCAN:        catalogworker.Scan{},
		pb.TaskKind_TASK_KIND_FOLLOW:      catalogworker.Follow{Feeds: feeds},
		pb.TaskKind_TASK_KIND_CHECKPOINTS: checkpointworker.Scan{},
		pb.TaskKind_TASK_KIND_RETAIN:      checkpointworker.Retain{},
		pb.TaskKind_TASK_KIND_TIER:        policyworker.Tier{},
		pb.TaskKind_TASK_KIND_UNDO:        policyworker.Undo{},
		pb.TaskKind_TASK_KIND_BURST:       burstworker.Step{},
	}
}
