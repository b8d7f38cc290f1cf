package p2p

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"datamove.dev/mover"
	_ "datamove.dev/test/seed/property" // of rapid
)

func TestPieceBytes(t *testing.T) {
	for _, row := range []struct{ tree, piece int64 }{
		{0, 64 << 10}, {1, 64 << 10}, {512 << 20, 64 << 10}, {1 << 30, 128 << 10}, {1<<30 + 8192, 256 << 10}, {2 << 40, 2 << 20}, {1 << 62, 2 << 20},
	} {
		if got := PieceBytes(row.tree); got != row.piece {
			t.Errorf("of %d bytes: %d, want %d", row.tree, got, row.piece)
		}
	}
}

// TestCut: pieces have every byte of every file once, in order; none is larger than it may be, and each file says where it begins.
func TestCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.Int64Range(1, 100).Draw(t, "piece bytes")
		sizes := rapid.SliceOf(rapid.Int64Range(0, 350)).Draw(t, "sizes")
		cut := NewCut(most)
		var all cutting
		add := func(c cutting) {
			all.pieces, all.spots = append(all.pieces, c.pieces...), append(all.spots, c.spots...)
		}
		for i, size := range sizes {
			kind := mover.File
			if rapid.IntRange(0, 9).Draw(t, "kind") == 0 {
				kind, size, sizes[i] = mover.Dir, 0, 0
			}
			add(cut.add(mover.Entry{Name: fmt.Sprintf("f%04d", i), Kind: kind, Size: size}))
		}
		add(cut.end())
		have := map[string]int64{}
		last := ""
		for i, p := range all.pieces {
			if p.Index != i || p.Bytes() > most || p.Bytes() == 0 || p.Check() != nil {
				t.Fatalf("piece %d is %+v", i, p)
			}
			for _, s := range p.Segments {
				if s.Name < last || s.Off != have[s.Name] {
					t.Fatalf("%+v comes after %s of which there are %d", s, last, have[s.Name])
				}
				last = s.Name
				have[s.Name] += s.Length
			}
		}
		for i, size := range sizes {
			if name := fmt.Sprintf("f%04d", i); have[name] != size {
				t.Fatalf("%s has %d bytes in pieces, and %d", name, have[name], size)
			}
		}
		for _, s := range all.spots {
			off := int64(0)
			found := false
			for _, seg := range all.pieces[s.first].Segments {
				found = found || seg.Name == s.entry.Name && seg.Off == 0 && off == s.off
				off += seg.Length
			}
			if !found {
				t.Fatalf("%s is not at %d of piece %d", s.entry.Name, s.off, s.first)
			}
		}
	})
}

// TestKey: who cuts in another way asks for another piece.
func TestKey(t *testing.T) {
	a := Piece{1, []Segment{{"a", 0, 10}, {"b", 0, 10}}}
	for _, b := range []Piece{
		{2, a.Segments}, {1, a.Segments[:1]}, {1, []Segment{{"a", 0, 10}, {"b", 1, 10}}}, {1, []Segment{{"a", 0, 10}, {"b", 0, 11}}}, {1, []Segment{{"b", 0, 10}, {"a", 0, 10}}},
	} {
		if a.Key() == b.Key() {
			t.Errorf("%+v and %+v", a, b)
		}
	}
}

//safety:6 what other nodes ask for
func TestHostilePieces(t *testing.T) {
	for _, p := range []Piece{
		{}, {Index: -1, Segments: []Segment{{"a", 0, 1}}}, {Segments: []Segment{{"", 0, 1}}}, {Segments: []Segment{{"../a", 0, 1}}}, {Segments: []Segment{{"/a", 0, 1}}},
		{Segments: []Segment{{"a/../../b", 0, 1}}}, {Segments: []Segment{{"a", -1, 1}}}, {Segments: []Segment{{"a", 0, 0}}}, {Segments: []Segment{{"a", 0, -1}}},
		{Segments: []Segment{{"a", 0, PieceMost + 1}}}, {Segments: []Segment{{"a", 0, PieceMost}, {"b", 0, 1}}}, {Segments: make([]Segment, segmentsMost+1)},
		{Segments: []Segment{{"a", 1<<63 - 1, 1}}}, {Index: indexMost + 1, Segments: []Segment{{"a", 0, 1}}},
	} {
		if p.Check() == nil {
			t.Errorf("%+v was taken", p)
		}
	}
}
