// Package fairshare decides which task may use a shared node next, and how much.
//
// [Scheduler] gives turns by deficit round robin over class, project, user and task,
// each turn paid for in bytes and operations. [Bucket] and [Buckets] hold bytes and
// operations per second to a rate, by endpoint and direction. [Windows] says which rate
// is in force at which time of the week, [Divide] what each agent gets of a rate that
// all share, and [Jain] how fair that was.
//
// Words: a flow is a task with the project and user that it belongs to; a group is what
// shares with its like: a class, a project, a user or a task. A turn is a piece of work
// that takes room on the node: a slot, or as large a part of all slots as its flow says. A
// flow is late when it has no turn in line, because the last one has just ended. A group's
// quantum is what it earns in a round, its deficit what it has earned and not spent; below
// zero it owes.
//
// Scheduler and buckets may be used from many goroutines and start none. Nothing is
// kept on disk: after a crash no group owes anything. The callers do the work of a turn, and
// answer for the names of flows, the weights and the rates.
// TestSameAsWalkingTheRing shows the order of turns, TestProjectsShareEqually a whole
// node, TestLateIsNotLost flows that are late, TestSlowTurnsLeaveTheirRoom one that waits for
// something else, TestBucketHoldsItsRate the buckets.
package fairshare

import datamovev1 "datamove.dev/api/datamove/v1"

// Flow is the task that wants a turn, with its class, project and user.
type Flow struct {
	Class   datamovev1.TaskClass // what is not one of the six counts as REPLICATE
	Project string
	User    string
	Task    string
}

// Cost is what a piece of work takes of a node.
type Cost struct {
	Bytes int64
	Ops   int64 // calls that take time whatever their size: open, create, stat, GET, PUT
}

// maxTurn bounds the price of one turn, and what a group may owe or be owed.
const maxTurn = 16 << 30

// price is the cost as one number. A turn is one operation at least, so that no flow
// has turns for nothing.
func (c Cost) price(opBytes int64) int64 {
	ops := min(max(c.Ops, 1), maxTurn/opBytes)
	return min(max(c.Bytes, 0), maxTurn-ops*opBytes) + ops*opBytes
}

// Weights say how much of a node a group gets when others want it too. The scheduler
// keeps the maps: they must not change afterwards.
type Weights struct {
	// Classes overrides the weights of classes: restore 32, checkpoint 16, stage 8,
	// replicate 4, tier 2, scrub 1.
	Classes map[datamovev1.TaskClass]int64
	// Projects are the weights of projects within a class; 1 where there is none.
	Projects map[string]int64
}

const maxWeight = 1 << 20

var classWeights = map[datamovev1.TaskClass]int64{
	datamovev1.TaskClass_TASK_CLASS_RESTORE:    32,
	datamovev1.TaskClass_TASK_CLASS_CHECKPOINT: 16,
	datamovev1.TaskClass_TASK_CLASS_STAGE:      8,
	datamovev1.TaskClass_TASK_CLASS_REPLICATE:  4,
	datamovev1.TaskClass_TASK_CLASS_TIER:       2,
	datamovev1.TaskClass_TASK_CLASS_SCRUB:      1,
}

// Of is the weight of a project in a class beside all other ones.
func (w Weights) Of(c datamovev1.TaskClass, project string) int64 {
	return max(w.class(c), 1) * w.project(project)
}

func (w Weights) class(c datamovev1.TaskClass) int64 {
	if own := w.Classes[c]; own > 0 {
		return min(own, maxWeight)
	}
	return classWeights[c]
}

func (w Weights) project(name string) int64 {
	return min(max(w.Projects[name], 1), maxWeight)
}
