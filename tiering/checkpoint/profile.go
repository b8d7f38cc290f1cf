package checkpoint

import (
	"slices"
	"strings"

	"datamove.dev/mover"
)

// Profile is the framework that wrote the checkpoints.
type Profile string

// The profiles.
const (
	Plain     Profile = "plain"     // each directory says itself when it is complete: [Marks]
	DCP       Profile = "dcp"       // PyTorch Distributed Checkpoint: .metadata is renamed last
	Megatron  Profile = "megatron"  // iter_0000100, and a tracker that is written after it
	DeepSpeed Profile = "deepspeed" // tags, and the tracker latest that is written after one
	Orbax     Profile = "orbax"     // a temporary directory that is renamed, or a file that says so
	HF        Profile = "hf"        // checkpoint-100 of the Trainer
	NeMo      Profile = "nemo"      // NAME-unfinished beside what is not complete; files of Lightning, too
	Mixed     Profile = "mixed"     // of several frameworks: each set is judged as what it looks like itself. [Guess] finds it
)

// Committed is the file in a set that says in every profile that it is complete, and which files it has: see [Commit].
const Committed = "datamove-commit.json"

// Marks are the names of files that say in a plain directory that it is complete.
var Marks = []string{Committed, "_SUCCESS", ".complete", "commit_success.txt"}

// form is what the names of a profile look like.
type form struct {
	trackers []string
	// holds says whether a directory is a set, by its name and by the names of what is directly in it.
	holds func(name string, inside []string) bool
	file  func(name string) bool // a single file is a set; nil is none
}

var (
	iteration  = mover.Pattern(`^(iter_\d{7,18}|release)$`)
	orbaxStep  = mover.Pattern(`^([A-Za-z0-9]+_)?\d{1,18}(\.orbax-checkpoint-tmp.*)?$`)
	trainer    = mover.Pattern(`^(tmp-)?checkpoint-\d{1,18}$`)
	shard      = mover.Pattern(`^__\d+_\d+\.distcp$`)
	deepShard  = mover.Pattern(`[-_](model|optim)_states\.pt$`)
	numbered   = mover.Pattern(`^(.*-)(\d{5})-of-(\d{5})(\.[a-z.]+)$`)
	incomplete = mover.Pattern(`\.incomplete-\d+$`)
	nemoRank   = mover.Pattern(`^(mp|tp|ep|pp)_rank_\d+`) // a directory for each rank, with a part of every checkpoint in it
)

var forms = map[Profile]form{
	Plain: {[]string{"latest", "LATEST"}, func(string, []string) bool { return true }, nil},
	DCP: {[]string{"latest"}, func(_ string, inside []string) bool {
		return slices.ContainsFunc(inside, func(n string) bool { return strings.HasPrefix(n, ".metadata") || shard().MatchString(n) })
	}, nil},
	Megatron: {[]string{megatronTracker}, func(name string, _ []string) bool { return iteration().MatchString(name) }, nil},
	DeepSpeed: {[]string{"latest", universalTracker}, func(_ string, inside []string) bool {
		return slices.ContainsFunc(inside, deepShard().MatchString)
	}, nil},
	Orbax: {nil, func(name string, _ []string) bool { return orbaxStep().MatchString(name) }, nil},
	HF:    {nil, func(name string, _ []string) bool { return trainer().MatchString(name) }, nil},
	NeMo: {[]string{"LATEST", "latest"}, func(name string, _ []string) bool { return !nemoRank().MatchString(name) },
		nemoFile},
	Mixed: {[]string{"latest", "LATEST", megatronTracker, universalTracker}, func(name string, _ []string) bool { return !nemoRank().MatchString(name) }, nemoFile},
}

func nemoFile(name string) bool {
	return strings.HasSuffix(name, ".ckpt") || strings.HasSuffix(name, ".nemo")
}

// Known says whether there is such a profile.
func Known(p Profile) bool {
	_, known := forms[p]
	return known
}

const (
	megatronTracker = "latest_checkpointed_iteration.txt"
	unfinished      = "-unfinished" // ends the marker beside a set of NeMo
	orbaxCommit     = "commit_success.txt"

	universalTracker = "latest_universal" // of DeepSpeed: of sets that were converted, and so not of the newest
)
