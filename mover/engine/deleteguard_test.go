package engine

import (
	"errors"
	"strings"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/engine/journal"
	"datamove.dev/mover/remedy"
	"datamove.dev/test/must"
)

//safety:4 an empty source, another file system under its path
//safety:5 `--max-delete` in entries and in percent
func TestAllow(t *testing.T) {
	const here, there = "device 7 inode 64", "device 8 inode 2"
	for _, row := range []struct {
		name            string
		source, present int64 // entries
		was, is         string
		limit           MaxDelete
		remove          int64
		says            string // "" allows
	}{
		{"no limit", 1, 100, "", here, MaxDelete{}, 99, ""},
		{"within it", 50, 100, here, here, MaxDelete{Set: true, Entries: 10}, 10, ""},
		{"over it", 50, 100, here, here, MaxDelete{Set: true, Entries: 10}, 11, "11 of 100"},
		{"none at all", 50, 100, here, here, MaxDelete{Set: true}, 1, "allows 0"},
		{"within percents", 50, 100, here, here, MaxDelete{Set: true, Percent: 25}, 25, ""},
		{"over percents", 50, 100, here, here, MaxDelete{Set: true, Percent: 25}, 26, "25% of 100"},
		{"another file system", 50, 100, here, there, MaxDelete{}, 1, "is it mounted"},
		{"mounted again", 50, 100, here, "device 9 inode 64", MaxDelete{}, 1, ""},
		{"made anew", 50, 100, here, "device 7 inode 99", MaxDelete{}, 1, ""},
		{"the first run", 50, 100, "", there, MaxDelete{}, 1, ""},
		{"an empty source is never a reason to remove", 0, 100, here, here, MaxDelete{}, 1, "is empty"},
	} {
		t.Run(row.name, func(t *testing.T) {
			place := mem.New(nil, mem.Options{})
			p := &pair{request: &Request{}, source: place, target: place, system: row.is, facts: journal.Facts{SourceSystem: row.was}}
			p.sourceEntries.Store(row.source)
			p.targetEntries.Store(row.present)
			err := p.allow(row.limit, row.remove)
			if row.says == "" {
				must.Tell(t, err)
				return
			}
			if !errors.Is(err, mover.ErrRefused) || !strings.Contains(err.Error(), row.says) {
				t.Errorf("got %v, want a refusal with %q", err, row.says)
			}
		})
	}
}

func TestGravest(t *testing.T) {
	order := []error{nil, mover.ErrNotExist, mover.ErrPermission, mover.ErrChanged, mover.ErrFull, &Difference{cause: remedy.Extra}, &Difference{cause: remedy.Metadata},
		&Difference{cause: remedy.Missing}, &Difference{cause: remedy.Outdated}, &Difference{}, mover.Unlike(mover.ErrCorrupt)}
	for i, a := range order {
		for j, b := range order {
			if got, want := Gravest(a, b), order[max(i, j)]; got != want {
				t.Errorf("Gravest(%v, %v) = %v, want %v", a, b, got, want)
			}
		}
	}
}
