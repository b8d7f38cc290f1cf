package changefeed

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"datamove.dev/mover"
	_ "datamove.dev/test/seed/property" // of rapid
)

// Whatever is added to a window of any size: what is taken from it covers each name, and is not more than it may hold.
func TestWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		segment := rapid.SampledFrom([]string{"a", "b", "a-", "c d", "\xff", ".datamove-x"})
		names := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
			name := strings.Join(rapid.SliceOfN(segment, 1, 5).Draw(t, "name"), "/")
			if rapid.Bool().Draw(t, "whole") {
				name += "/"
			}
			return name
		}), 1, 300).Draw(t, "names")
		w := &Window{Wait: -1, Names: rapid.IntRange(1, 400).Draw(t, "most")}
		began := time.Now()
		for _, name := range names {
			w.Add(name)
		}
		added := time.Now()
		b, err := w.Next(t.Context())
		if err != nil || b.Events != len(names) || b.Since.Before(began) || b.Since.After(added) {
			t.Fatalf("%+v, %v", b, err)
		}
		if len(b.Names) > w.Names || b.All && len(b.Names) > 0 {
			t.Fatalf("%d names, and all is %v", len(b.Names), b.All)
		}
		has := map[string]bool{}
		for _, name := range b.Names {
			has[name] = true
		}
		for _, name := range names {
			covered := b.All || has[name]
			for dir := strings.TrimSuffix(name, "/"); dir != "" && !covered; dir, _ = mover.Parent(dir) {
				covered = has[dir+"/"]
			}
			if !covered {
				t.Fatalf("%q is not in %q", name, b.Names)
			}
		}
	})
}

// Names that a walk would not show, and those that are none, are not worth a look.
func TestNames(t *testing.T) {
	w := &Window{Wait: -1}
	for _, name := range []string{"", "../x", "/x", "a//b", ".datamove-lock", "a/.datamove-lock-0123456789abcdef/x", mover.TrashName + "/x"} {
		w.Add(name)
	}
	w.Add("a/.datamove-lock-x")
	if b, err := w.Next(t.Context()); err != nil || len(b.Names) != 1 || b.All {
		t.Errorf("%+v, %v", b, err)
	}
	w.Add("a")
	w.Add("/")
	w.Add("b")
	if b, err := w.Next(t.Context()); err != nil || !b.All || len(b.Names) != 0 {
		t.Errorf("%+v, %v", b, err)
	}
}
