package backendtest

import (
	"slices"

	"datamove.dev/mover"
)

var directoryTests = []test{
	{"Mkdir makes what is missing, and leaves what is there", func(b *bed) {
		b.mkdir("d", "d/e", "d", "d/e")
		b.put("d/e/f", "x")
		b.mkdir("d")
		want := []string{"d/", "d/e/", "d/e/f"}
		if got := b.names(mover.WalkOptions{}); !slices.Equal(got, want) {
			b.Errorf("walk yields %q, want %q", got, want)
		}
	}},
	{"an empty directory is an entry", func(b *bed) {
		b.mkdir("d")
		if got := b.names(mover.WalkOptions{}); !slices.Equal(got, []string{"d/"}) {
			b.Errorf("walk yields %q", got)
		}
		if e := b.stat("d"); e.Kind != mover.Dir {
			b.Errorf("stat tells a %v", e.Kind)
		}
	}},
	{"a new directory is usable for us, whatever its mode will be", func(b *bed) {
		e := dirEntry("d")
		e.Mode = 0
		b.ok(b.place.Mkdir(b.Context(), e), "mkdir")
		b.put("d/f", "x")
		b.holds("d/f", "x")
	}},
	{"Mkdir at many places at once is no conflict", func(b *bed) {
		other := b.open()
		errs := make(chan error)
		for _, p := range []mover.Backend{b.place, other, b.place, other} {
			go func() { errs <- p.Mkdir(b.Context(), dirEntry("d")) }()
		}
		for range 4 {
			b.ok(<-errs, "mkdir")
		}
	}},
	{"Mkdir does not harm a file of that name", func(b *bed) {
		b.put("f", "kept")
		if err := b.place.Mkdir(b.Context(), dirEntry("f")); err != nil {
			b.is(err, mover.ErrConflict, "mkdir over a file")
		}
		b.holds("f", "kept")
	}},
	{"Update gives a directory its final facts", func(b *bed) {
		b.mkdir("d")
		b.put("d/f", "x")
		e := dirEntry("d")
		e.Mode, e.Mtime = 0o711, mover.Time{Sec: 987_654_321, Nsec: 5}
		e.Known |= mover.FactMtime
		b.ok(b.place.Update(b.Context(), e), "update")
		b.ok(b.place.Sync(b.Context()), "sync")
		b.sameFacts(b.stat("d"), e)
		b.holds("d/f", "x")
	}},
	{"a directory draft appears with all it contains", dirDraft},
	{"a directory draft merges into an existing directory", dirDraftMerge},
	{"a dropped directory draft leaves nothing", func(b *bed) {
		b.need(b.traits.DirDrafts, "directory drafts")
		n := b.nest("new")
		for _, d := range slices.Backward(n.drafts) {
			b.ok(d.Close(), "close")
		}
		b.absent("new")
		if left := b.strays(b.place); len(left) != 0 {
			b.Errorf("strays %+v", left)
		}
	}},
	{"an abandoned directory draft is a stray that can be dropped", func(b *bed) {
		b.need(b.traits.DirDrafts, "directory drafts")
		b.nest("new")
		other := b.open()
		for _, s := range b.strays(other) {
			if s.Owner != owner {
				b.Errorf("stray %+v has another owner", s)
			}
			b.ok(other.Drop(b.Context(), s.Token), "drop")
		}
		if left := b.strays(other); len(left) != 0 {
			b.Errorf("strays after Drop: %+v", left)
		}
		b.absent("new")
	}},
}

// nest is a directory draft with a directory and files in it, finished.
type nest struct {
	drafts  []mover.Draft // the directories before what is in them
	entries []mover.Entry
	names   []string // of the walk
}

func (b *bed) nest(root string) *nest {
	b.Helper()
	n := &nest{names: []string{root + "/", root + "/f", root + "/sub/", root + "/sub/g"}}
	top := b.nestling(n, dirEntry(root), nil)
	b.nestling(n, b.file(root+"/f", []byte("f")), top)
	sub := b.nestling(n, dirEntry(root+"/sub"), top)
	b.nestling(n, b.file(root+"/sub/g", []byte("g")), sub)
	for i, d := range slices.Backward(n.drafts) { // contents before their directory
		e := n.entries[i]
		var receipts []mover.Receipt
		if e.Kind == mover.File {
			_, base := mover.Parent(e.Name)
			receipts = b.writeAll(d, []byte(base))
		}
		b.ok(d.Finish(b.Context(), e, receipts), "finish %q", e.Name)
	}
	return n
}

func (b *bed) nestling(n *nest, e mover.Entry, in mover.Draft) mover.Draft {
	b.Helper()
	if e.Kind == mover.Dir {
		e.Mode, e.Mtime, e.Known = 0o755, mover.Time{Sec: 1_111_111_111, Nsec: 7}, mover.FactMode|mover.FactMtime
	}
	d, err := b.place.Draft(b.Context(), e, mover.Hints{By: owner, In: in})
	b.ok(err, "draft %q in a directory draft", e.Name)
	b.Cleanup(func() { _ = d.Close() })
	n.drafts, n.entries = append(n.drafts, d), append(n.entries, e)
	return d
}

func (b *bed) hatch(n *nest) {
	b.Helper()
	for i, out := range b.place.Publish(b.Context(), n.drafts) {
		b.ok(out.Err, "publish %q", n.entries[i].Name)
	}
}

func dirDraft(b *bed) {
	b.need(b.traits.DirDrafts, "directory drafts")
	n := b.nest("new")
	b.absent("new")
	b.hatch(n)
	if got := b.names(mover.WalkOptions{}); !slices.Equal(got, n.names) {
		b.Errorf("walk yields %q, want %q", got, n.names)
	}
	b.holds("new/f", "f")
	b.holds("new/sub/g", "g")
	for _, e := range n.entries {
		b.sameFacts(b.stat(e.Name), e)
	}
}

func dirDraftMerge(b *bed) {
	b.need(b.traits.DirDrafts, "directory drafts")
	n := b.nest("new")
	b.mkdir("new", "new/sub")
	b.put("new/f", "older")
	b.put("new/old", "kept")
	b.put("new/sub/old", "kept too")
	b.hatch(n)
	want := []string{"new/", "new/f", "new/old", "new/sub/", "new/sub/g", "new/sub/old"}
	if got := b.names(mover.WalkOptions{}); !slices.Equal(got, want) {
		b.Errorf("walk yields %q, want %q", got, want)
	}
	for name, content := range map[string]string{"new/f": "f", "new/old": "kept", "new/sub/g": "g", "new/sub/old": "kept too"} {
		b.holds(name, content)
	}
	if left := b.strays(b.place); len(left) != 0 {
		b.Errorf("strays %+v", left)
	}
}
