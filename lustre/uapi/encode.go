package uapi

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"datamove.dev/lustre"
)

// EncodeLayout writes a layout as it is stored: of what DecodeLayout read, the same bytes.
func EncodeLayout(l *lustre.Layout) ([]byte, error) {
	switch {
	case len(l.Opaque) > 0:
		return append([]byte(nil), l.Opaque...), nil
	case l.Foreign != nil:
		return encodeForeign(MagicForeign, l.Foreign)
	case len(l.Components) == 0:
		return nil, errors.New("an empty layout: it has nothing to write")
	case l.Mirrors == 0 && len(l.Components) == 1:
		return encodeStored(&l.Components[0])
	}
	return encodeComposite(l, encodeStored)
}

// EncodeRequest writes a layout that is to be set: without what only a stored one has, and
// where components have Objects, with their targets as the OSTs to use. What is not valid
// (see lustre.Layout.Validate) is refused.
func EncodeRequest(l *lustre.Layout) ([]byte, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	switch first := l.Components; {
	case l.Foreign != nil: // an attribute that is shorter than a plain layout is ERANGE
		b, err := encodeForeign(MagicForeign, l.Foreign)
		return append(b, make([]byte, max(0, sizeV1-len(b)))...), err
	case len(l.Opaque) > 0:
		return EncodeLayout(l)
	case len(first) == 1 && first[0].End == lustre.EOF && requested(first[0].Flags) == 0:
		return encodeRequested(&first[0])
	}
	w := lustre.Layout{Components: append([]lustre.Component(nil), l.Components...)}
	for i := range w.Components {
		c := &w.Components[i]
		c.ID, c.Flags, c.Stored = 0, requested(c.Flags), lustre.Stored{}
		if c.Start == 0 {
			w.Mirrors++
		}
	}
	if w.Mirrors > 1 {
		w.Mirrored = lustre.ReadOnly
	}
	return encodeComposite(&w, encodeRequested)
}

// requested is which flags a request can have.
func requested(f lustre.Flags) lustre.Flags {
	return f & (lustre.PreferRead | lustre.PreferWrite | lustre.Extension | lustre.NoCompress)
}

func encodeComposite(l *lustre.Layout, plain func(*lustre.Component) ([]byte, error)) ([]byte, error) {
	count := len(l.Components)
	mirrors := max(l.Mirrors, 1)
	if count > math.MaxUint16 || mirrors > math.MaxUint16+1 {
		return nil, errRange("a number of components or mirrors", int64(max(count, mirrors)))
	}
	b := make([]byte, sizeComposite+count*sizeEntry)
	for i := range l.Components {
		c := &l.Components[i]
		blob, err := encodeBlob(c, plain)
		if err != nil {
			return nil, fmt.Errorf("component %d: %w", i+1, err)
		}
		entry := b[sizeComposite+i*sizeEntry:][:sizeEntry]
		le.PutUint32(entry, c.ID)
		le.PutUint32(entry[4:], uint32(c.Flags))
		putOffset(entry[8:], c.Start)
		putOffset(entry[16:], c.End)
		le.PutUint32(entry[24:], uint32(len(b)))
		le.PutUint32(entry[28:], uint32(len(blob)))
		copy(entry[entryKept:], c.Stored.Kept[:])
		if b = append(b, blob...); len(b) > MaxLayout {
			return nil, errRange("a size", int64(len(b)))
		}
	}
	le.PutUint32(b, MagicComposite)
	le.PutUint32(b[4:], uint32(len(b)))
	le.PutUint32(b[8:], l.Generation)
	le.PutUint16(b[12:], uint16(l.Mirrored)&flrMask|le.Uint16(l.Kept[:])&^flrMask)
	le.PutUint16(b[14:], uint16(count))
	le.PutUint16(b[16:], uint16(mirrors-1))
	copy(b[headKept:sizeComposite], l.Kept[2:])
	return b, nil
}

func encodeBlob(c *lustre.Component, plain func(*lustre.Component) ([]byte, error)) ([]byte, error) {
	if c.Foreign != nil {
		return encodeForeign(MagicForeign, c.Foreign)
	}
	if !c.Flags.Has(lustre.Extension) {
		return plain(c)
	}
	e := *c
	if e.StripeBytes%1024 != 0 {
		return nil, errRange("an extension", e.StripeBytes)
	}
	e.StripeBytes >>= 10 // in KiB, and so they may be 4 TiB
	return plain(&e)
}

// encodeStored writes a plain layout with its objects.
func encodeStored(c *lustre.Component) ([]byte, error) {
	magic := uint32(MagicV1)
	if c.Pool != "" || c.Stored.HasPool {
		magic = MagicV3
	}
	b, err := encodeHead(magic, c)
	if err != nil {
		return nil, err
	}
	putFileID(b[8:], c.Stored.File)
	if c.Stored.HasGeneration {
		le.PutUint16(b[30:], c.Stored.Generation)
	}
	for _, o := range c.Objects {
		var object [sizeObject]byte
		putObject(object[:], o)
		b = append(b, object[:]...)
	}
	return b, nil
}

// encodeRequested writes a plain layout that says what is wanted.
func encodeRequested(c *lustre.Component) ([]byte, error) {
	w := *c
	w.Flags = 0
	w.Pattern = cmp.Or(w.Pattern, lustre.RAID0)
	if w.Pattern == lustre.OnMDT {
		w.StripeCount, w.StripeBytes = 0, w.End
	}
	magic := uint32(MagicV1)
	switch {
	case len(w.Objects) > 0:
		magic, w.FirstTarget, w.StripeCount = MagicSpecific, w.Objects[0].Target, len(w.Objects)
	case w.Pool != "":
		magic = MagicV3
	}
	b, err := encodeHead(magic, &w)
	if err != nil {
		return nil, err
	}
	for _, o := range w.Objects { // of a wish only l_ost_idx is looked at
		var object [sizeObject]byte
		putObject(object[:], lustre.Object{Target: o.Target})
		b = append(b, object[:]...)
	}
	return b, nil
}

// encodeHead writes a lov_user_md_v1 or _v3 without objects.
func encodeHead(magic uint32, c *lustre.Component) ([]byte, error) {
	count, first := c.StripeCount, c.FirstTarget
	if count == lustre.AllTargets {
		count = allTargets
	}
	if first == lustre.AnyTarget {
		first = anyTarget
	}
	switch {
	case c.StripeBytes < 0 || c.StripeBytes > math.MaxUint32:
		return nil, errRange("a stripe size", c.StripeBytes)
	case count < 0 || count > allTargets:
		return nil, errRange("a stripe count", int64(count))
	case first < 0 || first > anyTarget:
		return nil, errRange("a first target", int64(first))
	case len(c.Pool) > lustre.MaxPoolName:
		return nil, errRange("the name of a pool with a length", int64(len(c.Pool)))
	case len(c.Objects) > lustre.MaxStripes:
		return nil, errRange("a number of objects", int64(len(c.Objects)))
	}
	size := sizeV1
	if magic != MagicV1 {
		size = sizeV3
	}
	b := make([]byte, size, size+len(c.Objects)*sizeObject)
	le.PutUint32(b, magic)
	le.PutUint32(b[4:], uint32(c.Pattern)|uint32(c.Flags>>32)<<16)
	le.PutUint32(b[24:], uint32(c.StripeBytes))
	le.PutUint16(b[28:], uint16(count))
	le.PutUint16(b[30:], uint16(first))
	if magic != MagicV1 {
		copy(b[offsetPool:], c.Pool)
	}
	return b, nil
}
