package plan

import (
	"strings"

	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

// Totals is the sum of a plan, or of a part of one. The zero value is empty.
type Totals struct {
	Files, Bytes int64 // contents to move: files to create or replace, and their bytes
	Dirs         int64 // directories to create
	Others       int64 // symbolic links and special files to create or replace
	Links        int64 // hard links to make
	Updates      int64 // entries that need new facts
	Keeps        int64 // entries that are as they should be, as far as they were yielded
	Conflicts    int64 // what can not be done
	LinksLost    int64 // hard links that are files of their own (Options.MaxLinks, Action.Lost)

	Compares, CompareBytes int64 // entries to look at first, and the bytes of their contents
	Removes, RemoveBytes   int64 // entries to remove, and the bytes of their contents
}

// Add counts one action.
func (t *Totals) Add(a *Action) {
	if a.Why == WhyManyLinks || a.Lost {
		t.LinksLost++
	}
	switch a.Op {
	case Create, Replace:
		t.addMade(&a.Source)
	case Link:
		t.Links++
	case Update:
		t.Updates++
	case Keep:
		t.Keeps++
	case Compare:
		t.Compares++
		t.CompareBytes += a.Source.Size
	case Remove:
		t.Removes++
		t.RemoveBytes += a.Target.Size
	case Conflict:
		t.Conflicts++
	}
}

func (t *Totals) addMade(e *mover.Entry) {
	switch e.Kind {
	case mover.File:
		t.Files++
		t.Bytes += e.Size
	case mover.Dir:
		t.Dirs++
	default:
		t.Others++
	}
}

// Changes returns how many entries a run of the plan would touch, those included
// that have to be looked at first.
func (t Totals) Changes() int64 {
	return t.Files + t.Dirs + t.Others + t.Links + t.Updates + t.Compares + t.Removes
}

// String sums a plan up: "3 files to move (1.20 MiB), 1 directory to make".
func (t Totals) String() string {
	var parts []string
	for _, part := range []struct {
		n         int64
		one, many string
		detail    string
	}{
		{t.Files, "file to move", "files to move", " (" + units.Bytes(t.Bytes) + ")"},
		{t.Dirs, "directory to make", "directories to make", ""},
		{t.Others, "link or special file to make", "links and special files to make", ""},
		{t.Links, "hard link to make", "hard links to make", ""},
		{t.Updates, "entry to update", "entries to update", ""},
		{t.Compares, "entry to compare", "entries to compare", " (" + units.Bytes(t.CompareBytes) + ")"},
		{t.Removes, "entry to remove", "entries to remove", " (" + units.Bytes(t.RemoveBytes) + ")"},
		{t.Conflicts, "conflict", "conflicts", ""},
		{t.LinksLost, "hard link not kept", "hard links not kept", ""},
	} {
		if part.n > 0 {
			parts = append(parts, units.Plural(part.n, part.one, part.many)+part.detail)
		}
	}
	if parts == nil {
		return "nothing to do"
	}
	return strings.Join(parts, ", ")
}
