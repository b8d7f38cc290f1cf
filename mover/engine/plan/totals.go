package plan

import "datamove.dev/mover"

// Totals is the sum of a plan, or of a part of one. The zero value is empty.
type Totals struct {
	Files, Bytes int64 // contents to move: files to create or replace, and their bytes
	Dirs         int64 // directories to create
	Others       int64 // symbolic links and special files to create or replace
	Links        int64 // hard links to make
	Updates      int64 // entries that need new facts
	Keeps        int64 // entries that are as they should be, as far as they were yielded
	Conflicts    int64 // what can not be done
	LinksLost    int64 // hard links that become files of their own (Options.MaxLinks)

	Compares, CompareBytes int64 // entries to look at first, and the bytes of their contents
	Removes, RemoveBytes   int64 // entries to remove, and the bytes of their contents
}

// Add counts one action.
func (t *Totals) Add(a *Action) {
	if a.Why == WhyManyLinks {
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
