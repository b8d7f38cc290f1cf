// Package plan turns two listings into actions: what has to be done so that the
// target becomes equal to the source. It decides, and does nothing.
//
// # Words
//
// An [Action] is one name and what to do about it ([Op]), with a reason. [Diff] makes actions of two walks, [Options.Resolve] settles
// those that needed a closer look, [Totals] sums them, and a [Filter] says what
// takes part.
//
// # Promises
//
//   - Doing all actions makes the target equal to the source with Options.Delete,
//     and a superset of it without.
//   - A name has at most one action that creates it, and a directory comes before
//     what it contains.
//   - Removes stand where their names stand. The caller does them last, in reverse
//     order, and none of them when any error has passed: an error means that one
//     side is not known as a whole.
//   - Memory does not grow with the trees: two streams are merged, and what is
//     remembered is the way down to the current name and the open groups of hard
//     links (Options.MaxLinks).
//
// Everything is a pure function of its arguments, or a value that does not change
// after it was made; nothing here survives a crash, nor has to. Bytes and calls
// are left to transfer. TestPlanMakesEqual shows the first promise.
package plan

import (
	"strings"

	"datamove.dev/mover"
)

// Op is what to do about one name.
type Op uint8

// The operations.
const (
	Keep     Op = iota + 1 // it is there as it should be
	Create                 // make Source; Target is what it takes the place of, if that is of another kind
	Replace                // make Source in the place of Target, neither being a directory
	Update                 // set the facts of Target to those of Source, content apart
	Link                   // make it a hard link to the entry named Action.Link, in the place of Target if there is one
	Compare                // look at both contents or at all facts first: Options.Resolve
	Remove                 // remove Target
	Conflict               // can not be done: Why says it
)

var opNames = [...]string{"none", "keep", "create", "replace", "update", "link", "compare", "remove", "conflict"}

func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return "invalid"
}

// ParseOp is the inverse of [Op.String].
func ParseOp(s string) (Op, bool) {
	for i, name := range opNames {
		if i > 0 && name == s {
			return Op(i), true
		}
	}
	return 0, false
}

// The reasons of actions, for people. An Action.Why is one of them, or WhyAttribute.
const (
	WhyNew            = "new"
	WhyFull           = "full copy"
	WhyKind           = "kind differs"
	WhySize           = "size differs"
	WhyMtime          = "mtime differs"
	WhyContent        = "content differs"
	WhyLinkTarget     = "link target differs"
	WhyDevice         = "device differs"
	WhyMode           = "mode differs"
	WhyOwner          = "owner differs"
	WhyGroup          = "group differs"
	WhyXattrs         = "xattrs differ"
	WhyFactsMissing   = "facts missing"              // the target could keep them and has none
	WhyHardLink       = "hard link"                  // another name of the same content
	WhySharedInode    = "facts differ, inode shared" // an update would change other names too
	WhyManyLinks      = "hard link not kept: too many"
	WhyLinkRefused    = "hard link not kept: the target can not have it"
	WhyEqual          = "equal"
	WhyChildren       = "entries change"  // of a kept directory: its times have to be set again
	WhyFactsUnknown   = "facts unknown"   // a listing does not tell them
	WhyMtimeUnknown   = "mtime unknown"   // only contents can tell
	WhyContentUnknown = "content unknown" // ByContent
	WhyTargetUnknown  = "target unknown"  // a directory of the target could not be listed
	WhyNotInSource    = "not in source"
	WhyDirInTheWay    = "a directory is in the way"
	WhyMounted        = "another file system is mounted here: nothing of it is removed; to do that, name it as the target"
	WhyUnconfirmed    = "not confirmed" // an earlier run has published it, and could not sync its directory
	WhyReleased       = "released"      // left out: its content is in an archive only
	WhyBothKinds      = "a file and a directory of the same name"
)

// WhyAttribute is the reason that an attribute of an object gives: what is named is the attribute, as mover.Attribute names it.
func WhyAttribute(name string) string {
	if rest, ok := strings.CutPrefix(name, mover.MetadataPrefix); ok {
		return "metadata " + mover.Printable(rest) + " differs"
	}
	if name == mover.AttributeTags {
		return "tags differ"
	}
	return mover.Printable(name) + " differs"
}

// Action is one name and what to do about it.
type Action struct {
	Op     Op
	Source mover.Entry // as the walk saw it; the zero Entry of a Remove
	Target mover.Entry // the zero Entry when there is none
	Link   string      // of a Link, and of a Compare that may become one: the entry that has the content
	Lost   bool        // it is a hard link of the source, and the target keeps none: there it is a file of its own
	Why    string      // one of the constants above, or WhyAttribute
}

// Name returns the name that the action is about.
func (a *Action) Name() string {
	if a.Source.Kind != 0 {
		return a.Source.Name
	}
	return a.Target.Name
}

// Kind returns the kind of what the action makes, keeps, or removes.
func (a *Action) Kind() mover.Kind {
	if a.Source.Kind != 0 {
		return a.Source.Kind
	}
	return a.Target.Kind
}

// Moves reports whether the action moves bytes of a file, and how many.
func (a *Action) Moves() (bytes int64, moves bool) {
	if (a.Op == Create || a.Op == Replace) && a.Source.Kind == mover.File {
		return a.Source.Size, true
	}
	return 0, false
}

// Options says how to compare. The zero value compares everything, and removes
// nothing.
type Options struct {
	Delete    bool      // remove what the source has not
	Full      bool      // take everything as different
	CompareBy CompareBy // what says of files of equal size that they are the same
	Keeps     bool      // yield Keep actions too
	Both      bool      // the target can hold a file and a directory of the same name: mover.Capabilities.FileAndDirShareName

	AnyKey bool // both sides hold entries that have a Key: mover.Capabilities.AnyKey

	// Preserve is which facts to compare; 0 means all, and FactCRC alone none but the
	// content. Times of access and change are never compared: reading changes the first,
	// and no system call sets the second. Where the mtime is not preserved, a different one
	// says nothing: contents are compared.
	Preserve mover.Facts
	// SourceKnows and TargetKeeps bound what is compared to what both sides can
	// have; 0 means all.
	SourceKnows, TargetKeeps mover.Facts

	// Times and SourceTimes are what target and source keep of times: what one made of the other's is equal to it.
	Times, SourceTimes mover.TimeRange

	Xattrs   mover.XattrNames // those that both sides can have; 0 is all
	Humble   bool             // rights count for nothing: setuid and setgid of what is no directory, and devices, which are left alone
	ModeBits uint32           // the permission bits that count; 0 means 0o7777
	// UpdateBytes is the largest file that is updated: one that is larger is replaced; 0 is no limit.
	UpdateBytes int64
	MaxLinks    int // open groups of hard links to remember; 0 means 1<<20

	// Classes says that storage classes are compared, which only new objects are given: rules of a bucket change them behind us.
	Classes bool

	looked bool // both entries were opened: what they do not tell is not there
}

const allFacts = ^mover.Facts(0)

// Compares reports whether facts count.
func (o *Options) Compares(facts mover.Facts) bool { return o.compared().Has(facts) }

// ComparesAny reports whether some of the facts count.
func (o *Options) ComparesAny(facts mover.Facts) bool { return o.compared()&facts != 0 }

// losesLinks reports whether hard links would count if the target kept any.
func (o *Options) losesLinks() bool {
	all := *o
	all.TargetKeeps = 0
	return all.Compares(mover.FactLinks) && !o.Compares(mover.FactLinks)
}

// compared returns the facts that count.
func (o *Options) compared() mover.Facts {
	facts := allFacts
	for _, limit := range [...]mover.Facts{o.Preserve, o.SourceKnows, o.TargetKeeps} {
		if limit != 0 {
			facts &= limit
		}
	}
	return facts
}
