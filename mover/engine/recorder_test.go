package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/transfer"
	"datamove.dev/test/must"
)

// TestRecorder: whatever the order of the results, the last one of each entry comes
// out once, in the order of walks.
//
//safety:8 what a manifest is written from lies on disk, in any order
func TestRecorder(t *testing.T) {
	r := must.Get(newRecorder(t.TempDir(), true))(t)
	defer r.Close()
	const entries = 3*runRecords + 17
	last := map[string]int64{}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range int64(2 * entries) {
		name := fmt.Sprintf("d%02d/f%05d", random.IntN(10), random.IntN(entries))
		last[name] = i
		r.add(&transfer.Result{Seq: 1, Op: plan.Create, Entry: mover.Entry{Name: name, Kind: mover.File, Size: i}})
	}
	for range 2 { // a manifest that could not be put is written again
		found, before := 0, ""
		for f, err := range r.all() {
			must.Do(t, err)
			if f.Entry.Name <= before {
				t.Fatalf("%q comes behind %q", f.Entry.Name, before)
			}
			if f.Entry.Size != last[f.Entry.Name] {
				t.Fatalf("%q has result %d, want %d", f.Entry.Name, f.Entry.Size, last[f.Entry.Name])
			}
			before = f.Entry.Name
			found++
		}
		if found != len(last) {
			t.Errorf("%d entries come out of %d", found, len(last))
		}
	}
}

// TestRecorderTwins: where a directory takes the place of a file, the record of the
// file ends; a place that has both keeps both.
func TestRecorderTwins(t *testing.T) {
	for _, twins := range []bool{false, true} {
		r := must.Get(newRecorder(t.TempDir(), twins))(t)
		defer r.Close()
		file, dir := mover.Entry{Name: "a", Kind: mover.File}, mover.Entry{Name: "a", Kind: mover.Dir}
		between := mover.Entry{Name: "a.txt", Kind: mover.File}
		for _, e := range []mover.Entry{dir, between} {
			r.add(&transfer.Result{Seq: 1, Op: plan.Create, Entry: e})
		}
		var left []mover.Entry
		old := func(yield func(mover.Entry, error) bool) { yield(file, nil) }
		for e, err := range merged(r.all(), old) {
			must.Do(t, err)
			left = append(left, e)
		}
		want := []mover.Entry{between, dir}
		if twins {
			want = []mover.Entry{file, between, dir}
		}
		if fmt.Sprint(left) != fmt.Sprint(want) {
			t.Errorf("twins %v: left %v, want %v", twins, left, want)
		}
	}
}
