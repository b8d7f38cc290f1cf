package location

import (
	"strings"

	"datamove.dev/mover"
)

// inner is the part of the address below its root; nil is none.
func (l *Location) inner() *string {
	if below := kinds[l.Scheme].below; below != nil {
		return below(l)
	}
	return nil
}

// Below is the part of the address below its root, which is a bucket, a tier or all of a file system. It is "" for a dataset.
func (l Location) Below() string {
	if p := l.inner(); p != nil {
		return *p
	}
	return ""
}

// WithBelow is l with another part below the same root. A dataset has none, and stays as it is.
func (l Location) WithBelow(below string) Location {
	if p := l.inner(); p != nil {
		*p = below
	}
	return l
}

// Root is the bucket or the tier that l lies in, the root of the file system of an absolute path, or the directory that a
// relative one begins in. A dataset is its own.
func (l Location) Root() Location {
	p := l.inner()
	switch {
	case p == nil:
		return l
	case !l.IsPath():
		*p = ""
	case strings.HasPrefix(*p, "/"):
		*p = "/"
	default:
		*p = "."
	}
	l.TrailingSlash = true
	return l
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
	case *p == "" || l.IsPath() && *p == ".":
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
	case !l.IsPath() || up != "":
	case strings.HasPrefix(*p, "/"):
		up = "/"
	default:
		up = "."
	}
	*p = up
	l.TrailingSlash = true
	return l, base, true
}
