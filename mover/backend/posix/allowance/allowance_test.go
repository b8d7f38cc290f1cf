package allowance

import (
	"testing"

	"datamove.dev/mover"
)

// TestAbove: what stays free is no room, and a quota with less counts.
func TestAbove(t *testing.T) {
	for _, row := range []struct {
		what        string
		total, free int64
		keep        int
		quota, want int64
	}{
		{"no quota", 1000, 300, 10, -1, 200},
		{"a quota with less", 1000, 300, 10, 150, 150},
		{"a quota with more", 1000, 300, 10, 250, 200},
		{"others have taken it", 1000, 50, 10, -1, 0},
	} {
		if got := above(uint64(row.total), uint64(row.free), row.keep, mover.Room{Bytes: row.quota, Files: -1}); got.Bytes != row.want || got.Files != -1 {
			t.Errorf("%s: %+v, want %d", row.what, got, row.want)
		}
	}
}
