package plan

import (
	"bytes"

	"datamove.dev/mover"
)

// CompareBy is what says of two files of equal size that they are the same.
type CompareBy uint8

// What files can be compared by.
const (
	ByTime    CompareBy = iota // the mtime, and contents where there is none
	ByContent                  // the content
	BySize                     // nothing more: neither times nor checksums count

	CompareBys // how many there are
)

// Resolve settles a Compare, or any action after a closer look at its entries. s
// and t are both entries with all that Stat or Open told, and with CRC known
// where contents were read. The zero t says that the target has no such entry.
// It returns a Compare again only when contents have to be read to tell, and
// then CRC is what s and t lack.
func (o *Options) Resolve(a Action, s, t mover.Entry) Action {
	a.Source, a.Target = s, t
	looked := *o
	looked.looked, o = true, &looked
	if t.Kind == 0 {
		a.Op, a.Why = Create, WhyNew
	} else if s.Kind == mover.Dir && t.Kind != mover.Dir {
		a.Op, a.Why = Create, WhyKind
	} else if t.Kind == mover.Dir && s.Kind != mover.Dir {
		a.Op, a.Why = Conflict, WhyDirInTheWay // the directory is new: the plan has no removal of it
	} else {
		a.Op, a.Why = o.decide(&s, &t)
	}
	return a.Named(a.Link)
}

// Named returns the action for one more name of what leader names, which is "" for nothing: what would give that name a content or facts of its own makes
// it a link. A leader that gets a new inode leaves the others of its old one, and they would be updated alone.
func (a Action) Named(leader string) Action {
	a.Link = leader
	if leader != "" && (a.Op == Create || a.Op == Replace || a.Op == Update) {
		a.Op, a.Why = Link, WhyHardLink
	}
	return a
}

// Stays is what a target has after an action that moves no content: e, as the source has it, with the checksum of what stays, where the
// target tells it. That of the source is none where sizes alone were compared.
func (o *Options) Stays(e mover.Entry, target *mover.Entry) mover.Entry {
	if target.Known.Has(mover.FactCRC) {
		e.CRC, e.Known = target.CRC, e.Known|mover.FactCRC
	} else if o.CompareBy == BySize {
		e.CRC, e.Known = 0, e.Known&^mover.FactCRC
	}
	return e
}

// decide compares two entries of one name, both directories or neither.
func (o *Options) decide(s, t *mover.Entry) (Op, string) {
	if s.Kind == mover.Dir {
		return o.decideFacts(s, t)
	}
	op, why := o.decideContent(s, t)
	if op != Keep {
		return op, why
	}
	op, why = o.decideFacts(s, t)
	if op == Update && t.Nlink > 1 {
		// The other names of the inode may have no business with these facts.
		return Replace, WhySharedInode
	}
	if op == Update && s.Kind == mover.File && o.UpdateBytes > 0 && s.Size > o.UpdateBytes {
		return Replace, why
	}
	return op, why
}

// decideContent compares what is inside of s and t.
func (o *Options) decideContent(s, t *mover.Entry) (Op, string) {
	if s.Kind != t.Kind {
		if kindDoubtful(s) || kindDoubtful(t) {
			return Compare, WhyFactsUnknown
		}
		return Replace, WhyKind
	}
	switch {
	case o.Full:
		return Replace, WhyFull
	case s.Kind == mover.File:
		return o.decideFile(s, t)
	case s.Kind == mover.Symlink && (untold(s) || untold(t)):
		return Compare, WhyFactsUnknown
	case s.Kind == mover.Symlink && s.Target != t.Target:
		return Replace, WhyLinkTarget
	case (s.Kind == mover.CharDevice || s.Kind == mover.BlockDevice) && s.Rdev != t.Rdev:
		return Replace, WhyDevice
	}
	return Keep, WhyEqual
}

// kindDoubtful reports whether a closer look may find another kind: what a
// store's listing calls a file may be a link or a device that is kept as one. The
// mode tells, because it comes from where the kind does.
func kindDoubtful(e *mover.Entry) bool { return e.Brief && !e.Known.Has(mover.FactMode) }

// untold reports whether a listing did not tell where the link e leads: none leads
// nowhere.
func untold(e *mover.Entry) bool { return e.Brief && e.Target == "" }

func (o *Options) decideFile(s, t *mover.Entry) (Op, string) {
	if s.Size != t.Size {
		return Replace, WhySize
	}
	if o.CompareBy == BySize {
		return Keep, WhyEqual
	}
	if s.Known&t.Known&mover.FactCRC != 0 && s.CRC != t.CRC {
		return Replace, WhyContent
	}
	if o.CompareBy == ByContent {
		return contentOp(s, t, WhyContentUnknown)
	}
	if s.Known&t.Known&mover.FactMtime != 0 {
		if o.sameTime(s.Mtime, t.Mtime) {
			return Keep, WhyEqual
		}
		if !o.compared().Has(mover.FactMtime) { // the target's is that of the copying
			return contentOp(s, t, WhyMtimeUnknown)
		}
		return Replace, WhyMtime
	}
	if lacks(s, mover.FactMtime) || lacks(t, mover.FactMtime) {
		return Compare, WhyFactsUnknown
	}
	return contentOp(s, t, WhyMtimeUnknown)
}

// sameTime reports whether one of two times is what the place of the other has made of it: also the source's, when a tree that was
// brought there comes back.
func (o *Options) sameTime(s, t mover.Time) bool {
	return o.Times.Same(s, t) || o.SourceTimes != (mover.TimeRange{}) && o.SourceTimes.Same(t, s)
}

// contentOp decides for files of equal size without a known difference of
// checksums.
func contentOp(s, t *mover.Entry, unknown string) (Op, string) {
	if s.Known&t.Known&mover.FactCRC == 0 {
		return Compare, unknown
	}
	return Keep, WhyEqual
}

// lacks reports whether e does not tell the facts but Stat may.
func lacks(e *mover.Entry, facts mover.Facts) bool { return e.Brief && !e.Known.Has(facts) }

// plainFacts are the facts that are compared one by one. Symbolic links have no
// mode of their own.
const plainFacts = mover.FactMode | mover.FactOwner | mover.FactGroup | mover.FactMtime

// decideFacts compares the facts of two entries with equal contents.
func (o *Options) decideFacts(s, t *mover.Entry) (Op, string) {
	facts := o.compared() & plainFacts
	if s.Kind == mover.Symlink {
		facts &^= mover.FactMode
	}
	if lacks(s, facts) {
		return Compare, WhyFactsUnknown
	}
	facts &= s.Known
	if lacks(t, facts) {
		return Compare, WhyFactsUnknown
	}
	if o.Full {
		return Update, WhyFull
	}
	if !t.Known.Has(facts) {
		return Update, WhyFactsMissing
	}
	if why := o.differing(facts, s, t); why != "" {
		return Update, why
	}
	if op, why := o.decideXattrs(s, t); op != Keep {
		return op, why
	}
	return o.decideObject(s, t)
}

const setuid, setgid = 0o4000, 0o2000

// differing names the first of the facts that differs.
func (o *Options) differing(facts mover.Facts, s, t *mover.Entry) string {
	bits := o.ModeBits
	if bits == 0 {
		bits = 0o7777
	}
	if o.Humble && s.Kind != mover.Dir {
		bits &^= setuid | setgid
	}
	if s.Kind != mover.Dir { // of a file these are given only together with the owner and the group that they are meant for
		preserved := o.Preserve
		if preserved == 0 {
			preserved = allFacts
		}
		if both := s.Known & t.Known & preserved; !both.Has(mover.FactOwner) || s.UID != t.UID {
			bits &^= setuid
		}
		if both := s.Known & t.Known & preserved; !both.Has(mover.FactGroup) || s.GID != t.GID {
			bits &^= setgid
		}
	}
	switch {
	case facts.Has(mover.FactMode) && (s.Mode^t.Mode)&bits != 0:
		return WhyMode
	case facts.Has(mover.FactOwner) && s.UID != t.UID:
		return WhyOwner
	case facts.Has(mover.FactGroup) && s.GID != t.GID:
		return WhyGroup
	case facts.Has(mover.FactMtime) && !o.sameTime(s.Mtime, t.Mtime):
		return WhyMtime
	}
	return ""
}

// decideXattrs compares extended attributes by value: what clocks tell of them is wrong between two hosts, for a target that was
// touched, and for one that another tool made. Walks that are asked for them (mover.WalkOptions.Xattrs) tell them, most places at
// one more call for each entry.
func (o *Options) decideXattrs(s, t *mover.Entry) (Op, string) {
	if !o.compared().Has(mover.FactXattrs) {
		return Keep, WhyEqual
	}
	if s.Known&t.Known&mover.FactXattrs != 0 {
		if o.sameXattrs(s.Xattrs, t.Xattrs) {
			return Keep, WhyEqual
		}
		return Update, WhyXattrs
	}
	if lacks(s, mover.FactXattrs) || s.Known.Has(mover.FactXattrs) && lacks(t, mover.FactXattrs) {
		return Compare, WhyFactsUnknown
	}
	return Keep, WhyEqual
}

// sameXattrs compares those that both sides can have.
func (o *Options) sameXattrs(a, b []mover.Xattr) bool {
	for {
		a, b = o.countedXattrs(a), o.countedXattrs(b)
		if len(a) == 0 || len(b) == 0 {
			return len(a) == len(b)
		}
		if a[0].Name != b[0].Name || !bytes.Equal(a[0].Value, b[0].Value) {
			return false
		}
		a, b = a[1:], b[1:]
	}
}

// countedXattrs leaves out what does not count at the beginning of a list.
func (o *Options) countedXattrs(list []mover.Xattr) []mover.Xattr {
	for len(list) > 0 && !o.Xattrs.Has(list[0].Name) {
		list = list[1:]
	}
	return list
}

// decideObject compares what objects have beside their bytes. Of a file that tells nothing of it, nothing is changed in an object that has
// some. Where a listing or a manifest tells nothing of the target, a look does.
func (o *Options) decideObject(s, t *mover.Entry) (Op, string) {
	facts := o.compared() & mover.FactsOfObject
	if !o.Classes {
		facts &^= mover.FactClass
	}
	if s.Kind != mover.File && s.Kind != mover.Dir || facts == 0 {
		return Keep, WhyEqual
	}
	untold := func(e *mover.Entry) bool { return !o.looked && !e.Known.Has(mover.FactXattrs) } // which a file keeps them in
	if untold(s) && lacks(s, facts) {
		return Compare, WhyFactsUnknown
	}
	if name := mover.DifferingAttribute(s.Object, t.Object, facts&s.Known&t.Known); name != "" {
		return Update, WhyAttribute(name)
	}
	facts &^= t.Known
	if untold(t) && (s.Stated || len(s.ObjectOf(facts)) > 0) {
		return Compare, WhyFactsUnknown
	}
	missing := s.KeptFacts(facts)
	switch {
	case missing == 0 || untold(t):
		return Keep, WhyEqual
	case missing.Has(mover.FactHeaders) && len(s.ObjectOf(facts&mover.FactHeaders)) == 0:
		return Update, WhyAttribute(mover.AttributeType)
	}
	return Update, WhyAttribute(s.KeptObject(facts)[0].Name)
}
