package backendtest

import (
	"errors"
	"slices"
	"sync"

	"datamove.dev/mover"
)

var draftTests = []test{
	{"nothing is visible before Publish, all of it after", func(b *bed) {
		data := Pattern(b.part + 1)
		d := b.draft("f", data)
		b.absent("f")
		receipts := b.writeAll(d, data)
		b.absent("f")
		b.ok(d.Finish(b.Context(), b.file("f", data), receipts), "finish")
		b.absent("f")
		out := b.publish(d)
		b.holds("f", string(data))
		if out.Level != b.traits.Level {
			b.Errorf("published at level %v, the traits say %v", out.Level, b.traits.Level)
		}
		if e := b.stat("f"); out.ETag != e.ETag || out.Version != e.Version {
			b.Errorf("published as ETag %q version %q, and it is %q version %q", out.ETag, out.Version, e.ETag, e.Version)
		}
	}},
	{"every size is whole, also beside part boundaries", func(b *bed) {
		for _, size := range []int64{0, 1, b.part - 1, b.part, b.part + 1, 2*b.part + 1} {
			b.fill("f", Pattern(size))
			b.holds("f", string(Pattern(size)))
			if e := b.stat("f"); e.Size != size {
				b.Errorf("stat tells %d bytes of %d", e.Size, size)
			}
		}
	}},
	{"parts may come in any order", func(b *bed) {
		data := Pattern(2*b.part + 5)
		d := b.draft("f", data)
		parts := Parts(int64(len(data)), b.part)
		receipts := make([]mover.Receipt, len(parts))
		for _, i := range []int{2, 0, 1} {
			receipts[i] = b.write(d, parts[i], data)
		}
		b.finish(d, data, receipts)
		b.holds("f", string(data))
	}},
	{"parts may come at the same time", func(b *bed) {
		data := Pattern(3*b.part + 1)
		d := b.draft("f", data)
		b.finish(d, data, b.writeAtOnce(data, d))
		b.holds("f", string(data))
	}},
	{"a part may be written again", func(b *bed) {
		data := Pattern(b.part + 9)
		d := b.draft("f", data)
		parts := Parts(int64(len(data)), b.part)
		for _, p := range parts {
			b.write(d, p, slices.Concat(data[len(data)/2:], data[:len(data)/2])) // the wrong bytes
		}
		b.finish(d, data, b.writeAll(d, data))
		b.holds("f", string(data))
	}},
	{"a part whose feed fails may be written again", func(b *bed) {
		why := errors.New("feed broke")
		data := Pattern(2 * b.part)
		d := b.draft("f", data)
		p := Parts(2*b.part, b.part)[1]
		_, err := d.WritePart(b.Context(), p, NewFeed(data[p.Off:]).BreakAt(b.part/2, why))
		b.is(err, why, "write of a part whose feed breaks")
		b.finish(d, data, b.writeAll(d, data))
		b.holds("f", string(data))
	}},
	{"Close drops, once or twice", func(b *bed) {
		data := Pattern(b.part + 1)
		d := b.draft("f", data)
		b.writeAll(d, data)
		token := d.Token()
		b.ok(d.Close(), "close")
		b.ok(d.Close(), "close again")
		b.absent("f")
		_, err := b.place.Adopt(b.Context(), token)
		b.is(err, mover.ErrNotExist, "adopt a dropped draft")
		if left := b.strays(b.place); len(left) > 0 {
			b.Errorf("Close left %+v", left)
		}
	}},
	{"Close after Publish leaves the entry", func(b *bed) {
		data := []byte("content")
		d := b.draft("f", data)
		b.finish(d, data, b.writeAll(d, data))
		b.ok(d.Close(), "close")
		b.holds("f", "content")
	}},
	{"a suspended draft can be adopted by another place", adoptSuspended},
	{"an abandoned draft can be adopted by another place", func(b *bed) {
		data := Pattern(b.part + 1)
		parts := Parts(b.part+1, b.part)
		d := b.draft("f", data)
		first := b.write(d, parts[0], data)
		other := b.open()
		adopted, err := other.Adopt(b.Context(), d.Token())
		b.ok(err, "adopt")
		b.Cleanup(func() { _ = adopted.Close() })
		second := b.write(adopted, parts[1], data)
		b.finishAt(other, adopted, data, []mover.Receipt{first, second})
		b.holds("f", string(data))
	}},
	{"all who hold the token may write at the same time", func(b *bed) {
		data := Pattern(3*b.part + 1)
		d := b.draft("f", data)
		other, err := b.open().Adopt(b.Context(), d.Token())
		b.ok(err, "adopt")
		receipts := b.writeAtOnce(data, d, other)
		b.ok(other.Suspend(), "suspend the second hold")
		b.finish(d, data, receipts)
		b.holds("f", string(data))
	}},
	{"Close after Suspend drops nothing", func(b *bed) {
		data := Pattern(2 * b.part)
		d := b.draft("f", data)
		b.write(d, Parts(2*b.part, b.part)[0], data)
		b.ok(d.Suspend(), "suspend")
		b.ok(d.Close(), "close")
		again, err := b.place.Adopt(b.Context(), d.Token())
		b.ok(err, "adopt")
		b.ok(again.Close(), "close the adopted")
	}},
	{"a dropped draft never appears", dropped},
	{"a bad token touches nothing", func(b *bed) {
		b.mkdir("d")
		b.put("d/keep", "kept")
		for _, token := range []mover.Token{"", "d/keep", "/d/keep", "d/../d/keep", "../x", "d", ".", "x\x00y", "%", "{}"} {
			if d, err := b.place.Adopt(b.Context(), token); err == nil {
				b.Errorf("adopted the token %q", token)
				_ = d.Suspend()
			}
			_ = b.place.Drop(b.Context(), token) // it may be refused or find nothing
		}
		b.holds("d/keep", "kept")
	}},
	{"a wrong checksum is found where the store compares", func(b *bed) {
		b.need(b.traits.Level == mover.Server, "comparing store")
		data := Pattern(b.part + 3)
		d := b.draft("f", data)
		e := b.file("f", data)
		e.CRC++
		err := d.Finish(b.Context(), e, b.writeAll(d, data))
		if err == nil {
			err = b.place.Publish(b.Context(), []mover.Draft{d})[0].Err
		}
		b.is(err, mover.ErrCorrupt, "finish or publish with a wrong checksum")
		b.absent("f")
	}},
	{"holes are kept", func(b *bed) {
		b.need(b.keeps(mover.FactHoles), "holes")
		const m = 1 << 20
		data := sparse(5*m, mover.Segment{Start: m, End: m + 5000}, mover.Segment{Start: 5*m - 10, End: 5 * m})
		b.sparseFile("f", data, mover.Segment{End: m}, mover.Segment{Start: m + 5000, End: 5*m - 10})
		b.holds("f", string(data))
		if e := b.stat("f"); e.Stored >= e.Size {
			b.Errorf("%d bytes are stored of %d", e.Stored, e.Size)
		}
	}},
	{"a file that is all hole is whole", func(b *bed) {
		data := make([]byte, b.part+1)
		b.sparseFile("f", data, mover.Segment{End: b.part + 1})
		b.holds("f", string(data))
	}},
	{"a clone is whole, or leaves the draft as it was", clone},
	{"what is drafted can be read again", func(b *bed) {
		data := Pattern(b.part + 5)
		d := b.draft("f", data)
		re, ok := mover.As[mover.Rereader](d)
		b.need(ok, "Rereader")
		b.ok(d.Finish(b.Context(), b.file("f", data), b.writeAll(d, data)), "finish")
		c, err := re.Reread(b.Context())
		b.ok(err, "reread")
		got, err := readRange(b.Context(), c, 0, int64(len(data)))
		b.ok(err, "read again")
		b.ok(c.Close(), "close")
		if string(got) != string(data) {
			b.Errorf("read again %s, want %s", short(string(got)), short(string(data)))
		}
		b.absent("f")
		b.publish(d)
		b.holds("f", string(data))
	}},
}

// writeAll writes the parts of data in order.
func (b *bed) writeAll(d mover.Draft, data []byte) []mover.Receipt {
	b.Helper()
	var receipts []mover.Receipt
	for _, p := range Parts(int64(len(data)), b.part) {
		receipts = append(receipts, b.write(d, p, data))
	}
	return receipts
}

// writeAtOnce writes each part in a goroutine of its own, by turns through the holds.
func (b *bed) writeAtOnce(data []byte, holds ...mover.Draft) []mover.Receipt {
	b.Helper()
	parts := Parts(int64(len(data)), b.part)
	receipts := make([]mover.Receipt, len(parts))
	var wg sync.WaitGroup
	for i, p := range parts {
		wg.Go(func() {
			r, err := holds[i%len(holds)].WritePart(b.Context(), p, NewFeed(data[p.Off:p.Off+p.Length]))
			if err != nil {
				b.Errorf("write part %d: %v", i, err)
			}
			receipts[i] = r
		})
	}
	wg.Wait()
	return receipts
}

// finish finishes and publishes the file f.
func (b *bed) finish(d mover.Draft, data []byte, receipts []mover.Receipt) {
	b.Helper()
	b.finishAt(b.place, d, data, receipts)
}

// finishAt is finish at the place that d is of.
func (b *bed) finishAt(p mover.Backend, d mover.Draft, data []byte, receipts []mover.Receipt) {
	b.Helper()
	b.ok(d.Finish(b.Context(), b.file("f", data), receipts), "finish")
	b.ok(p.Publish(b.Context(), []mover.Draft{d})[0].Err, "publish")
}

// fill publishes a file in parts of b.part.
func (b *bed) fill(name string, data []byte) {
	b.Helper()
	d := b.draft(name, data)
	b.ok(d.Finish(b.Context(), b.file(name, data), b.writeAll(d, data)), "finish %q of %d bytes", name, len(data))
	b.publish(d)
}

func adoptSuspended(b *bed) {
	data := Pattern(2*b.part + 1)
	parts := Parts(int64(len(data)), b.part)
	d := b.draft("f", data)
	receipts := make([]mover.Receipt, 3)
	receipts[1] = b.write(d, parts[1], data)
	token := d.Token()
	b.ok(d.Suspend(), "suspend")
	b.absent("f")

	other := b.open()
	adopted, err := other.Adopt(b.Context(), token)
	b.ok(err, "adopt")
	b.Cleanup(func() { _ = adopted.Close() })
	if adopted.Token() != token {
		b.Errorf("the adopted draft has token %q, it was %q", adopted.Token(), token)
	}
	for _, i := range []int{2, 0} {
		receipts[i] = b.write(adopted, parts[i], data)
	}
	b.finishAt(other, adopted, data, receipts)
	b.holds("f", string(data))
}

func dropped(b *bed) {
	data := Pattern(b.part + 1)
	d := b.draft("f", data)
	receipts := b.writeAll(d, data)
	other := b.open()
	b.ok(other.Drop(b.Context(), d.Token()), "drop")
	b.ok(other.Drop(b.Context(), d.Token()), "drop again")
	_, err := other.Adopt(b.Context(), d.Token())
	b.is(err, mover.ErrNotExist, "adopt a dropped draft")
	if err := d.Finish(b.Context(), b.file("f", data), receipts); err == nil {
		if out := b.place.Publish(b.Context(), []mover.Draft{d}); out[0].Err == nil {
			b.Errorf("a dropped draft was published")
		}
	}
	b.absent("f")
}

// foreign is a content that no place knows.
type foreign struct{ mover.Content }

func clone(b *bed) {
	data := Pattern(b.part + 1)
	b.fill("source", data)
	d := b.draft("f", data)
	cloner, ok := mover.As[mover.Cloner](d)
	b.need(ok, "Cloner")
	if done, err := cloner.Clone(b.Context(), foreign{b.opened("source")}); done || err != nil {
		b.Errorf("clone of a foreign content: %v, %v", done, err)
	}
	done, err := cloner.Clone(b.Context(), b.opened("source"))
	b.ok(err, "clone")
	var receipts []mover.Receipt
	if !done {
		receipts = b.writeAll(d, data)
	}
	b.ok(d.Finish(b.Context(), b.file("f", data), receipts), "finish")
	if out := b.publish(d); out.Level == mover.Unchecked {
		b.Errorf("published at level %v", out.Level)
	}
	b.holds("f", string(data))
	b.holds("source", string(data))
}
