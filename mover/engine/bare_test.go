package engine

import (
	"strings"
	"testing"

	"datamove.dev/mover"
)

// TestBare: what a target does not keep of an object is counted, of the object of a directory too.
func TestBare(t *testing.T) {
	tagged := []mover.Attribute{{Name: mover.AttributeTags, Value: "a=1"}}
	for _, row := range []struct {
		what   string
		e      mover.Entry
		target mover.Capabilities
		says   string
	}{
		{"a file", mover.Entry{Name: "f", Kind: mover.File, Object: tagged}, mover.Capabilities{}, "(tags): 1"},
		{"a file whose name gives another type", mover.Entry{Name: "f.json", Kind: mover.File}, mover.Capabilities{}, "(headers): 1"},
		{"a file with a mode and an owner", mover.Entry{Name: "f", Kind: mover.File, Known: rights}, mover.Capabilities{Keeps: mover.FactsOfObject}, "(modes, owners, groups): 1"},
		{"one at a target with modes, to which only root can give owners", mover.Entry{Name: "f", Kind: mover.File, Known: rights}, mover.Capabilities{Keeps: mover.FactsOfObject | mover.FactMode}, ""},
		{"one at a target with a manifest", mover.Entry{Name: "f", Kind: mover.File, Known: rights}, mover.Capabilities{Keeps: mover.FactsOfObject, NeedsManifest: true}, ""},
		{"a file at a target that keeps all", mover.Entry{Name: "f.json", Kind: mover.File, Object: tagged}, mover.Capabilities{Keeps: mover.FactsOfObject}, ""},
		{"a directory where it is an object", mover.Entry{Name: "d", Kind: mover.Dir, Object: tagged}, mover.Capabilities{Keeps: mover.FactsOfObject}, ""},
		{"a directory where it is none", mover.Entry{Name: "d", Kind: mover.Dir, Object: tagged}, mover.Capabilities{Keeps: mover.FactsOfObject, DirsByContent: true}, "(tags): 1"},
	} {
		var b bare
		row.e.Known |= mover.FactsOfObject
		b.add(&row.e, &row.target)
		if got := strings.Join(b.notes(), " "); row.says == "" && got != "" || !strings.Contains(got, row.says) {
			t.Errorf("%s: the report says %q, want %q", row.what, got, row.says)
		}
	}
}
