package worker

import (
	"io/fs"
	"testing"
)

// TestItemsFailed: the end of a task of which items failed counts them, one too.
func TestItemsFailed(t *testing.T) {
	for n, want := range map[int64]string{1: "1 item failed; the gravest: permission denied", 2000: "2,000 items failed; the gravest: permission denied"} {
		if got := ItemsFailed(n, fs.ErrPermission).Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
