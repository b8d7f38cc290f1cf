package uapi

import (
	"errors"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"datamove.dev/lustre"
	"datamove.dev/test/must"
)

// TestAnyLayout: any layout that a Lustre may have stored is read as it was written; and of
// any beginning of it that is no whole layout nothing is made up.
func TestAnyLayout(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := drawLayout(t)
		b, err := EncodeLayout(&want)
		must.Do(t, err)
		got, err := DecodeLayout(b)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%v\n%x\n got %+v\nwant %+v", err, b, got, want)
		}
		cut := b[:rapid.IntRange(0, len(b)-1).Draw(t, "cut")]
		switch got, err := DecodeLayout(cut); {
		case err == nil && (want.Mirrors > 0 || len(got.Components[0].Objects) > 0):
			t.Fatalf("%d of %d bytes are %+v", len(cut), len(b), got)
		case err != nil && !errors.Is(err, ErrMalformed):
			t.Fatal(err)
		}
	})
}

// TestAnyRequest: whatever is valid can be asked for, and says what is wanted and nothing else.
func TestAnyRequest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := drawRequest(t)
		must.Do(t, want.Validate())
		b, err := EncodeRequest(&want)
		if err != nil || len(b) > lustre.MaxLayoutBytes {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
		got, err := DecodeLayout(b)
		if err != nil {
			t.Fatalf("%v: %x", err, b)
		}
		if d := lustre.Same(&want, &got, 0); d != "" {
			t.Fatalf("%s\nasked for %+v\nwhich says %+v", d, want, got)
		}
		for i := range got.Components {
			if got.Components[i].ID != 0 || got.Components[i].FirstTarget != want.Components[i].FirstTarget && len(want.Components[i].Objects) == 0 {
				t.Fatalf("component %d: %+v", i+1, got.Components[i])
			}
		}
	})
}

func drawRequest(t *rapid.T) (l lustre.Layout) {
	for range rapid.IntRange(1, 3).Draw(t, "mirrors") {
		start, last := int64(0), rapid.IntRange(0, 3).Draw(t, "components")
		for i := range last + 1 {
			c := lustre.Component{Start: start, Pattern: rapid.SampledFrom([]lustre.Pattern{0, lustre.RAID0, lustre.Overstriped}).Draw(t, "pattern"),
				StripeBytes: rapid.SampledFrom([]int64{0, 1 << 16, 3 << 20, 1 << 28}).Draw(t, "stripe size"), StripeCount: rapid.IntRange(lustre.AllTargets, 100).Draw(t, "stripes"),
				Flags: rapid.SampledFrom([]lustre.Flags{0, lustre.PreferRead}).Draw(t, "flags"),
				Pool:  rapid.SampledFrom([]string{"", "p1", "fifteen-letters"}).Draw(t, "pool"), FirstTarget: rapid.IntRange(lustre.AnyTarget, 5).Draw(t, "first")}
			start += rapid.Int64Range(1, 9).Draw(t, "size") * (3 << 28)
			if c.End = start; i == last {
				c.End = lustre.EOF
			}
			if i == 0 && last > 0 && rapid.Bool().Draw(t, "on an MDT") {
				start = 3 << 28
				c.End, c.Pattern, c.Pool, c.StripeBytes, c.StripeCount, c.FirstTarget = start, lustre.OnMDT, "", 0, 0, lustre.AnyTarget
			}
			if c.Pattern != lustre.OnMDT && rapid.IntRange(0, 4).Draw(t, "on given targets") == 0 {
				c.Objects, c.StripeCount = []lustre.Object{{Target: 3}, {Target: 1, FID: lustre.FID{Seq: 7}}}, 2
			}
			l.Components = append(l.Components, c)
		}
	}
	return l
}

func drawLayout(t *rapid.T) lustre.Layout {
	if rapid.Bool().Draw(t, "plain") {
		c := drawComponent(t)
		c.Flags &= lustre.Holed | lustre.Released
		c.ID, c.Start, c.End, c.Stored.Kept = 0, 0, lustre.EOF, [16]byte{}
		drawPlace(t, &c, len(c.Objects) > 0 || c.Flags.Has(lustre.Released))
		return lustre.Layout{Components: []lustre.Component{c}, Generation: uint32(c.Stored.Generation)}
	}
	l := lustre.Layout{
		Mirrored: lustre.Mirrored(rapid.IntRange(0, 3).Draw(t, "state")), Mirrors: rapid.IntRange(1, 16).Draw(t, "mirrors"),
		Generation: rapid.Uint32().Draw(t, "generation"), Kept: drawKept(t),
	}
	l.Kept[0] &^= flrMask
	for range rapid.IntRange(1, 6).Draw(t, "components") {
		c := drawComponent(t)
		if c.Flags.Has(lustre.Extension) {
			c.StripeBytes <<= 10
		}
		drawPlace(t, &c, c.Flags.Has(lustre.Initialised) || len(c.Objects) > 0)
		if rapid.IntRange(0, 7).Draw(t, "foreign") == 0 {
			c = lustre.Component{ID: c.ID, Start: c.Start, End: c.End, Flags: c.Flags & math.MaxUint32, Pattern: lustre.IsForeign, FirstTarget: lustre.AnyTarget,
				Foreign: &lustre.Foreign{Type: 4, Value: []byte("s3://b/k")}, Stored: lustre.Stored{Kept: c.Stored.Kept}}
		}
		l.Components = append(l.Components, c)
	}
	return l
}

func drawComponent(t *rapid.T) lustre.Component {
	c := lustre.Component{
		ID: rapid.Uint32().Draw(t, "id"), Flags: lustre.Flags(rapid.Uint64Range(0, 1<<48-1).Draw(t, "flags")),
		Pattern:     rapid.SampledFrom([]lustre.Pattern{lustre.RAID0, lustre.OnMDT, lustre.Overstriped, 4, math.MaxUint16}).Draw(t, "pattern"),
		StripeBytes: int64(rapid.Uint32().Draw(t, "stripe size")), StripeCount: rapid.IntRange(lustre.AllTargets, lustre.MaxStripes).Draw(t, "stripes"),
		Pool: rapid.SampledFrom([]string{"", "p1", "fifteen-letters"}).Draw(t, "pool"), FirstTarget: lustre.AnyTarget,
	}
	ends := []int64{0, 1 << 16, math.MaxInt64 - 1, lustre.EOF}
	from := rapid.IntRange(0, 2).Draw(t, "start")
	c.Start, c.End = ends[from], ends[rapid.IntRange(from, 3).Draw(t, "end")]
	c.Stored = lustre.Stored{File: drawFID(t), HasPool: c.Pool == "" && rapid.Bool().Draw(t, "room for a pool"), Kept: drawKept(t)}
	if c.StripeCount > 0 && c.StripeCount < 9 {
		for range c.StripeCount {
			c.Objects = append(c.Objects, lustre.Object{FID: drawFID(t), Generation: rapid.Uint32().Draw(t, "object"), Target: int(rapid.Uint16().Draw(t, "target"))})
		}
	}
	return c
}

// drawPlace draws the generation of what is stored, or where what is not shall begin.
func drawPlace(t *rapid.T, c *lustre.Component, stored bool) {
	n := rapid.IntRange(-1, anyTarget-1).Draw(t, "generation, or first target")
	switch {
	case n < 0: // not told
	case stored:
		c.Stored.Generation, c.Stored.HasGeneration = uint16(n), true
	default:
		c.FirstTarget = n
	}
}

func drawFID(t *rapid.T) lustre.FID {
	return lustre.FID{Seq: rapid.Uint64Range(0x200000400, math.MaxUint64).Draw(t, "seq"), OID: rapid.Uint32Range(1, math.MaxUint32).Draw(t, "oid"), Ver: rapid.Uint32().Draw(t, "ver")}
}

func drawKept(t *rapid.T) (kept [16]byte) {
	copy(kept[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "kept"))
	return kept
}
