package task

import (
	"strings"

	pb "datamove.dev/api/datamove/v1"
)

// AskedBy is the label of a housekeeping task that a caller asked for: its name. The task belongs to the service, because it
// reads the files of all owners.
const AskedBy = "asked-by"

// Kind has the facts about one kind of task that several components need. What only the
// coordinator does for it is a taskkind.Kind, and what a worker does is a worker.Runner.
type Kind struct {
	Command string       // that submits such a task: "dataset add"
	Class   pb.TaskClass // of a task without one; the zero value is replicate
	Action  string       // the permission to make such a task: mover/server/authz
	Owned   bool         // the permission has a .own and an .any

	Submitted    bool // TaskService.SubmitTask takes it; other kinds have a method of their own, or only the coordinator makes them
	UserPaths    bool // a user chose its locations: a project's roots confine it
	Housekeeping bool // the coordinator makes it for itself, unless a label names the caller
	Standing     bool // it runs until it is cancelled, waits most of the time, and takes no slot of an agent

	ReadsSource   bool // it takes the content of its sources as it is
	NoTarget      bool // it needs no target
	ReadOnly      bool // it changes nothing at its target
	Moves         bool // the engine compares its sources with the target, and copies if it may write
	Overwrites    bool // the replicas at its target are unknown afterwards
	RemovesTarget bool // it removes its target
	Replica       bool // its target is a replica of a dataset
	Shared        bool // several callers can wait for one such task
	Feed          bool // it reads the change feed of the file system of its source
	Probe         bool // it asks the file system whether its owner may read the source; a caller waits for the answer

	// Destroys reports whether a task can remove what nothing brings back; nil is never.
	Destroys func(*pb.TaskSpec) bool
}

// Brings reports whether tasks of a kind make the target what the source is.
func (k Kind) Brings() bool { return k.Moves && !k.ReadOnly }

// Changes reports whether a user asked for a change of the target by a task of this kind.
func (k Kind) Changes() bool { return k.UserPaths && !k.ReadOnly }

var kinds = map[pb.TaskKind]Kind{
	pb.TaskKind_TASK_KIND_COPY: {
		Command: "copy", Action: "task.submit", Submitted: true, UserPaths: true, ReadsSource: true, Moves: true, Overwrites: true,
	},
	pb.TaskKind_TASK_KIND_SYNC: {
		Command: "sync", Action: "task.submit", Submitted: true, UserPaths: true, ReadsSource: true, Moves: true, Overwrites: true,
		Destroys: func(s *pb.TaskSpec) bool { return s.GetOptions().GetRemoveExtra() },
	},
	pb.TaskKind_TASK_KIND_VERIFY: {
		Command: "verify", Class: pb.TaskClass_TASK_CLASS_SCRUB, Action: "task.submit", Submitted: true, UserPaths: true, ReadsSource: true, ReadOnly: true, Moves: true,
	},
	pb.TaskKind_TASK_KIND_REMOVE: {
		Command: "rm", Action: "task.submit", Submitted: true, UserPaths: true, Overwrites: true, RemovesTarget: true, Destroys: always,
	},
	pb.TaskKind_TASK_KIND_RETAIN: {
		Command: "checkpoint prune", Class: pb.TaskClass_TASK_CLASS_TIER, Action: "task.submit", Submitted: true, Overwrites: true, Destroys: always,
	},
	pb.TaskKind_TASK_KIND_DESCRIBE: {
		Command: "dataset add", Action: "dataset.add", Owned: true, ReadsSource: true, NoTarget: true,
	},
	pb.TaskKind_TASK_KIND_STAGE: {
		Command: "stage", Class: pb.TaskClass_TASK_CLASS_STAGE, Action: "dataset.stage", ReadsSource: true, Moves: true, Replica: true, Shared: true,
	},
	pb.TaskKind_TASK_KIND_RELEASE: {
		Command: "release", Class: pb.TaskClass_TASK_CLASS_TIER, Action: "dataset.release", Owned: true, RemovesTarget: true, Replica: true, Destroys: always,
	},
	pb.TaskKind_TASK_KIND_PURGE: {
		Command: "purge", Class: pb.TaskClass_TASK_CLASS_TIER, Action: "dataset.purge", RemovesTarget: true, Destroys: always,
	},
	pb.TaskKind_TASK_KIND_LOOK: {
		Command: "look", Class: pb.TaskClass_TASK_CLASS_RESTORE, Action: "dataset.stage", ReadOnly: true, Probe: true,
	},
	pb.TaskKind_TASK_KIND_TIER: {Command: "policy run", Class: pb.TaskClass_TASK_CLASS_TIER, Action: "policy.run", Destroys: always},
	pb.TaskKind_TASK_KIND_UNDO: {Command: "policy undo", Class: pb.TaskClass_TASK_CLASS_TIER, Action: "policy.run"},
	pb.TaskKind_TASK_KIND_SCAN: {Command: "tier scan", Class: pb.TaskClass_TASK_CLASS_SCRUB, Action: "catalog.scan", Housekeeping: true},
	pb.TaskKind_TASK_KIND_FOLLOW: {
		Command: "tier follow", Class: pb.TaskClass_TASK_CLASS_TIER, Action: "catalog.scan", Housekeeping: true, Standing: true, Feed: true,
	},
	pb.TaskKind_TASK_KIND_CHECKPOINTS: {
		Command: "tier checkpoints", Class: pb.TaskClass_TASK_CLASS_TIER, Action: "catalog.scan", Housekeeping: true, Standing: true,
	},
	pb.TaskKind_TASK_KIND_BURST: {
		Command: "burst", Action: "burst.apply", Owned: true,
		Destroys: func(s *pb.TaskSpec) bool { return s.GetBurst().GetStep() == pb.BurstStep_BURST_STEP_DOWN },
	},
}

func always(*pb.TaskSpec) bool { return true }

// KindOf returns the facts about a kind; the zero Kind of one that this build does not know.
func KindOf(k pb.TaskKind) Kind { return kinds[k] }

// Of returns the facts about the kind of a task.
func Of(s *pb.TaskSpec) Kind { return kinds[s.GetKind()] }

// KindWord is a kind in one word, for logs: "copy".
func KindWord(k pb.TaskKind) string {
	return strings.ToLower(strings.TrimPrefix(k.String(), "TASK_KIND_"))
}

// Destroys reports whether a task can remove what nothing brings back.
func Destroys(s *pb.TaskSpec) bool {
	destroys := Of(s).Destroys
	return destroys != nil && destroys(s)
}

// ClassOf is the class of a request.
func ClassOf(s *pb.TaskSpec) pb.TaskClass {
	if c := s.GetClass(); c != pb.TaskClass_TASK_CLASS_UNSPECIFIED {
		return c
	}
	if c := Of(s).Class; c != pb.TaskClass_TASK_CLASS_UNSPECIFIED {
		return c
	}
	return pb.TaskClass_TASK_CLASS_REPLICATE
}
