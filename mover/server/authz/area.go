package authz

import (
	"fmt"
	"strings"

	"datamove.dev/mover"
	"datamove.dev/mover/location"
)

// area is a location as it can be compared: a store, and a name in it that is valid
// (mover.ValidName) and "" for all of the store. A tier with a path is files at that
// path, so that both spellings of a place mean the same. A tier in a bucket is a
// store of its own: the same bucket without the tier may be another one, at another
// endpoint.
type area struct {
	store string // files, tier: or s3://bucket
	path  string
}

// files is the store of all paths.
const files = "/"

// maxLocation bounds what is looked at: a path of the kernel and a tier.
const maxLocation = 4096 + 256

// holds reports whether b is a or below it.
func (a area) holds(b area) bool {
	return a.store == b.store && mover.Within(b.path, a.path)
}

// String is a location that means the area.
func (a area) String() string {
	if strings.Contains(a.store, "://") {
		return a.store + "/" + a.path
	}
	return a.store + a.path
}

// area reads a location. What is odd is refused, not mended. Its errors are of kind
// [mover.ErrUsage].
func (r *Rules) area(at string) (area, error) {
	if len(at) > maxLocation {
		return area{}, fmt.Errorf("%w: a location of %d bytes; at most %d are possible", mover.ErrUsage, len(at), maxLocation)
	}
	l, err := location.Parse(at)
	if err != nil {
		return area{}, err
	}
	return r.areaOf(l)
}

func (r *Rules) areaOf(l location.Location) (area, error) {
	switch {
	case l.IsPath():
		return posix(l.Path)
	case l.InStore():
		return area{strings.TrimSuffix(l.Root().String(), "/"), l.Prefix}, nil
	case l.InTier():
		return r.inTier(l)
	case l.IsDataset():
		return area{}, fmt.Errorf("%w: %s is a name and not a location: what counts is where its replica is", mover.ErrUsage, mover.Printable(l.String()))
	}
	return area{}, fmt.Errorf("%w: no rule is about locations of scheme %s", mover.ErrUsage, mover.Printable(string(l.Scheme)))
}

func posix(path string) (area, error) {
	name, absolute := strings.CutPrefix(path, "/")
	if !absolute || !mover.ValidName(name) {
		return area{}, fmt.Errorf("%w: the path %s must begin with a slash and have no .. in it", mover.ErrUsage, mover.Printable(path))
	}
	return area{files, name}, nil
}

func (r *Rules) inTier(l location.Location) (area, error) {
	if r.buckets[l.Tier] {
		return area{l.Tier + ":", l.Path}, nil
	}
	root, known := r.tiers[l.Tier]
	if !known {
		return area{}, fmt.Errorf("%w: there is no tier %s in the configuration (tiers)", mover.ErrUsage, mover.Printable(l.Tier))
	}
	return area{files, strings.Trim(root+"/"+l.Path, "/")}, nil
}
