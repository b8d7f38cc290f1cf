package worker

import (
	"context"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
)

// runners are what a worker does for each kind of task.
var runners = map[pb.TaskKind]func(*worker, context.Context) (engine.Report, error){
	pb.TaskKind_TASK_KIND_COPY:        (*worker).move,
	pb.TaskKind_TASK_KIND_SYNC:        (*worker).move,
	pb.TaskKind_TASK_KIND_VERIFY:      (*worker).move,
	pb.TaskKind_TASK_KIND_REMOVE:      (*worker).remove,
	pb.TaskKind_TASK_KIND_RETAIN:      (*worker).retain,
	pb.TaskKind_TASK_KIND_DESCRIBE:    (*worker).describeSource,
	pb.TaskKind_TASK_KIND_STAGE:       (*worker).stage,
	pb.TaskKind_TASK_KIND_RELEASE:     (*worker).remove,
	pb.TaskKind_TASK_KIND_PURGE:       (*worker).remove,
	pb.TaskKind_TASK_KIND_LOOK:        (*worker).sample,
	pb.TaskKind_TASK_KIND_SCAN:        (*worker).scan,
	pb.TaskKind_TASK_KIND_FOLLOW:      (*worker).follow,
	pb.TaskKind_TASK_KIND_CHECKPOINTS: (*worker).scanCheckpoints,
	pb.TaskKind_TASK_KIND_BURST:       (*worker).burst,
	pb.TaskKind_TASK_KIND_TIER:        (*worker).tier,
	pb.TaskKind_TASK_KIND_UNDO:        (*worker).untier,
}

// strictPaths report, for the kinds that have such paths, whether a path must be reached without a symbolic link: a path
// that a component recorded, and not one that a user chose for this task.
var strictPaths = map[pb.TaskKind]func(*worker, location.Location) bool{
	pb.TaskKind_TASK_KIND_DESCRIBE: atSource,
	pb.TaskKind_TASK_KIND_STAGE:    func(w *worker, l location.Location) bool { return w.stagesDataset() && atTarget(w, l) },
	pb.TaskKind_TASK_KIND_RELEASE:  func(w *worker, l location.Location) bool { return atTarget(w, l) || atSource(w, l) },
	pb.TaskKind_TASK_KIND_PURGE:    atTarget,
	pb.TaskKind_TASK_KIND_TIER:     ofCheckpoint,
}

// work does what the spec says.
func (w *worker) work(ctx context.Context) (engine.Report, error) {
	kind := w.job.GetSpec().GetKind()
	run, known := runners[kind]
	if !known {
		return engine.Report{}, mover.Usagef("this worker does not know tasks of kind %v; upgrade its agent", kind)
	}
	return run(w, ctx)
}

func (w *worker) strict(l location.Location) bool {
	strict, has := strictPaths[w.job.GetSpec().GetKind()]
	return has && strict(w, l)
}

func atTarget(w *worker, l location.Location) bool { return w.isAt(l, w.job.GetSpec().GetTarget()) }
func atSource(w *worker, l location.Location) bool { return w.isAt(l, w.job.GetSpec().GetSource()) }

// ofCheckpoint holds for a checkpoint that is copied for a policy.
func ofCheckpoint(w *worker, l location.Location) bool {
	return w.job.GetSpec().GetTiering().GetCheckpoint() != nil && l.IsPath()
}

func (w *worker) describeSource(ctx context.Context) (engine.Report, error) {
	return w.describe(ctx, w.job.GetSpec().GetSource())
}

// stagesDataset reports whether the target of a staging becomes a replica of a version.
func (w *worker) stagesDataset() bool { return w.job.GetSpec().GetStaging().GetDataset() != "" }

// stage brings a replica to a tier, seals it, and reads it again to compare it with the manifest.
func (w *worker) stage(ctx context.Context) (engine.Report, error) {
	report, err := w.move(ctx)
	if err != nil || !w.stagesDataset() {
		return report, err
	}
	w.state.State(engine.Closing, "what is there now is read, to be compared with the manifest")
	described, err := w.seal(ctx, false) // what is compared is what stays
	if err == nil && !described {
		_, err = w.describe(ctx, w.job.GetSpec().GetTarget())
	}
	return report, err
}
