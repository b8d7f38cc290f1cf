package directive

import (
	"maps"
	"slices"
	"strings"

	"datamove.dev/mover/location"
)

// Level is how fast a tier is.
type Level string

// The levels, the fastest first.
const (
	Hot  Level = "hot"
	Warm Level = "warm"
	Cold Level = "cold"
)

// colder reports whether l is slower than another level; one that is not known is not.
func (l Level) colder(than Level) bool {
	levels := []Level{Hot, Warm, Cold}
	i, j := slices.Index(levels, l), slices.Index(levels, than)
	return i >= 0 && j >= 0 && i > j
}

// Tier is a named root, as the configuration has it. It has a path, or a bucket.
type Tier struct {
	Level     Level
	Path      string // absolute
	NodeLocal bool   // each node has its own at that path
	Ephemeral bool   // what is here may be purged
	Bucket    string
	Prefix    string
}

// Tiers is where data may be.
type Tiers struct {
	Named   map[string]Tier
	Scratch string   // has the directories of jobs; "" is the only tier that is node-local and ephemeral
	Disk    []string // absolute paths that lie on a node's own disk, beside the usual ones
}

// disk is what each node has for itself, everywhere.
var disk = []string{"/boot", "/dev", "/proc", "/root", "/run", "/sys", "/tmp", "/var"}

// scratch is the tier of jobs' directories, or why there is none.
func (t Tiers) scratch() (name, why string) {
	if t.Scratch != "" {
		if !t.jobs(t.Scratch) {
			return "", "the tier for it, " + t.Scratch + ", is not node-local and ephemeral"
		}
		return t.Scratch, ""
	}
	for _, tier := range slices.Sorted(maps.Keys(t.Named)) {
		if !t.jobs(tier) {
			continue
		}
		if name != "" {
			return "", "there are several tiers for it: " + name + ", " + tier
		}
		name = tier
	}
	if name == "" {
		return "", "there is no tier that is node-local and ephemeral"
	}
	return name, ""
}

// jobs reports whether jobs have directories on a tier.
func (t Tiers) jobs(name string) bool {
	tier := t.Named[name]
	return tier.NodeLocal && tier.Ephemeral && tier.Path != ""
}

// OfJob reports whether a location is one below the directory that the job has on a tier:
// its path begins there, and not at the root of the tier.
func (t Tiers) OfJob(l location.Location) bool {
	return l.InTier() && t.jobs(l.Tier)
}

// ground is what a location stands on.
type ground uint8

const (
	nowhere ground = iota // a dataset, or a tier that is not there
	own                   // the job's directory
	node                  // a node's own disk, beside the job's directory
	common                // files that all nodes see
	store                 // objects
)

// spot is where a location really is, as far as its text tells.
type spot struct {
	ground ground
	root   string   // of two spots with different ones, neither lies in the other
	path   []string // below the root
	tier   string   // the innermost that it lies in; "" is none
}

// find follows a location.
func (t Tiers) find(l location.Location) spot {
	switch tier := t.Named[l.Tier]; {
	case l.InStore():
		return t.object(l.Bucket, l.Prefix)
	case l.IsPath():
		return t.file(l.Path)
	case t.OfJob(l):
		return spot{own, "job " + l.Tier, segments(l.Path), l.Tier}
	case tier.Path != "":
		return t.file(tier.Path + "/" + l.Path)
	case tier.Bucket != "":
		return t.object(tier.Bucket, tier.Prefix+"/"+l.Path)
	}
	return spot{}
}

// segments cuts a path; empty ones are none.
func segments(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

// file follows an absolute path.
func (t Tiers) file(path string) spot {
	s := spot{ground: common, root: "/", path: segments(path)}
	longest := -1
	for _, name := range slices.Sorted(maps.Keys(t.Named)) {
		tier := t.Named[name]
		if root := segments(tier.Path); tier.Path != "" && within(s.path, root) && len(root) > longest {
			s.tier, longest = name, len(root)
		}
	}
	onDisk := func(dir string) bool { return within(s.path, segments(dir)) }
	switch {
	case t.Named[s.tier].NodeLocal:
		s.ground, s.root = node, "node"
	case s.tier == "" && (slices.ContainsFunc(disk, onDisk) || slices.ContainsFunc(t.Disk, onDisk)):
		s.ground, s.root = node, "node"
	}
	return s
}

// object follows a name in a bucket.
func (t Tiers) object(bucket, prefix string) spot {
	s := spot{ground: store, root: "s3", path: segments(bucket + "/" + prefix)}
	longest := -1
	for _, name := range slices.Sorted(maps.Keys(t.Named)) {
		tier := t.Named[name]
		if root := segments(tier.Bucket + "/" + tier.Prefix); tier.Bucket != "" && within(s.path, root) && len(root) > longest {
			s.tier, longest = name, len(root)
		}
	}
	return s
}

// within reports whether path is dir, or lies below it.
func within(path, dir []string) bool {
	return len(path) >= len(dir) && slices.Equal(path[:len(dir)], dir)
}

// meets reports whether one of two spots is the other, or lies in it, where same says of
// two names whether they are one.
func (s spot) meets(o spot, same func(a, b string) bool) bool {
	if s.root != o.root || s.ground == nowhere {
		return false
	}
	for i := range min(len(s.path), len(o.path)) {
		if !same(s.path[i], o.path[i]) {
			return false
		}
	}
	return true
}

func equal(a, b string) bool { return a == b }

// perhaps reports whether two names may be one when their patterns are expanded.
func perhaps(a, b string) bool {
	i, j := firstPattern(a), firstPattern(b)
	if i < 0 && j < 0 {
		return a == b
	}
	head := func(s string, i int) string {
		if i < 0 {
			return s
		}
		return s[:i]
	}
	x, y := head(a, i), head(b, j)
	switch {
	case i < 0:
		return strings.HasPrefix(x, y)
	case j < 0:
		return strings.HasPrefix(y, x)
	}
	return strings.HasPrefix(x, y) || strings.HasPrefix(y, x)
}
