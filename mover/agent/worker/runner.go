package worker

import (
	"context"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
)

// Runner does the tasks of one kind. It is a value without state: one Runner serves every task of its kind.
type Runner interface {
	// Run does the task from its beginning to its end. It returns when ctx ends, with the cause of that.
	// The report counts even with an error.
	Run(ctx context.Context, j *Job) (engine.Report, error)
	// Strict reports whether the job reaches a path without following symbolic links: a path that a component
	// recorded, and not one that a user chose for this task. A Runner without such paths embeds [FollowsLinks].
	Strict(j *Job, path location.Location) bool
}

// Runners has the Runner of each kind of task that a program knows.
type Runners map[pb.TaskKind]Runner

// FollowsLinks is the part of a Runner with paths that may lead over symbolic links.
type FollowsLinks struct{}

// Strict implements Runner.
func (FollowsLinks) Strict(*Job, location.Location) bool { return false }

// Transfer is the Runner of tasks that the engine does: it compares a source and a target, and copies if it may.
type Transfer struct{ FollowsLinks }

// Run implements Runner.
func (Transfer) Run(ctx context.Context, j *Job) (engine.Report, error) { return j.Transfer(ctx) }

// Remove is the Runner of tasks that remove their target.
type Remove struct{ FollowsLinks }

// Run implements Runner.
func (Remove) Run(ctx context.Context, j *Job) (engine.Report, error) {
	return j.RemoveTarget(ctx, nil)
}

// run does the task with the Runner of its kind.
func (j *Job) run(ctx context.Context) (engine.Report, error) {
	kind := j.Spec().GetKind()
	r, known := j.options.Runners[kind]
	if !known {
		return engine.Report{}, mover.Usagef("this worker does not know tasks of kind %v; upgrade its agent", kind)
	}
	return r.Run(ctx, j)
}

func (j *Job) strict(l location.Location) bool {
	r, known := j.options.Runners[j.Spec().GetKind()]
	return known && r.Strict(j, l)
}
