package posix

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// TestBeneath: a root that has to lie below a directory is opened where its path says
// that it is, and nowhere else.
//
//safety:6 with test/cluster TestPurgeStaysInItsTier
func TestBeneath(t *testing.T) {
	dir := memoryDir(t)
	base, outside := filepath.Join(dir, "base"), filepath.Join(dir, "outside")
	for _, d := range []string{base + "/a/b", outside + "/keep", base + "x"} {
		must.Do(t, os.MkdirAll(d, 0o755))
	}
	must.Do(t, os.Symlink(outside, base+"/a/out"))
	must.Do(t, os.Symlink("b", base+"/a/near"))
	must.Do(t, os.WriteFile(base+"/a/file", nil, 0o644))
	must.Do(t, os.Symlink(base, dir+"/alias"))
	for path, want := range map[string]error{
		base: nil, base + "/a": nil, base + "/a/b": nil, base + "/a/gone": mover.ErrNotExist,
		base + "/a/out": mover.ErrConflict, base + "/a/out/keep": mover.ErrConflict, base + "/a/near": mover.ErrConflict, base + "/a/file": mover.ErrConflict,
		outside: mover.ErrRefused, dir: mover.ErrRefused, base + "x": mover.ErrRefused, base + "/../outside": mover.ErrRefused,
	} {
		p, err := Open(path, Options{Beneath: base})
		if want == nil && err != nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
		if err == nil {
			must.Do(t, p.Close())
		}
	}
	p, err := Open(dir+"/alias/a", Options{Beneath: dir + "/alias"}) // the base itself is believed
	must.Do(t, err)
	must.Do(t, p.Close())
	if _, err := Open(base+"/a/out/new", Options{Beneath: base, Create: true}); !errors.Is(err, mover.ErrConflict) {
		t.Errorf("made behind a link: %v", err)
	}
	p, err = Open(base+"/new/one", Options{Beneath: base, Create: true})
	must.Do(t, err)
	must.Do(t, p.Close())
	for _, c := range []struct {
		path string
		want error
	}{{"/new", mover.ErrConflict}, {"/a/out/keep", mover.ErrConflict}, {"/a/file", mover.ErrConflict}, {"/a/near", mover.ErrConflict}, {"/new/one", nil}, {"/new", nil}, {"/new", mover.ErrNotExist}} {
		if err := RemoveEmpty(base+c.path, base); c.want == nil && err != nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("remove %s: %v, want %v", c.path, err, c.want)
		}
	}
	if _, err := os.Stat(outside + "/keep"); err != nil {
		t.Error(err)
	}
}
