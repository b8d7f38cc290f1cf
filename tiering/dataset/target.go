package dataset

import (
	"strings"
	"unicode/utf8"

	"datamove.dev/mover"
	"datamove.dev/mover/location"
)

// Datasets is the folder of a tier in which replicas of datasets lie, each as
// NAME/DIGEST in a bucket. In a file system it is in the folder [Inside] of that one, to which
// not everybody gets. A listing shows it and a walk enters it like any other one: it is not
// below .datamove, which walks of a bucket leave out. The digest is written
// in full: of twelve digits anybody finds two contents that share them in seconds, and
// the replica of one would be taken for the other's.
const Datasets = ".datasets"

// Inside is the folder in that of a digest which is the replica itself.
const Inside = "data"

// own begins the names that the mover uses for itself at any depth of a tree; walks leave
// out entries with such names.
const own = ".datamove"

// Bounds of a location that is staged to.
const (
	maxName    = 128  // of a dataset
	maxSegment = 255  // NAME_MAX, and the limit of stores that keep objects as files
	maxPath    = 1000 // below the root of a tier; a key has 1,024 bytes with what comes below
)

// ValidDataset reports whether a dataset may have that name.
func ValidDataset(name string) bool {
	l, err := location.Parse("dataset:" + name)
	return err == nil && l.Name == name && len(name) <= maxName
}

// StageTarget returns where a replica of source goes on a tier. A version of a
// dataset, with its digest, has its path in the folder Datasets. What lies in a tier
// keeps its path, by whichever name it was asked for. Anything else has its last
// segment, a bucket its name. node is the node of node-local paths.
//
// mover.ErrUsage says what can not be staged: a whole tier, what is on the tier
// already, or a name that is ours or that another tier might not keep.
func (v *View) StageTarget(source location.Location, node, tierName string) (location.Location, error) {
	no := func(kind error, format string, args ...any) (location.Location, error) {
		return location.Location{}, refuse("stage", source.String(), kind, format, args...)
	}
	if v.tiers[tierName] == nil {
		return no(mover.ErrNotExist, "there is no tier %s", mover.Printable(tierName))
	}
	target := location.OfTier(tierName, "")
	if source.IsDataset() {
		if !ValidDataset(source.Name) || !validDigest(source.Digest) {
			return no(mover.ErrUsage, "a dataset is staged by its name and digest")
		}
		target.Path = Datasets + "/" + source.Name + "/" + source.Digest
		if v.tiers[tierName].root.inFiles() {
			target.Path += "/" + Inside
		}
		return target, nil
	}
	at, sure := v.resolve(source, node)
	if sure != known {
		return no(mover.ErrUsage, "where it is can not be told; write an absolute path, s3://bucket/prefix, or TIER:path")
	}
	if v.tiers[tierName].root.holds(at) {
		return no(mover.ErrUsage, "it is on tier %s already", mover.Printable(tierName))
	}
	if target.Path = v.below(at); target.Path == "" {
		return no(mover.ErrUsage, "it is a whole tier or file system; name what is needed of it")
	}
	if why := unfit(target.Path); why != "" {
		return no(mover.ErrUsage, "%s", why)
	}
	return target, nil
}

// below is the path of an address in the innermost tier that it lies in, or its
// last segment when it lies in none.
func (v *View) below(at Address) string {
	if t := v.home(at); t != nil {
		return strings.TrimPrefix(at.path[len(t.root.path):], "/")
	}
	_, base := mover.Parent(at.path)
	return base
}

// unfit says why something can not be staged to a path; "" when it can.
func unfit(path string) string {
	if len(path) > maxPath || !utf8.ValidString(path) {
		return "its path is too long, or not UTF-8"
	}
	if mover.Within(path, Datasets) {
		return "the folder " + Datasets + " holds replicas of datasets; stage dataset:NAME instead"
	}
	for segment := range strings.SplitSeq(path, "/") {
		switch {
		case len(segment) > maxSegment:
			return "a segment of its path is too long"
		case strings.HasPrefix(segment, own):
			return "names that begin with " + own + " are the mover's own"
		case strings.ContainsFunc(segment, func(c rune) bool { return c < ' ' || c == 0x7f || c == utf8.RuneError }):
			return "its path has control characters"
		}
	}
	return ""
}

func validDigest(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}
