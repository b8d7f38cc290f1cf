package transfer

import (
	"context"
	"errors"
	"slices"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/journal"
	"datamove.dev/test/must"
)

// syncing is a draft that counts how often it was synced, and may fail at that.
type syncing struct {
	mover.Draft
	times int
	err   error
	while func() // it is synced
}

func (s *syncing) Sync(context.Context) error {
	s.times++
	s.while()
	return s.err
}

// TestPartsCountWhenSynced: parts of a large file outlast a power cut in the journal when their draft was synced after they were
// written: not those that others write meanwhile, and none when the sync fails.
func TestPartsCountWhenSynced(t *testing.T) {
	broken := errors.New("input/output error")
	for _, row := range []struct {
		name   string
		due    bool
		err    error
		unsure []int // parts that a power cut may take
	}{
		{"synced", true, nil, []int{1}},
		{"not yet", false, nil, []int{0, 1}},
		{"a sync that failed", true, broken, []int{0, 1}},
	} {
		dir := t.TempDir()
		j, err := journal.Open(dir, journal.Options{})
		must.Do(t, err)
		rec := journal.Record{Name: "big", Token: "draft", Source: mover.Identity{Size: 8}, PartBytes: 4}
		id, err := j.Begin(t.Context(), rec)
		must.Do(t, err)
		part := func(i int) mover.Receipt { return mover.Receipt{Part: cut(8, 4, i)} }
		other := func() error { return j.Part(t.Context(), id, part(1)) }
		d := &syncing{err: row.err, while: func() { err = other() }}
		l := &large{id: id, entry: mover.Entry{Name: "big", Kind: mover.File, Size: 8}, draft: d}
		l.cut(4)
		if row.due {
			l.unsynced = durableBytes
		}
		r := &run{o: Options{Journal: j}}
		if err := r.moved(t.Context(), l, part(0)); !errors.Is(err, row.err) {
			t.Errorf("%s: %v", row.name, err)
		}
		if want := map[bool]int{true: 1}[row.due]; d.times != want {
			t.Errorf("%s: %d syncs, want %d", row.name, d.times, want)
		}
		if !row.due {
			err = other()
		}
		must.Do(t, err)
		must.Do(t, j.Close())
		if j, err = journal.Open(dir, journal.Options{}); err != nil {
			t.Fatal(err)
		}
		if got, _, ok := j.Lookup("big"); !ok || len(got.Receipts) != 2 || !slices.Equal(got.Unsure, row.unsure) {
			t.Errorf("%s: unsure are %v of %d parts, want %v", row.name, got.Unsure, len(got.Receipts), row.unsure)
		}
		must.Do(t, j.Close())
	}
}
