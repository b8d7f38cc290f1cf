package location

import (
	"strings"

	"datamove.dev/mover"
)

// inner is the part of the address below its root, and whether it is a path that
// can go up.
func (l *Location) inner() *string {
	switch l.Scheme {
	case S3:
		return &l.Prefix
	case InTier, POSIX:
		return &l.Path
	}
	return nil
}

// Base returns the last segment of the address, or "" when it has none of its own.
func (l Location) Base() string {
	p := l.inner()
	if p == nil {
		return ""
	}
	_, base := mover.Parent(*p)
	if base == "." || base == ".." {
		return ""
	}
	return base
}

// Child returns the address of an entry below l. The name is relative, with '/'
// between its segments, and valid (mover.ValidName).
func (l Location) Child(name string) Location {
	p := l.inner()
	if p == nil || name == "" {
		return l
	}
	l.TrailingSlash = false
	switch {
	case *p == "" || l.Scheme == POSIX && *p == ".":
		*p = name
	case strings.HasSuffix(*p, "/"):
		*p += name
	default:
		*p += "/" + name
	}
	return l
}

// Parent returns the address of the directory that holds l, and the name of l
// there. It reports false when l is a root.
func (l Location) Parent() (dir Location, base string, ok bool) {
	if base = l.Base(); base == "" {
		return l, "", false
	}
	p := l.inner()
	up, _ := mover.Parent(*p)
	switch {
	case l.Scheme != POSIX || up != "":
	case strings.HasPrefix(*p, "/"):
		up = "/"
	default:
		up = "."
	}
	*p = up
	l.TrailingSlash = true
	return l, base, true
}
