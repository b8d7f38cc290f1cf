package directive

import (
	"iter"
	"math"
	"strings"

	"datamove.dev/mover/location"
)

// The bounds of what is read.
const (
	ScriptMost   = 1 << 20 // bytes of a script in which its directives have to be
	LineMost     = 4096    // bytes of a directive, with the lines in which it goes on
	RequestsMost = 64      // requests of one job
	keepMost     = 1000
)

// Verb is what is asked for.
type Verb string

// The verbs.
const (
	StageIn    Verb = "stage-in"   // bring it before the job starts
	StageOut   Verb = "stage-out"  // bring it away when the job has ended
	Checkpoint Verb = "checkpoint" // copy complete checkpoints while it runs
	Purge      Verb = "purge"      // remove it when the job has ended
)

// When is after which end of a job something is done.
type When string

// The ends.
const (
	Always  When = "always"
	Success When = "success"
)

// Profile is the framework that writes the checkpoints.
type Profile string

// Plain is a directory that says itself when it is complete.
const Plain Profile = "plain"

// Profiles are the names that there are.
var Profiles = []Profile{Plain, "dcp", "megatron", "deepspeed", "orbax", "hf", "nemo"}

// Request is one thing that a job asks for.
type Request struct {
	Verb     Verb
	From     location.Location   // what is moved, or purged
	To       []location.Location // where to: one of a stage, one or more of a checkpoint, none of a purge
	Required bool                // StageIn: the job does not start without it
	Shared   bool                // StageIn: other jobs on the node may read the same copy
	When     When                // StageOut and Purge
	Profile  Profile             // Checkpoint
	Keep     int                 // Checkpoint: how many are to be kept; 0 is all
}

// PerNode reports whether each target is another one on each node.
func (r Request) PerNode() bool {
	for _, to := range r.To {
		if !strings.Contains(to.String(), nodePattern) {
			return false
		}
	}
	return len(r.To) > 0
}

// Scratch is space that a #DW jobdw line asks for.
type Scratch struct {
	Tier    string // that has the job's directory
	Type    string // scratch, xfs, gfs2 or lustre
	Striped bool   // of type scratch: one directory for all nodes
	Private bool   // of type scratch: one for each node
	Name    string // "" is none
	Bytes   int64  // on each node
}

// Shared reports whether all nodes of the job are to see the same directory. On a tier of the node
// that is so for jobs of one node only.
func (s Scratch) Shared() bool { return s.Striped || s.Type == "lustre" }

// Variable is one that the job has to see.
type Variable struct {
	Name string
	At   location.Location // its path on the node is the value, with '/' at its end: scripts rely on it
}

// Variables are those by which a script finds the space.
func (s Scratch) Variables() []Variable {
	var all []Variable
	add := func(name string) {
		at := location.OfTier(s.Tier, name)
		at.TrailingSlash = true
		all = append(all, Variable{name, at})
	}
	if s.Striped {
		add("DW_JOB_STRIPED")
	}
	if s.Private {
		add("DW_JOB_PRIVATE")
	}
	if s.Name != "" {
		add("DW_JOB_" + strings.ReplaceAll(s.Name, "-", "_"))
	}
	return all
}

// Job is what a job asks for, in the order in which it does. The zero value asks for nothing.
type Job struct {
	Requests []Request
	Scratch  []Scratch
}

// Empty reports whether nothing is asked for.
func (j Job) Empty() bool { return len(j.Requests) == 0 && len(j.Scratch) == 0 }

// Of yields the requests of a verb.
func (j Job) Of(verb Verb) iter.Seq[Request] {
	return func(yield func(Request) bool) {
		for _, r := range j.Requests {
			if r.Verb == verb && !yield(r) {
				return
			}
		}
	}
}

// Bytes is how much space the job asks for on each node.
func (j Job) Bytes() int64 {
	sum := int64(0)
	for _, s := range j.Scratch {
		if sum += s.Bytes; sum < 0 {
			return math.MaxInt64
		}
	}
	return sum
}

// Variables are all that the job has to see.
func (j Job) Variables() []Variable {
	var all []Variable
	for _, s := range j.Scratch {
		all = append(all, s.Variables()...)
	}
	return all
}
