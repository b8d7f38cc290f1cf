package dataset_test

import (
	"testing"

	"datamove.dev/tiering/dataset"
)

// TestFit: nothing comes for which there is no room beside what stays free and what is on its way.
func TestFit(t *testing.T) {
	disk := dataset.Room{TotalBytes: 4000, FreeBytes: 3000, KeepPercent: 10}
	with := func(change func(*dataset.Room)) dataset.Room {
		r := disk
		change(&r)
		return r
	}
	for _, row := range []struct {
		what             string
		room             dataset.Room
		bytes, evictable int64
		want             dataset.Fit
	}{
		{"there is room", disk, 2600, 0, dataset.Fits},
		{"what stays free is not for it", disk, 2601, 0, dataset.Full},
		{"others go", disk, 2601, 1, dataset.Evicts},
		{"larger than all that may be written", disk, 3601, 9999, dataset.TooLarge},
		{"on its way is more", with(func(r *dataset.Room) { r.ComingBytes = 2000 }), 601, 0, dataset.Full},
		{"beside what is on its way", with(func(r *dataset.Room) { r.ComingBytes = 2000 }), 600, 0, dataset.Fits},
		{"what goes makes room", with(func(r *dataset.Room) { r.LeavingBytes = 500 }), 3000, 0, dataset.Waits},
		{"what goes is not enough", with(func(r *dataset.Room) { r.LeavingBytes = 500 }), 3200, 100, dataset.Evicts},
		{"how much there is, is not told yet", with(func(r *dataset.Room) { r.Stale = true }), 2600, 0, dataset.Waits},
		{"or is not of interest", with(func(r *dataset.Room) { r.Stale = true }), 1300, 0, dataset.Fits},
		{"less is free than has to stay", with(func(r *dataset.Room) { r.FreeBytes = 100 }), 1, 0, dataset.Full},
	} {
		if got := row.room.Fit(row.bytes, row.evictable); got != row.want {
			t.Errorf("%s: %s, want %s", row.what, got, row.want)
		}
	}
}
