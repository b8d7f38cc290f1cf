package plan

import (
	"fmt"
	"strings"

	"datamove.dev/mover"
)

// Totals is the sum of a plan, or of a part of one. The zero value is empty.
type Totals struct {
	Files, Bytes int64 // contents to move: files to create or replace, and their bytes
	Dirs         int64 // directories to create
	Others       int64 // symbolic links and special files to create or replace
	Links        int64 // hard links to make
	Updates      int64 // entries whose facts are to be set
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

// Plus returns the sum of both.
func (t Totals) Plus(u Totals) Totals {
	t.Files += u.Files
	t.Bytes += u.Bytes
	t.Dirs += u.Dirs
	t.Others += u.Others
	t.Links += u.Links
	t.Updates += u.Updates
	t.Keeps += u.Keeps
	t.Conflicts += u.Conflicts
	t.LinksLost += u.LinksLost
	t.Compares += u.Compares
	t.CompareBytes += u.CompareBytes
	t.Removes += u.Removes
	t.RemoveBytes += u.RemoveBytes
	return t
}

// Changes returns how many entries a run of the plan would touch, those included
// that have to be looked at first.
func (t Totals) Changes() int64 {
	return t.Files + t.Dirs + t.Others + t.Links + t.Updates + t.Compares + t.Removes
}

// String says it in one line: "3 files to move (1.2 MiB), 1 directory to make".
func (t Totals) String() string {
	var parts []string
	say := func(n int64, one, many, detail string) {
		if n == 1 {
			parts = append(parts, "1 "+one+detail)
		} else if n > 1 {
			parts = append(parts, fmt.Sprintf("%d %s%s", n, many, detail))
		}
	}
	say(t.Files, "file to move", "files to move", " ("+sizeText(t.Bytes)+")")
	say(t.Dirs, "directory to make", "directories to make", "")
	say(t.Others, "link or special file to make", "links and special files to make", "")
	say(t.Links, "hard link to make", "hard links to make", "")
	say(t.Updates, "entry to update", "entries to update", "")
	say(t.Compares, "entry to compare", "entries to compare", " ("+sizeText(t.CompareBytes)+")")
	say(t.Removes, "entry to remove", "entries to remove", " ("+sizeText(t.RemoveBytes)+")")
	say(t.Conflicts, "conflict", "conflicts", "")
	say(t.LinksLost, "hard link not kept", "hard links not kept", "")
	if parts == nil {
		return "nothing to do"
	}
	return strings.Join(parts, ", ")
}

// sizeText prints bytes with binary units and three significant digits.
func sizeText(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/1024, 0
	for v >= 999.5 && unit < len(units)-1 {
		v /= 1024
		unit++
	}
	digits := 2
	if v >= 99.95 {
		digits = 0
	} else if v >= 9.995 {
		digits = 1
	}
	return fmt.Sprintf("%.*f %ciB", digits, v, units[unit])
}
