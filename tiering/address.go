package tiering

import (
	"iter"
	"path"
	"slices"
	"strings"

	"datamove.dev/mover"
	"datamove.dev/mover/location"
)

// address is where a location really is, as far as its text tells.
type address struct {
	node string // that has it; "" is any
	path string // "/a/b" of a file system, where "" is its root, or "bucket/prefix" of a store
}

// within reports whether path is dir, or lies below it.
func within(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, dir)
	return ok && (rest == "" || rest[0] == '/')
}

// holds reports whether b may be a, or lie below it.
func (a address) holds(b address) bool {
	return (a.node == "" || b.node == "" || a.node == b.node) && within(b.path, a.path)
}

// meets reports whether one of two addresses may hold the other.
func (a address) meets(b address) bool { return a.holds(b) || b.holds(a) }

// certainty is how far the text of a location tells where it is.
type certainty uint8

const (
	nowhere certainty = iota // not at all
	guessed                  // it may be at the address: it is in the way there, and is relied on nowhere
	known
)

// absolute returns the address of a location outside of the tiers. Where ".." leads
// the kernel knows; text can only guess.
func absolute(l location.Location, node string) (address, certainty) {
	switch {
	case l.Scheme == location.POSIX && strings.HasPrefix(l.Path, "/"):
		if mover.ValidName(l.Path[1:]) {
			return address{node, strings.TrimSuffix(l.Path, "/")}, known
		}
		return address{node, strings.TrimSuffix(path.Clean(l.Path), "/")}, guessed
	case l.Scheme == location.S3 && l.Bucket != "" && mover.ValidName(l.Prefix):
		return address{path: strings.TrimSuffix(l.Bucket+"/"+l.Prefix, "/")}, known
	}
	return address{}, nowhere
}

// index finds addresses that meet another one, of many.
type index struct {
	at     map[string][]int32 // by path
	sorted []string           // the paths
}

func (x *index) add(a address, i int) {
	if x.at == nil {
		x.at = map[string][]int32{}
	}
	if x.at[a.path] == nil {
		x.sorted = append(x.sorted, a.path)
	}
	x.at[a.path] = append(x.at[a.path], int32(i))
}

// ready follows the last add.
func (x *index) ready() { slices.Sort(x.sorted) }

// meeting yields what lies at, above or below the path of a. Nodes are not compared.
func (x *index) meeting(a address) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		every := func(path string) bool {
			for _, i := range x.at[path] {
				if !yield(i) {
					return false
				}
			}
			return true
		}
		for path := a.path; ; {
			if !every(path) {
				return
			}
			up := strings.LastIndexByte(path, '/')
			if up < 0 {
				break
			}
			path = path[:up]
		}
		below := a.path + "/"
		first, _ := slices.BinarySearch(x.sorted, below)
		for _, path := range x.sorted[first:] {
			if !strings.HasPrefix(path, below) || !every(path) {
				return
			}
		}
	}
}
