package backendtest

import (
	"bytes"
	"io"
	"strings"
	"sync"

	"datamove.dev/mover"
)

var contentTests = []test{
	{"a missing name is ErrNotExist", func(b *bed) {
		_, err := b.place.Stat(b.Context(), "nothing")
		b.is(err, mover.ErrNotExist, "stat")
		b.put("f", "x")
		e := b.stat("f")
		b.ok(b.place.Remove(b.Context(), e, owner), "remove")
		_, err = b.place.Open(b.Context(), e)
		b.is(err, mover.ErrNotExist, "open")
	}},
	{"the root is a directory", func(b *bed) {
		if e := b.stat(""); e.Kind != mover.Dir || e.Name != "" {
			b.Errorf("the root is %+v", e)
		}
	}},
	{"identity is stable, and new with each version", func(b *bed) {
		b.put("f", "same size 1")
		one, again := b.stat("f"), b.stat("f")
		if one.Identity() != again.Identity() {
			b.Errorf("identity went from\n%+v to\n%+v", one.Identity(), again.Identity())
		}
		b.put("f", "same size 2")
		if two := b.stat("f"); two.Identity() == one.Identity() {
			b.Errorf("two versions have the identity %+v", two.Identity())
		}
	}},
	{"Open of a replaced entry, or its Check, is ErrChanged", func(b *bed) {
		b.put("f", "same size 1")
		e := b.stat("f")
		b.put("f", "same size 2")
		c, err := b.place.Open(b.Context(), e)
		if err == nil {
			err = c.Check(b.Context())
			b.ok(c.Close(), "close")
		}
		b.is(err, mover.ErrChanged, "open and check")
	}},
	{"an open content of a replaced entry is the old one or ErrChanged", contentReplaced},
	{"any range can be read", contentRanges},
	{"ranges can be read at the same time", contentConcurrent},
	{"a range beyond the end is ErrUnexpectedEOF", func(b *bed) {
		b.put("f", "0123456789")
		c := b.opened("f")
		for _, row := range []struct{ off, n int64 }{{5, 6}, {0, 100}, {10, 1}, {50, 1}} {
			data, err := readRange(b.Context(), c, row.off, row.n)
			b.is(err, io.ErrUnexpectedEOF, "range of %d bytes at %d of 10", row.n, row.off)
			if len(data) > 0 && string(data) != "0123456789"[row.off:] {
				b.Errorf("range of %d bytes at %d gave %q", row.n, row.off, data)
			}
		}
	}},
	{"segments cover what is stored", contentSegments},
	{"entries of every kind can be opened", func(b *bed) {
		b.mkdir("d")
		b.special(mover.Entry{Name: "l", Kind: mover.Symlink, Target: "anywhere"})
		for _, name := range []string{"d", "l", ""} {
			if e := b.opened(name).Entry(); e.Name != name {
				b.Errorf("opened %q, and it is %+v", name, e)
			}
		}
	}},
	{"Entry tells all that Stat does", func(b *bed) {
		b.put("f", "content")
		e, want := b.opened("f").Entry(), b.stat("f")
		if e.Brief || e.Identity() != want.Identity() || !e.Known.Has(want.Known) {
			b.Errorf("opened entry\n%+v, stat\n%+v", e, want)
		}
	}},
}

func (b *bed) opened(name string) mover.Content {
	b.Helper()
	c, err := b.place.Open(b.Context(), b.stat(name))
	b.ok(err, "open %q", name)
	b.Cleanup(func() { b.ok(c.Close(), "close content of %q", name) })
	return c
}

func contentReplaced(b *bed) {
	old := string(Pattern(10_000))
	b.put("f", old)
	c := b.opened("f")
	b.ok(c.Check(b.Context()), "check of an unchanged entry")
	b.put("f", strings.ToUpper(string(Pattern(10_001)))[:10_000])
	b.is(c.Check(b.Context()), mover.ErrChanged, "check of a replaced entry")
	data, err := readRange(b.Context(), c, 0, 10_000)
	if err != nil {
		b.is(err, mover.ErrChanged, "range of a replaced entry")
	} else if string(data) != old {
		b.Errorf("range of a replaced entry gave other bytes")
	}
}

func contentRanges(b *bed) {
	size := b.part + 77
	want := Pattern(size)
	b.put("f", string(want))
	c := b.opened("f")
	for _, row := range []struct{ off, n int64 }{
		{0, size}, {0, 0}, {size, 0}, {0, 1}, {size - 1, 1}, {b.part - 1, 2}, {b.part, 77}, {1, b.part}, {4095, 2},
	} {
		got, err := readRange(b.Context(), c, row.off, row.n)
		b.ok(err, "range of %d bytes at %d", row.n, row.off)
		if !bytes.Equal(got, want[row.off:row.off+row.n]) {
			b.Errorf("range of %d bytes at %d gave %s", row.n, row.off, short(string(got)))
		}
	}
}

func contentConcurrent(b *bed) {
	const readers = 8
	want := Pattern(b.part + 12_345)
	b.put("f", string(want))
	c := b.opened("f")
	step := int64(len(want)) / readers
	var wg sync.WaitGroup
	for i := range int64(readers) {
		wg.Go(func() {
			got, err := readRange(b.Context(), c, i*step, step)
			if err != nil || !bytes.Equal(got, want[i*step:(i+1)*step]) {
				b.Errorf("range %d of %d: %s, %v", i, readers, short(string(got)), err)
			}
		})
	}
	wg.Wait()
}

func contentSegments(b *bed) {
	const m = 1 << 20
	data := sparse(4*m, mover.Segment{Start: 0, End: 70_000}, mover.Segment{Start: 2 * m, End: 2*m + 1})
	b.sparseFile("f", data, mover.Segment{Start: 70_000, End: 2 * m}, mover.Segment{Start: 2*m + 1, End: 4 * m})
	c := b.opened("f")
	var covered int64
	for off := int64(0); off < 4*m; {
		s, err := c.Segment(off)
		b.ok(err, "segment at %d", off)
		if s.Start < off || s.Start > 4*m || s.Start < 4*m && s.End <= s.Start || s.End > 4*m {
			b.Fatalf("segment at %d is %+v", off, s)
		}
		if len(bytes.Trim(data[off:s.Start], "\x00")) > 0 {
			b.Errorf("segment at %d skips bytes that are not zero, up to %d", off, s.Start)
		}
		covered += s.End - s.Start
		off = max(s.End, s.Start)
		if s.Start == 4*m {
			break
		}
	}
	if b.keeps(mover.FactHoles) && covered == 4*m {
		b.Errorf("a place that keeps holes tells of none")
	}
	if s, err := c.Segment(4 * m); err != nil || s.Start != 4*m {
		b.Errorf("segment at the end is %+v, %v", s, err)
	}
	b.holds("f", string(data))
}

// sparseFile publishes a file with holes, which are cut at part boundaries.
func (b *bed) sparseFile(name string, data []byte, holes ...mover.Segment) {
	b.Helper()
	e := b.file(name, data)
	d := b.draft(name, data)
	var receipts []mover.Receipt
	for _, p := range Parts(e.Size, b.part) {
		var here []mover.Segment
		for _, h := range holes {
			cut := mover.Segment{Start: max(h.Start, p.Off) - p.Off, End: min(h.End, p.Off+p.Length) - p.Off}
			if cut.Start < cut.End {
				here = append(here, cut)
			}
		}
		r, err := d.WritePart(b.Context(), p, NewFeed(data[p.Off:p.Off+p.Length], here...))
		b.ok(err, "write part %d", p.Index)
		receipts = append(receipts, r)
	}
	b.ok(d.Finish(b.Context(), e, receipts), "finish")
	b.publish(d)
}

// special publishes an entry without content.
func (b *bed) special(e mover.Entry) {
	b.Helper()
	d, err := b.place.Draft(b.Context(), e, mover.Hints{By: owner})
	b.ok(err, "draft %v", e.Kind)
	defer d.Close()
	b.ok(d.Finish(b.Context(), e, nil), "finish %v", e.Kind)
	b.publish(d)
}
