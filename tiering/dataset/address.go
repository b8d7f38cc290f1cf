package dataset

import (
	"path"
	"strings"

	"datamove.dev/mover"
	"datamove.dev/mover/location"
)

// Address is where a location really is, as far as its text tells.
type Address struct {
	node string // that has it; "" is any
	path string // "/a/b" of a file system, where "" is its root, or "bucket/prefix" of a store
}

// inFiles reports whether it is in a file system.
func (a Address) inFiles() bool { return a.path == "" || a.path[0] == '/' }

// within reports whether path is dir, or lies below it.
func within(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, dir)
	return ok && (rest == "" || rest[0] == '/')
}

// holds reports whether b may be a, or lie below it.
func (a Address) holds(b Address) bool {
	return (a.node == "" || b.node == "" || a.node == b.node) && within(b.path, a.path)
}

// meets reports whether one of two addresses may hold the other.
func (a Address) meets(b Address) bool { return a.holds(b) || b.holds(a) }

// certainty is how far the text of a location tells where it is.
type certainty uint8

const (
	nowhere certainty = iota // not at all
	guessed                  // it may be at the address: it is in the way there, and is relied on nowhere
	known
)

// absolute returns the address of a location outside of the tiers. Where ".." leads
// the kernel knows; text can only guess.
func absolute(l location.Location, node string) (Address, certainty) {
	switch {
	case l.IsPath() && strings.HasPrefix(l.Path, "/"):
		if mover.ValidName(l.Path[1:]) {
			return Address{node, strings.TrimSuffix(l.Path, "/")}, known
		}
		return Address{node, strings.TrimSuffix(path.Clean(l.Path), "/")}, guessed
	case l.InStore() && l.Bucket != "" && mover.ValidName(l.Prefix):
		return Address{path: strings.TrimSuffix(l.Bucket+"/"+l.Prefix, "/")}, known
	}
	return Address{}, nowhere
}
