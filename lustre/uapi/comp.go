package uapi

import (
	"errors"
	"fmt"
	"math"

	"datamove.dev/lustre"
)

// lov_comp_md_v1 and its entries: sizes in bytes, and where what has no word begins. The
// layouts of the components (blobs) follow the table of entries.
const (
	sizeComposite = 32
	sizeEntry     = 48
	headKept      = 18
	entryKept     = 32
	flrMask       = 0x3 // of lcm_flags: the state of mirrors (LCM_FL_FLR_MASK)
	endOfFile     = math.MaxUint64
)

// errUnknown: a component of a format that is not known; then the whole layout is Opaque.
var errUnknown = errors.New("a component of a format that is not known")

func decodeComposite(b []byte) (lustre.Layout, error) {
	if len(b) < sizeComposite {
		return lustre.Layout{}, malformed("a composite layout of %d bytes: its head has %d", len(b), sizeComposite)
	}
	size, count := int64(le.Uint32(b[4:])), int(le.Uint16(b[14:]))
	table := int64(sizeComposite + count*sizeEntry)
	if size > int64(len(b)) || table > size || count == 0 {
		return lustre.Layout{}, malformed("a composite layout of %d bytes says that it has %d, with %d components", len(b), size, count)
	}
	flags := le.Uint16(b[12:])
	l := lustre.Layout{
		Components: make([]lustre.Component, 0, count),
		Mirrored:   lustre.Mirrored(flags & flrMask),
		Mirrors:    int(le.Uint16(b[16:])) + 1,
		Generation: le.Uint32(b[8:]),
	}
	le.PutUint16(l.Kept[:], flags&^flrMask)
	copy(l.Kept[2:], b[headKept:sizeComposite])
	left := size - table // blobs do not share bytes: what they decode to is bounded by the whole
	for i := range count {
		entry := b[sizeComposite+i*sizeEntry:][:sizeEntry]
		at, length := int64(le.Uint32(entry[24:])), int64(le.Uint32(entry[28:]))
		if at < table || at+length > size || length > left {
			return lustre.Layout{}, malformed("component %d: its %d bytes at %d are not within the %d of the layout", i+1, length, at, size)
		}
		left -= length
		c, err := decodeComponent(entry, b[at:at+length])
		if errors.Is(err, errUnknown) {
			return lustre.Layout{Opaque: append([]byte(nil), b[:size]...)}, nil
		}
		if err != nil {
			return lustre.Layout{}, fmt.Errorf("component %d: %w", i+1, err)
		}
		l.Components = append(l.Components, c)
	}
	return l, nil
}

func decodeComponent(entry, blob []byte) (lustre.Component, error) {
	if len(blob) < 8 {
		return lustre.Component{}, malformed("a layout of %d bytes", len(blob))
	}
	c, err := decodeBlob(blob)
	if err != nil {
		return c, err
	}
	c.ID, c.Flags = le.Uint32(entry), c.Flags|lustre.Flags(le.Uint32(entry[4:]))
	copy(c.Stored.Kept[:], entry[entryKept:])
	if c.Start, err = offset(le.Uint64(entry[8:])); err != nil {
		return c, err
	}
	if c.End, err = offset(le.Uint64(entry[16:])); err != nil {
		return c, err
	}
	if c.End < c.Start {
		return c, malformed("it ends at %d, before it begins at %d", c.End, c.Start)
	}
	if c.Foreign == nil {
		complete(&c)
		err = whole(&c)
	}
	return c, err
}

// complete gives a component's fields the meaning that its entry's flags say.
func complete(c *lustre.Component) {
	if c.Flags.Has(lustre.Extension) {
		c.StripeBytes <<= 10 // an extension's size is in KiB
	}
	if !c.Flags.Has(lustre.Initialised) {
		if vacant(c.Objects) { // room for objects, and none yet
			c.Objects = nil
			if c.Stored.HasGeneration {
				c.FirstTarget, c.Stored.Generation, c.Stored.HasGeneration = int(c.Stored.Generation), 0, false
			}
		}
	} else if c.FirstTarget != lustre.AnyTarget { // initialised without objects: on the MDT
		c.Stored.Generation, c.Stored.HasGeneration = uint16(c.FirstTarget), true
		c.FirstTarget = lustre.AnyTarget
	}
}

// vacant reports whether objects say nothing. An MDS has one for a component that has none
// yet, on no OST: all bits of its index are set.
func vacant(objects []lustre.Object) bool {
	for _, o := range objects {
		if o.Target == math.MaxUint32 {
			o.Target = 0
		}
		if o != (lustre.Object{}) {
			return false
		}
	}
	return true
}

func decodeBlob(b []byte) (lustre.Component, error) {
	switch magic := le.Uint32(b); {
	case magic == MagicV1 || magic == MagicV3 || magic == MagicSpecific:
		return decodePlain(b)
	case magic == MagicForeign:
		f, err := decodeForeign(b)
		return lustre.Component{Pattern: lustre.IsForeign, FirstTarget: lustre.AnyTarget, Foreign: f}, err
	case magic == MagicComposite:
		return lustre.Component{}, malformed("it is a composite layout itself")
	case swapped(magic):
		return lustre.Component{}, malformed("its magic number is %#x: its bytes are in the order of another machine", magic)
	}
	return lustre.Component{}, errUnknown
}

func offset(v uint64) (int64, error) {
	switch {
	case v == endOfFile:
		return lustre.EOF, nil
	case v >= math.MaxInt64:
		return 0, malformed("an offset of %#x: no file is that large", v)
	}
	return int64(v), nil
}

func putOffset(b []byte, v int64) {
	if v == lustre.EOF {
		le.PutUint64(b, endOfFile)
		return
	}
	le.PutUint64(b, uint64(v))
}
