package lustre

import (
	"fmt"
	"math"
)

// EOF is the end of a component that has no end.
const EOF = int64(math.MaxInt64)

// AllTargets is the stripe count that means every target of the pool, or of the file
// system.
const AllTargets = -1

// StripeUnit is what stripe sizes and the ends of components are a multiple of (64 KiB:
// LOV_MIN_STRIPE_SIZE in lustre_user.h).
const StripeUnit = 64 << 10

// Layout is how the bytes of a file lie on targets. The zero Layout says nothing: the
// file system's own default. A plain layout has one component, from 0 to EOF; a
// progressive one (PFL) several, one after the other; a mirrored one (FLR) has for each
// mirror components that cover the file.
type Layout struct {
	Components []Component
	// Mirrored says in which state mirrors are; NotMirrored of a file with one mirror.
	Mirrored Mirrored
	// Mirrors is how many contents a file with a composite layout has; 0 of a plain one, and
	// of a request: there the components say it.
	Mirrors int
	// Generation counts the changes of a layout. It is 0 where it is not known: the
	// attribute of a plain one does not tell it.
	Generation uint32
	// Foreign is a layout that something else than the file system interprets; then
	// there are no components.
	Foreign *Foreign
	// Opaque is a layout in a format that is not known here: its bytes, to be kept and copied.
	Opaque []byte
	// Kept is bits and bytes of a composite layout's header that have no word here (see
	// package uapi), so that it can be written as it was read.
	Kept [16]byte
}

// Mirrored is the state of a mirrored file (lcm_flags & LCM_FL_FLR_MASK).
type Mirrored uint8

// The states of mirrors.
const (
	NotMirrored  Mirrored = iota
	ReadOnly              // all mirrors that are not stale have the same content
	WritePending          // a writer has chosen one mirror, and marks the others
	SyncPending           // mirrors are being made the same
)

var mirroredNames = [...]string{"none", "ro", "wp", "sp"}

// String is the word of lfs: ro, wp, sp.
func (m Mirrored) String() string { return mirroredNames[min(int(m), len(mirroredNames)-1)] }

// Component is one range of a file and the way in which it is striped.
type Component struct {
	ID         uint32 // of a stored one: the mirror in bits 16 to 30, a number in the lower ones
	Start, End int64  // bytes; End is EOF where there is none. Start == End of a self-extending one that has nothing yet
	Pattern    Pattern
	Flags      Flags

	StripeBytes int64 // bytes on one target before the next one's turn; of an Extension how much it grows by; 0 is the default
	StripeCount int   // targets, or objects when Overstriped; AllTargets; 0 is the default
	FirstTarget int   // the index to begin with; AnyTarget leaves it to the file system, which knows how full they are
	Pool        string
	// PoolNamespace is the part of Pool that objects are named in (CephFS); "" is none of
	// a Pool that is named, and that of the directory where no Pool is.
	PoolNamespace string
	// ObjectBytes is how large one object becomes before the next set of objects begins
	// (CephFS); 0 where objects have no end.
	ObjectBytes int64
	// Objects are where the component lies, one for each stripe; none while nothing is
	// stored. When a layout is set, their Targets choose the OSTs.
	Objects []Object
	// Foreign is set for a component that something else than Lustre interprets.
	Foreign *Foreign
	// Stored is what a layout that was read told beside.
	Stored Stored
}

// Stored is what the file system keeps with a component. It says nothing in a request.
type Stored struct {
	File FID // that the component is of; zero where an attribute does not tell it
	// Generation of the component, when HasGeneration: an attribute does not tell it.
	Generation    uint16
	HasGeneration bool
	HasPool       bool     // it has room for the name of a pool, though it names none
	Kept          [16]byte // of its entry in a composite layout: generation, time, parity
}

// AnyTarget is the FirstTarget of a component that leaves the choice of targets to the file system.
const AnyTarget = -1

// Object is one stripe's place.
type Object struct {
	Target     int // index of the OST
	FID        FID // of the object on it; of a released file zero
	Generation uint32
}

// Pattern is how a component is spread (lmm_pattern, without its flags).
type Pattern uint16

// The patterns.
const (
	RAID0       Pattern = 1     // stripes go round the targets
	OnMDT       Pattern = 0x100 // Data-on-MDT: the bytes are on the metadata server
	Overstriped Pattern = 0x201 // RAID0 that may use a target more than once
	IsForeign   Pattern = 0x400 // something else interprets it
)

var patternNames = map[Pattern]string{RAID0: "raid0", OnMDT: "mdt", Overstriped: "raid0,overstriped", IsForeign: "foreign"}

// String is the word of lfs: raid0, mdt, raid0,overstriped.
func (p Pattern) String() string {
	if name, ok := patternNames[p]; ok {
		return name
	}
	return fmt.Sprintf("%#x", uint16(p))
}

// Flags say what a component is like. Their values are those of lcme_flags; the bits 32 to
// 47 are the upper half of lmm_pattern.
type Flags uint64

// The flags.
const (
	Stale       Flags = 1 << 0 // a mirror that is behind
	PreferRead  Flags = 1 << 1
	PreferWrite Flags = 1 << 2
	Offline     Flags = 1 << 3
	Initialised Flags = 1 << 4 // its objects exist
	NoSync      Flags = 1 << 5
	Extension   Flags = 1 << 6 // room that the component before it grows into
	Parity      Flags = 1 << 7
	Compressed  Flags = 1 << 8
	Partial     Flags = 1 << 9 // some of it is compressed
	NoCompress  Flags = 1 << 10

	Holed    Flags = 1 << 46 // lmm_pattern F_HOLE: an object is missing
	Released Flags = 1 << 47 // lmm_pattern F_RELEASED: the content is in the archive
)

// Has reports whether all flags of g are in f.
func (f Flags) Has(g Flags) bool { return f&g == g }

// Mirror is the number of the mirror that a stored component belongs to, from 1; 0 when
// the file has one content only.
func (c *Component) Mirror() int { return int(c.ID >> 16 & 0x7fff) }

// Released reports whether the content of the file is in the archive only.
func (l *Layout) Released() bool {
	for i := range l.Components {
		if l.Components[i].Flags.Has(Released) {
			return true
		}
	}
	return false
}

// IsZero reports whether l says nothing.
func (l *Layout) IsZero() bool {
	return len(l.Components) == 0 && l.Foreign == nil && len(l.Opaque) == 0
}

// Foreign is a layout that something else than Lustre interprets: a link into an object
// store, or a policy of DAOS.
type Foreign struct {
	Type  uint32 `json:"type"` // LU_FOREIGN_TYPE_*
	Flags uint32 `json:"flags,omitempty"`
	Value []byte `json:"value"`
}

// Wanted returns l as a request: without what only a stored layout has (identifiers,
// generations, objects, states), so that the file system chooses targets anew. What holds
// no bytes of the file by itself, parity and places elsewhere, is left out.
func (l *Layout) Wanted() Layout {
	w := Layout{Foreign: l.Foreign, Components: make([]Component, 0, len(l.Components))}
	if l.Mirrored != NotMirrored {
		w.Mirrored = ReadOnly
	}
	for _, c := range l.Components {
		if c.Flags.Has(Parity) || c.Foreign != nil {
			continue
		}
		c.ID, c.Objects, c.FirstTarget, c.Stored = 0, nil, AnyTarget, Stored{}
		c.Flags &= PreferRead | PreferWrite | Extension
		w.Components = append(w.Components, c)
	}
	return w
}

// Width is how many bytes of the file lie between the beginnings of two stripes of one
// object at offset off: stripe size × stripe count. A part that is a multiple of it
// takes the same from each object. 0 where the component has no stripes or is not known.
// Of mirrors it is that of the first one that is not stale: clients read that one.
func (l *Layout) Width(off int64) int64 {
	for i := range l.Components {
		c := &l.Components[i]
		if c.Flags&(Extension|Stale|Parity) != 0 || off < c.Start || c.End != EOF && off >= c.End {
			continue
		}
		if count := int64(max(c.StripeCount, len(c.Objects))); count > 0 && c.StripeBytes > 0 && count <= EOF/c.StripeBytes {
			return c.StripeBytes * count
		}
		return 0
	}
	return 0
}
