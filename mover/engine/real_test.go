package engine

import (
	"os"
	"path/filepath"
	"testing"

	"datamove.dev/test/must"
)

// TestRealPaths: links are followed as far as a path exists.
func TestRealPaths(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must.Do(t, err)
	must.Do(t, os.MkdirAll(dir+"/b/sub", 0o755))
	for link, to := range map[string]string{"lnk": "b", "soft": dir + "/lnk/sub", "b/up": "..", "loop": "loop", "nowhere": "gone/x"} {
		must.Do(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	top := RealPaths([]Named{{Path: dir}})[0]
	for _, c := range []struct {
		path   string
		itself bool
		want   string
	}{
		{"b", false, "b"}, {"lnk", false, "b"}, {"lnk", true, "lnk"}, {"lnk/", false, "b"}, {"lnk/new/er", false, "b/new/er"},
		{"soft/x", false, "b/sub/x"}, {"soft/x", true, "b/sub/x"}, {"lnk/up/lnk", true, "lnk"}, {"b/up/new", false, "new"},
		{"loop/x", false, "loop/x"}, {"nowhere", false, "nowhere"},
	} {
		if got, want := RealPaths([]Named{{dir + "/" + c.path, c.itself}})[0], filepath.Join(top, c.want); got != want {
			t.Errorf("%s (itself: %v) is %s, want %s", c.path, c.itself, got, want)
		}
	}
}
