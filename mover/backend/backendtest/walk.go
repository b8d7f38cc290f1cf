package backendtest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"datamove.dev/mover"
)

var walkTests = []test{
	{"an empty place yields nothing", func(b *bed) {
		if got := b.names(mover.WalkOptions{}); len(got) != 0 {
			b.Errorf("walk yields %q", got)
		}
	}},
	{"entries come in the order of Compare, each once", func(b *bed) {
		want := b.orchard()
		if got := b.names(mover.WalkOptions{}); !slices.Equal(got, want) {
			b.Errorf("walk yields\n%q, want\n%q", got, want)
		}
	}},
	{"kind and size are known", func(b *bed) {
		b.mkdir("d")
		b.put("d/f", "12345")
		all := b.walk(mover.WalkOptions{})
		if len(all) != 2 || all[0].Kind != mover.Dir || all[1].Kind != mover.File || all[1].Size != 5 {
			b.Errorf("walk yields %+v", all)
		}
	}},
	{"an entry of a walk can be opened", func(b *bed) {
		b.put("f", "content")
		for _, e := range b.walk(mover.WalkOptions{}) {
			c, err := b.place.Open(b.Context(), e)
			b.ok(err, "open %q as the walk yielded it", e.Name)
			b.ok(c.Check(b.Context()), "check")
			b.ok(c.Close(), "close")
		}
	}},
	{"extended attributes that are asked for are those of Stat", func(b *bed) {
		e := b.file("f", []byte("f"))
		e.Known |= b.traits.Keeps & mover.FactXattrs
		if b.traits.Xattrs.Has("user.datamove.a") {
			e.Xattrs = []mover.Xattr{{Name: "user.datamove.a", Value: []byte("1\x00\xff")}}
		}
		Put(b.T, b.place, e, []byte("f"))
		b.put("none", "")
		b.mkdir("d")
		for _, e := range b.walk(mover.WalkOptions{Xattrs: true}) {
			if !b.traits.Store && b.keeps(mover.FactXattrs) && !e.Known.Has(mover.FactXattrs) {
				b.Errorf("those of %q are not told", e.Name)
			}
			if want := b.stat(e.Name); e.Known.Has(mover.FactXattrs) && !slices.EqualFunc(e.Xattrs, want.Xattrs, sameXattr) {
				b.Errorf("those of %q are %q, want %q", e.Name, e.Xattrs, want.Xattrs)
			}
		}
	}},
	{"Dir walks below a directory, without it", func(b *bed) {
		want := below(b.orchard(), "a")
		if got := b.names(mover.WalkOptions{Dir: "a"}); !slices.Equal(got, want) {
			b.Errorf("walk below a yields\n%q, want\n%q", got, want)
		}
	}},
	{"a missing Dir has no entries", func(b *bed) {
		b.mkdir("d")
		for e, err := range b.place.Walk(b.Context(), mover.WalkOptions{Dir: "nothing"}) {
			if err == nil || e.Name != "" {
				b.Errorf("walk yields %+v, %v", e, err)
			}
		}
	}},
	{"After goes on behind an entry", walkAfter},
	{"After is of what an entry was", walkAfterOther},
	{"After and Dir go together", func(b *bed) {
		all := below(b.orchard(), "a")
		for i, name := range all {
			if got := b.names(mover.WalkOptions{Dir: "a", After: name}); !slices.Equal(got, all[i+1:]) {
				b.Errorf("walk below a after %q yields\n%q, want\n%q", name, got, all[i+1:])
			}
		}
	}},
	{"Skip leaves out an entry and what is below", func(b *bed) {
		var want []string
		for _, name := range b.orchard() {
			if !strings.HasPrefix(name, "a/") && name != "b" {
				want = append(want, name)
			}
		}
		skip := func(name string, k mover.Kind) bool { return name == "a" && k == mover.Dir || name == "b" }
		if got := b.names(mover.WalkOptions{Skip: skip}); !slices.Equal(got, want) {
			b.Errorf("walk yields\n%q, want\n%q", got, want)
		}
	}},
	{"a walk can be left early, and begun again", func(b *bed) {
		want := b.orchard()
		for range 3 {
			for e, err := range b.place.Walk(b.Context(), mover.WalkOptions{}) {
				b.ok(err, "walk")
				if slashed(e) != want[0] {
					b.Errorf("walk begins with %q", slashed(e))
				}
				break
			}
		}
	}},
	{"a walk ends with its context", func(b *bed) {
		b.orchard()
		ctx, cancel := context.WithCancel(b.Context())
		cancel()
		var last error
		for _, err := range b.place.Walk(ctx, mover.WalkOptions{}) {
			last = err
		}
		b.is(last, context.Canceled, "last error of a walk whose context ended")
	}},
	{"drafts are not shown, but told to Stray", walkStrays},
	{"a lock is not shown", func(b *bed) {
		_, unlock, err := b.place.Lock(b.Context(), "", owner)
		b.ok(err, "lock")
		if got := b.names(mover.WalkOptions{}); len(got) != 0 {
			b.Errorf("walk yields %q", got)
		}
		b.ok(unlock(), "unlock")
	}},
}

// orchard makes entries with names that a backend easily sorts wrong, and returns their names.
func (b *bed) orchard() []string {
	names := []string{
		"A", "a-b", "a.b", "a/", "a/-", "a/b", "a/b-", "a/b.c/", "a/b.c/d", "a/c/", "a/c/d/", "a/c/d/e", "a/c0",
		"a0", "b", "b-/", "b-/x", "c/", "ä",
	}
	for _, name := range names {
		if dir, isDir := strings.CutSuffix(name, "/"); isDir {
			b.mkdir(dir)
		}
	}
	for _, name := range names {
		if !strings.HasSuffix(name, "/") {
			b.put(name, "fruit of "+name)
		}
	}
	return names
}

func below(names []string, dir string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !strings.HasPrefix(n, dir+"/") || n == dir+"/" })
}

func walkAfter(b *bed) {
	all := b.orchard()
	for i, name := range all {
		if got := b.names(mover.WalkOptions{After: name}); !slices.Equal(got, all[i+1:]) {
			b.Errorf("walk after %q yields\n%q, want\n%q", name, got, all[i+1:])
		}
	}
}

// walkAfterOther goes on behind what has become another kind since, or is gone.
func walkAfterOther(b *bed) {
	b.mkdir("d")
	for _, name := range []string{"d-", "e", "e.x"} {
		b.put(name, "content of "+name)
	}
	b.put("d/f", "content of d/f")
	for after, want := range map[string]string{
		"d":  "d- d/ d/f e e.x", // was a file
		"e/": "",                // was a directory: "e.x" comes before it
		"dz": "e e.x",           // is gone
	} {
		if got := b.names(mover.WalkOptions{After: after}); !slices.Equal(got, strings.Fields(want)) {
			b.Errorf("walk after %q yields %q, want %s", after, got, want)
		}
	}
}

func walkStrays(b *bed) {
	data := Pattern(2 * b.part)
	b.mkdir("d")
	d := b.draft("d/big", data)
	b.write(d, Parts(2*b.part, b.part)[0], data)
	token := d.Token()
	b.ok(d.Suspend(), "suspend")

	second := b.open()
	_, unlock, err := second.Lock(b.Context(), "", owner)
	b.ok(err, "lock")
	defer func() { b.ok(unlock(), "unlock") }()
	strays := b.strays(second)
	if len(strays) != 1 {
		b.Fatalf("Stray was told of %+v, want the one draft", strays)
	}
	s := strays[0]
	if s.Owner != owner && (s.Owner != mover.WriterID{} || s.Name != "d/big") {
		b.Errorf("stray %+v tells neither its owner nor its name", s)
	}
	if s.Token != token {
		b.Errorf("stray has token %q, its draft had %q", s.Token, token)
	}
	b.ok(second.Drop(b.Context(), s.Token), "drop")
	if left := b.strays(second); len(left) != 0 {
		b.Errorf("after Drop there is %+v", left)
	}
}

// strays walks for drafts and asserts that the walk shows none of them.
func (b *bed) strays(p mover.Backend) []mover.Stray {
	b.Helper()
	var mu sync.Mutex
	var found []mover.Stray
	opts := mover.WalkOptions{Stray: func(s mover.Stray) {
		mu.Lock()
		defer mu.Unlock()
		found = append(found, s)
	}}
	for e, err := range p.Walk(b.Context(), opts) {
		if err != nil && !errors.Is(err, mover.ErrNotExist) {
			b.Fatalf("walk: %v", err)
		}
		if _, base := mover.Parent(e.Name); strings.HasPrefix(base, mover.TempPrefix) {
			b.Errorf("a walk shows %q", e.Name)
		}
	}
	return found
}
