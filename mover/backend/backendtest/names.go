package backendtest

import (
	"errors"
	"fmt"
	"strings"

	"datamove.dev/mover"
)

var nameTests = []test{
	{"a name that could lead out is refused by every method", hostileNames},
	{"odd names survive", oddNames},
	{"a symlink for a directory leads nowhere", func(b *bed) {
		b.mkdir("real")
		b.put("real/f", "kept")
		b.special(mover.Entry{Name: "l", Kind: mover.Symlink, Target: "real"})
		if _, err := b.place.Stat(b.Context(), "l/f"); err == nil {
			b.Errorf("stat went through a symlink")
		}
		if err := TryPut(b.Context(), b.place, b.file("l/f", []byte("x")), []byte("x")); err == nil && !b.traits.NeedsManifest {
			b.Errorf("a draft went through a symlink")
		}
		b.holds("real/f", "kept")
	}},
	{"a path beyond any limit works or is refused", deepNames},
	{"a segment of 256 bytes works or is refused, by each way that makes it", longSegment},
}

// hostile names are not ValidName. "" is the root, and refused only where an
// entry is made or removed.
var hostile = []string{"..", ".", "a/..", "../a", "a/../b", "/abs", "/", "a//b", "a/", "a/./b", "a\x00b", "\x00"}

func hostileNames(b *bed) {
	b.mkdir("a")
	b.put("a/b", "kept")
	known := b.stat("a/b")
	for _, name := range hostile {
		for op, err := range b.everyMethod(name, known) {
			b.is(err, mover.ErrUsage, "%s %q", op, name)
		}
	}
	_, err := b.place.Draft(b.Context(), b.file("", nil), mover.Hints{By: owner})
	b.is(err, mover.ErrUsage, "draft of the root")
	b.is(b.place.Remove(b.Context(), b.stat(""), owner), mover.ErrUsage, "remove the root")
	b.holds("a/b", "kept")
}

// everyMethod calls everything that takes a name.
func (b *bed) everyMethod(name string, known mover.Entry) map[string]error {
	ctx := b.Context()
	e, dir := known, dirEntry(name)
	e.Name = name
	errs := map[string]error{
		"mkdir":  b.place.Mkdir(ctx, dir),
		"update": b.place.Update(ctx, e),
		"remove": b.place.Remove(ctx, e, owner),
	}
	_, errs["stat"] = b.place.Stat(ctx, name)
	_, errs["open"] = b.place.Open(ctx, e)
	_, errs["draft"] = b.place.Draft(ctx, b.file(name, nil), mover.Hints{By: owner})
	_, errs["draft a directory"] = b.place.Draft(ctx, dir, mover.Hints{By: owner})
	_, errs["draft a link to"] = b.place.Draft(ctx, b.file("new", nil), mover.Hints{By: owner, Link: name})
	errs["walk below"] = b.walkError(mover.WalkOptions{Dir: name})
	if name != "a/" { // a directory's
		errs["walk after"] = b.walkError(mover.WalkOptions{After: name})
	}
	if !b.traits.DirDrafts && errors.Is(errs["draft a directory"], mover.ErrUnsupported) {
		delete(errs, "draft a directory")
	}
	return errs
}

func (b *bed) walkError(opts mover.WalkOptions) error {
	for e, err := range b.place.Walk(b.Context(), opts) {
		if err != nil {
			return err
		}
		b.Errorf("walk of %+v yields %q", opts, e.Name)
	}
	return nil
}

func oddNames(b *bed) {
	odd := []string{
		"with space", " leading", "trailing ", "new\nline", "tab\t", "\x01control", "quote\"'`", "back\\slash", "*?[x]{y}",
		"not utf-8 \xff\xfe", "\xc3", "日本語", "e\u0301", "é", "%41", "%", "%2F", "A%zz", "+", "a+b", "&amp;", "<xml>",
		"-rf", "--", ".hidden", "...", "..a", "a..", "~", "#", "$HOME", ";ls", ".datamove", ".datamove-", ".datamove-x",
		strings.Repeat("n", 255), strings.Repeat("é", 127),
	}
	b.mkdir("d")
	for _, name := range odd {
		b.put("d/"+name, "content of "+name)
	}
	seen := map[string]mover.Entry{}
	for _, e := range b.walk(mover.WalkOptions{Dir: "d"}) {
		seen[e.Name] = e
	}
	if len(seen) != len(odd) {
		b.Errorf("a walk shows %d names of %d", len(seen), len(odd))
	}
	for _, name := range odd {
		name = "d/" + name
		e, ok := seen[name]
		if !ok {
			b.Errorf("a walk does not show %q", name)
			continue
		}
		b.holds(name, "content of "+name[2:])
		b.ok(b.place.Remove(b.Context(), e, owner), "remove %q", name)
	}
}

// longSegment has one byte more than a directory of Linux keeps.
func longSegment(b *bed) {
	name := strings.Repeat("n", 256)
	data := []byte("long")
	for way, err := range map[string]error{
		"mkdir": b.place.Mkdir(b.Context(), dirEntry("d"+name[1:])), "publish": TryPut(b.Context(), b.place, b.file(name, data), data),
	} {
		if err != nil {
			b.is(err, mover.ErrUnsupported, "%s", way)
		}
	}
}

// deepNames makes directories until the path has some 6,000 bytes, which is
// longer than a system call takes, or until the place refuses.
func deepNames(b *bed) {
	name := ""
	for i := range 60 {
		name = mover.Join(name, fmt.Sprintf("%02d-%s", i, strings.Repeat("x", 97)))
		if err := b.place.Mkdir(b.Context(), dirEntry(name)); err != nil {
			if !errors.Is(err, mover.ErrUnsupported) || !strings.Contains(err.Error(), name[:50]) {
				b.Errorf("a path of %d bytes is refused with %v", len(name), err)
			}
			return
		}
	}
	b.put(name+"/f", "deep")
	b.holds(name+"/f", "deep")
	all := b.walk(mover.WalkOptions{})
	if len(all) != 61 {
		b.Errorf("a walk shows %d entries of 61", len(all))
	}
	for i := len(all) - 1; i >= 0; i-- {
		b.ok(b.place.Remove(b.Context(), all[i], owner), "remove at depth %d", i)
	}
}
