package slurm

import (
	"slices"
	"strings"
)

// Labels of the tasks of a job, to find them by.
const (
	Label        = "slurm_job"     // the job's number
	ClusterLabel = "slurm_cluster" // the cluster that has the job, of several
	NameLabel    = "slurm_name"    // what Slurm calls the cluster that has the job, where slurm.cluster does not: two such on one coordinator are noticed by it
	RunLabel     = "slurm_run"     // the run of the job: when it began, in nanoseconds
	CopyLabel    = "slurm_copy"    // which copy it is, of those that are tried again
	Leaves       = "slurm_leaves"  // it brings something away from the job: from the node that it names
	AllNodes     = "*"             // as value of Leaves: it waits, and says that something is to leave each node of the job

	CheckpointLabel = "slurm_checkpoint" // of a Watch: the profile, and how many are to be kept, as "dcp,3"
	PartLabel       = "slurm_part"       // of what is no copy of the user's: of what has to do with checkpoints on a node, and Space

	CapacityLabel = "slurm_capacity" // of a Space: the bytes that the job's directory may have there
	SpaceLabel    = "slurm_space/"   // of a Space: begins labels that name directories to be made in it
)

// Watch is, as value of PartLabel, a task that waits on a node for as long as checkpoints are to leave it: the node carries them
// away, each by tasks of its own, and ends the one that waits when nothing is left. Until then the job's directory stays.
const Watch = "watch"

// Space is, as value of PartLabel, a task that copies nothing: its node makes the job's directory as it begins ([Site.Make]), and holds it to its capacity.
const Space = "space"

// Move is a copy to or from the directory of a job on this node.
type Move struct {
	Name  string // of what is brought in, in the directory
	Out   bool   // it brings something away
	After bool   // it was asked for when the job had ended
	Run   string // of the job, as RunLabel has it; "" is not known
	State MoveState
}

// MoveState is how far a copy is.
type MoveState uint8

// The states.
const (
	Moving MoveState = iota // or waits, or has failed and can be tried again
	Moved
	Given // up: a user has cancelled it
)

func (m Move) named(target, dir string) Move {
	if !m.Out {
		m.Name = strings.TrimPrefix(strings.TrimSuffix(target, "/")+"/", dir)
		m.Name = strings.TrimSuffix(m.Name, "/")
	}
	return m
}

// leaving says whether something is to be brought away still. What could not be brought away is such, too: it is lost with the directory.
func leaving(moves []Move) bool {
	for _, m := range moves {
		if m.Out && m.State == Moving {
			return true
		}
	}
	return false
}

// remains says whether something is to be brought away still of a run that has ended.
func remains(moves []Move) bool {
	return slices.ContainsFunc(moves, func(m Move) bool { return m.Out && m.After && m.State == Moving })
}

// latest is the run of those that began last.
func latest(moves []Move) (run string) {
	for _, m := range moves {
		if len(m.Run) > len(run) || len(m.Run) == len(run) && m.Run > run {
			run = m.Run
		}
	}
	return run
}

// brought are the names of what was copied into the directory for the latest run, and is whole.
func brought(moves []Move) (names []string) {
	run := latest(moves)
	for _, m := range moves {
		if !m.Out && m.State == Moved && m.Run == run {
			names = append(names, m.Name)
		}
	}
	return names
}

// coming are the names directly in the directory that the latest run has of copies, or is about to have. One that fills all of it has "".
func coming(moves []Move) map[string]bool {
	names, run := map[string]bool{}, latest(moves)
	for _, m := range moves {
		if first, _, _ := strings.Cut(m.Name, "/"); !m.Out && m.Run == run {
			names[first] = true
		}
	}
	return names
}
