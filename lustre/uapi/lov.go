package uapi

import (
	"fmt"
	"math/bits"

	"datamove.dev/lustre"
)

// The magic numbers of layouts (LOV_USER_MAGIC_* of lustre_user.h).
const (
	MagicV1        = 0x0BD10BD0 // plain
	MagicV3        = 0x0BD30BD0 // plain, with a pool
	MagicSpecific  = 0x0BD50BD0 // plain, with the OSTs to use; in requests only
	MagicComposite = 0x0BD60BD0
	MagicForeign   = 0x0BD70BD0
	magicLow       = 0x0BD0 // the lower half of all of them
)

// MaxLayout is how large a layout can be in bytes: more than an attribute holds (64 KiB).
const MaxLayout = 1 << 20

// lov_user_md_v1 and _v3: sizes in bytes, and where the pool and the objects are.
const (
	sizeV1     = 32
	sizeV3     = 48
	sizeObject = 24
	offsetPool = 32
	sizePool   = lustre.MaxPoolName + 1
	anyTarget  = 0xFFFF // lmm_stripe_offset: whichever; also in place of a generation that is not told
	allTargets = 0xFFFF // lmm_stripe_count
)

// DecodeLayout reads what the attribute lustre.lov, or LL_IOC_LOV_GETSTRIPE, says of a
// file or directory. A layout of a format that is not known is Opaque; one that
// contradicts itself, or was cut, is ErrMalformed.
func DecodeLayout(b []byte) (lustre.Layout, error) {
	switch {
	case len(b) < 8:
		return lustre.Layout{}, malformed("a layout of %d bytes: none is shorter than 8", len(b))
	case len(b) > MaxLayout:
		return lustre.Layout{}, malformed("a layout of %d bytes: none is longer than %d", len(b), MaxLayout)
	}
	switch magic := le.Uint32(b); {
	case magic == MagicV1 || magic == MagicV3 || magic == MagicSpecific:
		c, err := decodePlain(b)
		if err != nil {
			return lustre.Layout{}, err
		}
		if err := whole(&c); err != nil {
			return lustre.Layout{}, err
		}
		c.Start, c.End = 0, lustre.EOF
		l := lustre.Layout{Components: []lustre.Component{c}, Generation: uint32(c.Stored.Generation)}
		return l, nil
	case magic == MagicComposite:
		return decodeComposite(b)
	case magic == MagicForeign:
		f, err := decodeForeign(b)
		return lustre.Layout{Foreign: f}, err
	case swapped(magic):
		return lustre.Layout{}, malformed("a layout whose magic number is %#x: its bytes are in the order of another machine", magic)
	default:
		return lustre.Layout{Opaque: append([]byte(nil), b...)}, nil
	}
}

// swapped reports whether magic is that of a layout with its bytes in reverse.
func swapped(magic uint32) bool {
	turned := bits.ReverseBytes32(magic)
	return turned&0xFFFF == magicLow && turned>>24 == 0x0B
}

// decodePlain reads a whole lov_user_md_v1 or _v3. How many objects there are its size
// says: a file that was released, or a default, has a stripe count and none.
func decodePlain(b []byte) (lustre.Component, error) {
	head, named := sizeV1, le.Uint32(b) != MagicV1
	if named {
		head = sizeV3
	}
	if len(b) < head {
		return lustre.Component{}, malformed("a plain layout of %d bytes: its head has %d", len(b), head)
	}
	objects := b[head:]
	if len(objects)%sizeObject != 0 || len(objects)/sizeObject > lustre.MaxStripes {
		return lustre.Component{}, malformed("%d bytes of objects: each has %d, and there are up to %d", len(objects), sizeObject, lustre.MaxStripes)
	}
	pattern := le.Uint32(b[4:])
	c := lustre.Component{
		Pattern:     lustre.Pattern(pattern),
		Flags:       lustre.Flags(pattern>>16) << 32,
		StripeBytes: int64(le.Uint32(b[24:])),
		StripeCount: int(le.Uint16(b[28:])),
		FirstTarget: int(le.Uint16(b[30:])),
		Stored:      lustre.Stored{File: fileID(b[8:]), HasPool: named},
	}
	if named {
		c.Pool = text(b[offsetPool:sizeV3])
		if len(c.Pool) == sizePool {
			return c, malformed("the name of the pool %q has no end", c.Pool)
		}
		c.Stored.HasPool = c.Pool == ""
	}
	if c.StripeCount == allTargets {
		c.StripeCount = lustre.AllTargets
	}
	for ; len(objects) > 0; objects = objects[sizeObject:] {
		c.Objects = append(c.Objects, decodeObject(objects))
	}
	place(&c, len(c.Objects) > 0 || c.Flags.Has(lustre.Released))
	return c, nil
}

// whole reports objects that are cut off: a component has all of them, or none.
func whole(c *lustre.Component) error {
	if n := len(c.Objects); n > 0 && n < c.StripeCount {
		return malformed("%d objects of a layout with %d stripes", n, c.StripeCount)
	}
	return nil
}

// place gives the field that is the first target of a request, and the generation of what
// is stored, its meaning.
func place(c *lustre.Component, stored bool) {
	told := c.FirstTarget != anyTarget
	switch {
	case !told:
		c.FirstTarget = lustre.AnyTarget
	case stored:
		c.Stored.Generation, c.Stored.HasGeneration = uint16(c.FirstTarget), true
		c.FirstTarget = lustre.AnyTarget
	}
}

// fileID is lmm_oi: the object of a file's FID first, then its sequence.
func fileID(b []byte) lustre.FID {
	return lustre.FID{Seq: le.Uint64(b[8:]), OID: le.Uint32(b), Ver: le.Uint32(b[4:])}
}

func putFileID(b []byte, f lustre.FID) {
	le.PutUint32(b, f.OID)
	le.PutUint32(b[4:], f.Ver)
	le.PutUint64(b[8:], f.Seq)
}

// Objects that MDT0 made before they had FIDs of their own are written as a number and a
// sequence of 0; everywhere else they are called by a FID with their OST in it (FID_SEQ_IDIF).
const (
	idifFirst = 0x1_0000_0000
	idifLast  = 0x1_FFFF_FFFF
	idifBits  = 48 // of a number
)

func decodeObject(b []byte) lustre.Object {
	o := lustre.Object{FID: getFID(b), Generation: le.Uint32(b[16:]), Target: int(le.Uint32(b[20:]))}
	number := o.FID.Seq
	if o.FID.OID == 0 && o.FID.Ver == 0 && number != 0 && number < 1<<idifBits && o.Target <= 0xFFFF {
		o.FID = lustre.FID{Seq: idifFirst | uint64(o.Target)<<16 | number>>32, OID: uint32(number)}
	}
	return o
}

func putObject(b []byte, o lustre.Object) {
	f := o.FID
	if f.Seq >= idifFirst && f.Seq <= idifLast && f.Ver == 0 && uint64(o.Target) == f.Seq>>16&0xFFFF {
		f = lustre.FID{Seq: f.Seq&0xFFFF<<32 | uint64(f.OID)}
	}
	putFID(b, f)
	le.PutUint32(b[16:], o.Generation)
	le.PutUint32(b[20:], uint32(o.Target))
}

// errRange is for a number that its field has no room for.
func errRange(what string, n int64) error {
	return fmt.Errorf("%s of %d does not fit a layout of Lustre", what, n)
}
