package agent

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestSights: a tier is seen when it is there, and one that hangs keeps nobody.
func TestSights(t *testing.T) {
	dir := t.TempDir()
	var s sights
	eventually := func(what, path string, there bool) {
		t.Helper()
		for begun := time.Now(); s.at("x", path).there != there; time.Sleep(10 * time.Millisecond) {
			if time.Since(begun) > time.Minute {
				t.Fatalf("%s: it is seen otherwise", what)
			}
		}
	}
	path := filepath.Join(dir, "tier")
	eventually("not there", path, false)
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	eventually("mounted", path, true)
	if got := s.at("x", path); got.total == 0 || got.free > got.total {
		t.Errorf("it has %+v", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	eventually("gone", path, false)

	hung := &looking{last: sight{there: true, total: 7}, at: time.Now(), done: make(chan struct{})} // a look that does not end
	s.seen["y\x00/hung"] = hung
	if got := s.at("y", "/hung"); got.total != 7 {
		t.Errorf("at first what was seen counts: %+v", got)
	}
	hung.at = time.Now().Add(-2 * sightLasts)
	if s.at("y", "/hung").there {
		t.Error("it hangs, and is said to be there")
	}
}
