package backendtest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"

	"datamove.dev/mover"
)

var publishTests = []test{
	{"a replaced file is the old one until Publish", func(b *bed) {
		b.put("f", "old")
		d := b.draft("f", []byte("new one"))
		receipts := b.writeAll(d, []byte("new one"))
		b.holds("f", "old")
		b.ok(d.Finish(b.Context(), b.file("f", []byte("new one")), receipts), "finish")
		b.holds("f", "old")
		b.publish(d)
		b.holds("f", "new one")
	}},
	{"a concurrent reader sees the old or the new, never a mixture", publishWhileRead},
	{"a batch has an outcome for each draft", publishBatch},
	{"an empty batch has no outcomes", func(b *bed) {
		if out := b.place.Publish(b.Context(), nil); len(out) != 0 {
			b.Errorf("outcomes %+v", out)
		}
	}},
	{"many may draft and publish at the same time", func(b *bed) {
		const writers, each = 6, 5
		b.mkdir("d")
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for i := range each {
					name := fmt.Sprintf("d/%d-%d", w, i)
					if err := TryPut(b.Context(), b.place, b.file(name, []byte(name)), []byte(name)); err != nil {
						b.Errorf("put %q: %v", name, err)
					}
				}
			})
		}
		wg.Wait()
		for _, e := range b.walk(mover.WalkOptions{Dir: "d"}) {
			b.holds(e.Name, e.Name)
		}
		if n := len(b.names(mover.WalkOptions{Dir: "d"})); n != writers*each {
			b.Errorf("%d names of %d", n, writers*each)
		}
	}},
	{"the facts that a place keeps are kept", publishFacts},
	{"a symlink keeps its target, whatever it is", func(b *bed) {
		for _, target := range []string{"a", "../../../etc/passwd", "/dev/null", "missing \n\xff here", "a//b/."} {
			e := mover.Entry{Name: "l", Kind: mover.Symlink, Target: target}
			b.special(e)
			if got := b.stat("l"); got.Kind != mover.Symlink || got.Target != target {
				b.Errorf("a symlink to %q is a %v to %q", target, got.Kind, got.Target)
			}
		}
	}},
	{"special files are made, or refused by kind", publishSpecial},
	{"a symlink and a file replace each other", func(b *bed) {
		b.put("f", "old")
		b.special(mover.Entry{Name: "f", Kind: mover.Symlink, Target: "elsewhere"})
		if e := b.stat("f"); e.Kind != mover.Symlink {
			b.Errorf("a file replaced by a symlink is a %v", e.Kind)
		}
		b.put("f", "new")
		b.holds("f", "new")
	}},
	{"a hard link shares the content, or copies it", func(b *bed) {
		b.put("f", "shared")
		e := b.file("g", []byte("shared"))
		d, err := b.place.Draft(b.Context(), e, mover.Hints{By: owner, Link: "f"})
		b.ok(err, "draft a link")
		b.Cleanup(func() { _ = d.Close() })
		b.ok(d.Finish(b.Context(), e, nil), "finish")
		b.absent("g")
		b.publish(d)
		b.holds("g", "shared")
		if f, g := b.stat("f"), b.stat("g"); b.keeps(mover.FactLinks) && (f.Ino != g.Ino || f.Dev != g.Dev || g.Nlink != 2) {
			b.Errorf("a hard link is inode %d of %d names, the file was %d", g.Ino, g.Nlink, f.Ino)
		}
	}},
	{"a link to nothing is ErrNotExist", func(b *bed) {
		e := b.file("g", nil)
		d, err := b.place.Draft(b.Context(), e, mover.Hints{By: owner, Link: "nothing"})
		if err == nil {
			err = errors.Join(d.Finish(b.Context(), e, nil), b.place.Publish(b.Context(), []mover.Draft{d})[0].Err, d.Close())
		}
		b.is(err, mover.ErrNotExist, "link to a missing name")
		b.absent("g")
	}},
	{"a file never takes the place of what a directory contains", func(b *bed) {
		b.mkdir("d")
		b.put("d/f", "kept")
		if err := TryPut(b.Context(), b.place, b.file("d", []byte("x")), []byte("x")); err != nil {
			b.is(err, mover.ErrConflict, "publish a file over a directory")
		}
		b.holds("d/f", "kept")
	}},
}

// publishWhileRead replaces a file of one repeated byte by others while it is read.
func publishWhileRead(b *bed) {
	const versions, size = 12, 50_000
	content := func(i int) []byte { return bytes.Repeat([]byte{byte('a' + i)}, size+i) }
	b.put("f", string(content(0)))
	done := make(chan error, 1)
	go func() {
		defer close(done)
		for i := 1; i < versions; i++ {
			if err := TryPut(b.Context(), b.place, b.file("f", content(i)), content(i)); err != nil {
				done <- err
				return
			}
		}
	}()
	for reads := 0; ; reads++ {
		select {
		case err := <-done:
			b.ok(err, "replace")
			b.holds("f", string(content(versions-1)))
			return
		default:
		}
		got, err := read(b.Context(), b.place, "f")
		if errors.Is(err, mover.ErrChanged) {
			continue
		}
		b.ok(err, "read while it is replaced")
		if len(got) < size || !bytes.Equal(got, content(int(got[0]-'a'))) {
			b.Fatalf("a reader saw a mixture: %s", short(string(got)))
		}
	}
}

func publishBatch(b *bed) {
	var batch []mover.Draft
	for _, name := range []string{"one", "unfinished", "two"} {
		d := b.draft(name, []byte(name))
		receipts := b.writeAll(d, []byte(name))
		if name != "unfinished" {
			b.ok(d.Finish(b.Context(), b.file(name, []byte(name)), receipts), "finish")
		}
		batch = append(batch, d)
	}
	out := b.place.Publish(b.Context(), batch)
	if len(out) != 3 {
		b.Fatalf("%d outcomes of 3 drafts", len(out))
	}
	if out[0].Err != nil || out[1].Err == nil || out[2].Err != nil {
		b.Errorf("outcomes %+v, want an error for the unfinished draft only", out)
	}
	b.holds("one", "one")
	b.holds("two", "two")
	b.absent("unfinished")
}

func publishFacts(b *bed) {
	uid, gid := someone()
	e := b.file("f", []byte("facts"))
	e.Known |= b.traits.Keeps & (mover.FactOwner | mover.FactGroup | mover.FactAtime | mover.FactXattrs)
	e.UID, e.GID = uid, gid
	if b.traits.Xattrs.Has("user.datamove.a") { // NFS before 4.2 has ACLs alone
		e.Xattrs = []mover.Xattr{{Name: "user.datamove.a", Value: []byte("1\x00\xff")}, {Name: "user.datamove.b", Value: []byte{}}}
	}
	for _, row := range []struct {
		mode         uint32
		mtime, atime mover.Time
	}{
		{0o640, mover.Time{Sec: 1_234_567_890, Nsec: 123_456_789}, mover.Time{Sec: 1_234_567_891, Nsec: 1}},
		{0o444, mover.Time{Sec: 4_000_000_000, Nsec: 999_999_999}, mover.Time{Sec: 1, Nsec: 0}},
		{0o600, mover.Time{Sec: -86_400, Nsec: 500}, mover.Time{Sec: 0, Nsec: 7}},
	} {
		e.Mode, e.Mtime, e.Atime = row.mode, row.mtime, row.atime
		Put(b.T, b.place, e, []byte("facts"))
		b.sameFacts(b.stat("f"), e)
	}
}

// same compares two values of a fact; a time may be what the place has made of it.
func (b *bed) same(got, want any) bool {
	t, isTime := want.(mover.Time)
	return got == want || isTime && b.traits.Times.Same(t, got.(mover.Time))
}

// sameFacts compares what the place keeps of the facts that want knows.
func (b *bed) sameFacts(got, want mover.Entry) {
	b.Helper()
	for _, row := range []struct {
		fact      mover.Facts
		what      string
		got, want any
	}{
		{mover.FactMode, "mode", got.Mode, want.Mode},
		{mover.FactOwner, "uid", got.UID, want.UID},
		{mover.FactGroup, "gid", got.GID, want.GID},
		{mover.FactMtime, "mtime", got.Mtime, want.Mtime},
		{mover.FactAtime, "atime", got.Atime, want.Atime},
		{mover.FactCRC, "CRC", got.CRC, want.CRC},
	} {
		if !b.keeps(row.fact) || !want.Known.Has(row.fact) {
			continue
		}
		if !got.Known.Has(row.fact) || got.Brief {
			b.Errorf("%s of %q is not known", row.what, got.Name)
		} else if !b.same(row.got, row.want) {
			b.Errorf("%s of %q is %v, want %v", row.what, got.Name, row.got, row.want)
		}
	}
	if b.keeps(mover.FactXattrs) && want.Known.Has(mover.FactXattrs) && !slices.EqualFunc(got.Xattrs, want.Xattrs, sameXattr) {
		b.Errorf("xattrs of %q are %q, want %q", got.Name, got.Xattrs, want.Xattrs)
	}
	if object := b.traits.Keeps & want.Known & mover.FactsOfObject; !got.Known.Has(object) || mover.DifferingAttribute(got.Object, want.Object, object) != "" {
		b.Errorf("%q has, as an object, %q (%b), want %q", got.Name, got.Object, got.Known, want.Object)
	}
}

func sameXattr(x, y mover.Xattr) bool { return x.Name == y.Name && bytes.Equal(x.Value, y.Value) }

func publishSpecial(b *bed) {
	for _, k := range []mover.Kind{mover.FIFO, mover.Socket, mover.CharDevice, mover.BlockDevice} {
		e := mover.Entry{Name: k.String(), Kind: k, Known: mover.FactMode, Mode: 0o600, Rdev: 0x103}
		d, err := b.place.Draft(b.Context(), e, mover.Hints{By: owner})
		if err == nil {
			err = d.Finish(b.Context(), e, nil)
			if err == nil {
				err = b.place.Publish(b.Context(), []mover.Draft{d})[0].Err
			}
			b.ok(d.Close(), "close")
		}
		if errors.Is(err, mover.ErrUnsupported) || errors.Is(err, mover.ErrPermission) {
			continue
		}
		b.ok(err, "make a %v", k)
		got := b.stat(k.String())
		if got.Kind != k || (k == mover.CharDevice || k == mover.BlockDevice) && got.Rdev != e.Rdev {
			b.Errorf("a %v of device %x is a %v of device %x", k, e.Rdev, got.Kind, got.Rdev)
		}
	}
}
