package backendtest

import (
	"strings"

	"datamove.dev/mover"
)

var changeTests = []test{
	{"Update sets what is known, and nothing else", func(b *bed) {
		b.put("f", "content")
		before := b.stat("f")
		e := before
		e.Known, e.Mtime = mover.FactMtime, mover.Time{Sec: 77, Nsec: 700}
		e.Mode = 0o777 // not Known, so not to be set
		b.ok(b.place.Update(b.Context(), e), "update")
		after := b.stat("f")
		b.sameFacts(after, e)
		if after.Mode != before.Mode {
			b.Errorf("mode went from %o to %o", before.Mode, after.Mode)
		}
		b.holds("f", "content")
	}},
	{"Update sets the facts of an entry of a walk", func(b *bed) {
		b.put("f", "content")
		for _, e := range b.walk(mover.WalkOptions{}) {
			e.Known, e.Mode = mover.FactMode, 0o604
			b.ok(b.place.Update(b.Context(), e), "update")
			b.sameFacts(b.stat("f"), e)
		}
	}},
	{"what an object has beside its bytes is kept: a small one", func(b *bed) { objectFacts(b, []byte("content")) }},
	{"what an object has beside its bytes is kept: one of parts", func(b *bed) { objectFacts(b, Pattern(b.part+1)) }},
	{"Update of a missing name is ErrNotExist", func(b *bed) {
		err := b.place.Update(b.Context(), b.file("nothing", nil))
		b.is(err, mover.ErrNotExist, "update")
	}},
	{"Update of a symlink does not reach its target", func(b *bed) {
		b.put("f", "content")
		before := b.stat("f")
		b.special(mover.Entry{Name: "l", Kind: mover.Symlink, Target: "f"})
		e := b.stat("l")
		e.Known, e.Mtime = mover.FactMtime, mover.Time{Sec: 99}
		b.ok(b.place.Update(b.Context(), e), "update")
		if after := b.stat("f"); after.Mtime != before.Mtime {
			b.Errorf("mtime of the target went from %v to %v", before.Mtime, after.Mtime)
		}
	}},
	{"Remove removes a file", func(b *bed) {
		b.put("f", "content")
		b.put("g", "kept")
		b.ok(b.place.Remove(b.Context(), b.stat("f"), owner), "remove")
		b.ok(b.place.Sync(b.Context()), "sync")
		b.absent("f")
		b.holds("g", "kept")
	}},
	{"Remove takes the entries of a walk, deepest first", func(b *bed) {
		b.orchard()
		all := b.walk(mover.WalkOptions{})
		for i := len(all) - 1; i >= 0; i-- {
			b.ok(b.place.Remove(b.Context(), all[i], owner), "remove %q", all[i].Name)
		}
		if got := b.names(mover.WalkOptions{}); len(got) != 0 {
			b.Errorf("walk yields %q", got)
		}
	}},
	{"Remove of a replaced entry is ErrChanged and harms nothing", func(b *bed) {
		b.put("f", "same size 1")
		e := b.stat("f")
		b.put("f", "same size 2")
		b.is(b.place.Remove(b.Context(), e, owner), mover.ErrChanged, "remove")
		b.holds("f", "same size 2")
		if left := b.strays(b.place); len(left) != 0 {
			b.Errorf("strays %+v", left)
		}
	}},
	{"Remove of a directory that is not empty is ErrConflict", func(b *bed) {
		b.mkdir("d")
		e := b.stat("d")
		b.put("d/f", "kept")
		b.is(b.place.Remove(b.Context(), e, owner), mover.ErrConflict, "remove")
		b.holds("d/f", "kept")
		b.ok(b.place.Remove(b.Context(), b.stat("d/f"), owner), "remove the file")
		b.ok(b.place.Remove(b.Context(), b.stat("d"), owner), "remove the directory")
		b.absent("d")
	}},
	{"A directory takes the place of a file, and a file that of a directory", func(b *bed) {
		b.put("a", "file")
		if b.traits.FileAndDirShareName {
			b.put("a/b", "below")
			b.holds("a", "file")
		}
		b.ok(b.place.Remove(b.Context(), b.stat("a"), owner), "remove the file")
		b.mkdir("a")
		b.put("a/b", "below")
		b.holds("a/b", "below")
		b.ok(b.place.Remove(b.Context(), b.stat("a/b"), owner), "remove what is below")
		dir := b.stat("a")
		if b.traits.FileAndDirShareName {
			b.put("a", "file")
		}
		b.ok(b.place.Remove(b.Context(), dir, owner), "remove the directory")
		b.put("a", "file")
		b.holds("a", "file")
		b.absent("a/b")
	}},
	{"Remove of a symlink leaves its target", func(b *bed) {
		b.mkdir("d")
		b.put("d/f", "kept")
		b.special(mover.Entry{Name: "l", Kind: mover.Symlink, Target: "d"})
		b.ok(b.place.Remove(b.Context(), b.stat("l"), owner), "remove")
		b.absent("l")
		b.holds("d/f", "kept")
	}},
	{"Remove takes all names of a hard link", func(b *bed) {
		b.need(b.keeps(mover.FactLinks), "hard links")
		b.put("f", "shared")
		e := b.file("g", []byte("shared"))
		d, err := b.place.Draft(b.Context(), e, mover.Hints{By: owner, Link: "f"})
		b.ok(err, "draft a link")
		b.ok(d.Finish(b.Context(), e, nil), "finish")
		b.publish(d)
		for _, e := range b.walk(mover.WalkOptions{}) {
			b.ok(b.place.Remove(b.Context(), e, owner), "remove %q", e.Name)
		}
	}},
	{"Lock holds the target for one run", func(b *bed) {
		_, unlock, err := b.place.Lock(b.Context(), "", owner)
		b.ok(err, "lock")
		for what, p := range map[string]mover.Backend{"another place": b.open(), "the same place": b.place} {
			_, _, err := p.Lock(b.Context(), "", mover.WriterID{Task: "second", Epoch: 1})
			b.is(err, mover.ErrHeld, "lock by %s", what)
			if err != nil && !strings.Contains(err.Error(), owner.Task) {
				b.Errorf("%q does not name the holder %v", err, owner)
			}
		}
		_, one, err := b.open().Lock(b.Context(), "f", owner)
		b.ok(err, "lock of one entry")
		_, _, err = b.open().Lock(b.Context(), "f", mover.WriterID{Task: "second", Epoch: 1})
		b.is(err, mover.ErrHeld, "second lock of the entry")
		b.ok(one(), "unlock the entry")
		b.ok(unlock(), "unlock")
		_, again, err := b.open().Lock(b.Context(), "", owner)
		b.ok(err, "lock after unlock")
		b.ok(again(), "unlock")
	}},
}

// objectFacts gives a file what objects have, and changes that and other facts one by one.
func objectFacts(b *bed, data []byte) {
	keeps := b.traits.Keeps & mover.FactsOfObject
	b.need(keeps != 0, "headers, metadata, tags or classes")
	e := b.file("f", data)
	e.Known |= keeps
	e.Object = objectOf(keeps, "image/png", "a=1&b=%20%2B", "STANDARD_IA")
	b.putParts(e, data)
	b.sameFacts(b.stat("f"), e)

	e.Known, e.Mode = mover.FactMode, 0o600
	b.ok(b.place.Update(b.Context(), e), "update the mode")
	e.Known |= keeps
	b.sameFacts(b.stat("f"), e)
	e.Object, e.Known = objectOf(keeps, "image/gif", "c=2", "STANDARD_IA"), keeps
	b.ok(b.place.Update(b.Context(), e), "update all")
	e.Known |= mover.FactMode
	b.sameFacts(b.stat("f"), e)
	e.Object, e.Known = nil, keeps&^mover.FactClass
	b.ok(b.place.Update(b.Context(), e), "update to none")
	if got := b.stat("f"); mover.DifferingAttribute(got.Object, nil, e.Known) != "" {
		b.Errorf("of nothing is left %q", got.Object)
	}
	e.Known = keeps
	b.ok(b.place.Update(b.Context(), e), "update to none, the class too")
	if got := b.stat("f"); !got.Known.Has(keeps) {
		b.Errorf("of what was an object is known %b, want %b", got.Known, keeps)
	}
	b.holds("f", string(data))
}

// objectOf is one attribute of each kind, and two of metadata, of what a place keeps.
func objectOf(keeps mover.Facts, mime, tags, class string) []mover.Attribute {
	all := []mover.Attribute{
		{Name: "cache-control", Value: "max-age=1, public"}, {Name: "content-disposition", Value: `attachment; filename="a b"`}, {Name: "content-encoding", Value: "gzip"},
		{Name: "content-language", Value: "de"}, {Name: "content-type", Value: mime}, {Name: "expires", Value: "Fri, 21 Dec 2096 00:00:00 GMT"},
		{Name: mover.MetadataPrefix + "cache-control", Value: "2"}, {Name: mover.MetadataPrefix + "team", Value: "a b=" + mime},
		{Name: mover.AttributeClass, Value: class}, {Name: mover.AttributeTags, Value: tags},
	}
	e := mover.Entry{Object: all, Known: keeps}
	mover.SortAttributes(all)
	return e.ObjectOf(keeps)
}

// putParts publishes a file in small parts.
func (b *bed) putParts(e mover.Entry, data []byte) {
	b.Helper()
	d, err := b.place.Draft(b.Context(), e, mover.Hints{By: owner, PartBytes: b.part})
	b.ok(err, "draft")
	defer d.Close()
	var receipts []mover.Receipt
	for _, p := range Parts(e.Size, b.part) {
		r, err := d.WritePart(b.Context(), p, NewFeed(data[p.Off:p.Off+p.Length]))
		b.ok(err, "write")
		receipts = append(receipts, r)
	}
	b.ok(d.Finish(b.Context(), e, receipts), "finish")
	b.publish(d)
}
