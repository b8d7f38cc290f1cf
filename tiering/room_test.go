package tiering_test

import (
	"testing"

	"datamove.dev/tiering"
)

// TestFit: nothing comes for which there is no room beside what stays free and what is on its way.
func TestFit(t *testing.T) {
	disk := tiering.Room{TotalBytes: 4000, FreeBytes: 3000, KeepPercent: 10}
	with := func(change func(*tiering.Room)) tiering.Room {
		r := disk
		change(&r)
		return r
	}
	for _, row := range []struct {
		what             string
		room             tiering.Room
		bytes, evictable int64
		want             tiering.Fit
	}{
		{"there is room", disk, 2600, 0, tiering.Fits},
		{"what stays free is not for it", disk, 2601, 0, tiering.Full},
		{"others go", disk, 2601, 1, tiering.Evicts},
		{"larger than all that may be written", disk, 3601, 9999, tiering.TooLarge},
		{"on its way is more", with(func(r *tiering.Room) { r.ComingBytes = 2000 }), 601, 0, tiering.Full},
		{"beside what is on its way", with(func(r *tiering.Room) { r.ComingBytes = 2000 }), 600, 0, tiering.Fits},
		{"what goes makes room", with(func(r *tiering.Room) { r.LeavingBytes = 500 }), 3000, 0, tiering.Waits},
		{"what goes is not enough", with(func(r *tiering.Room) { r.LeavingBytes = 500 }), 3200, 100, tiering.Evicts},
		{"how much there is, is not told yet", with(func(r *tiering.Room) { r.Stale = true }), 2600, 0, tiering.Waits},
		{"or is not of interest", with(func(r *tiering.Room) { r.Stale = true }), 1300, 0, tiering.Fits},
		{"less is free than has to stay", with(func(r *tiering.Room) { r.FreeBytes = 100 }), 1, 0, tiering.Full},
	} {
		if got := row.room.Fit(row.bytes, row.evictable); got != row.want {
			t.Errorf("%s: %s, want %s", row.what, got, row.want)
		}
	}
}
