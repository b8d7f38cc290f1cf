package posix

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// TestInside: links on the way to a root are followed below the directories that it has to
// stay in, and nowhere else.
//
//safety:6 with mover/coordinator TestOutsideRoots
func TestInside(t *testing.T) {
	dir := memoryDir(t)
	base, outside := filepath.Join(dir, "base"), filepath.Join(dir, "outside")
	for _, d := range []string{base + "/a/b", outside + "/keep", base + "x", dir + "/second/s"} {
		must.Do(t, os.MkdirAll(d, 0o755))
	}
	for link, to := range map[string]string{"out": outside, "near": "b", "up": "../a/b", "far": "../../outside", "second": "../../second", "gone": "nothing"} {
		must.Do(t, os.Symlink(to, filepath.Join(base, "a", link)))
	}
	roots := []string{base, dir + "/second"}
	for path, want := range map[string]error{
		base: nil, base + "/": nil, base + "/a/b": nil, base + "/a/near": nil, base + "/a/up": nil, dir + "/second/s": nil, base + "/a/lost": mover.ErrNotExist,
		base + "/a/out": mover.ErrPermission, base + "/a/out/keep": mover.ErrPermission, base + "/a/far": mover.ErrPermission, base + "/a/second/s": mover.ErrPermission,
		outside: mover.ErrPermission, dir: mover.ErrPermission, base + "x": mover.ErrPermission, base + "/../outside": mover.ErrPermission,
	} {
		p, err := Open(path, Options{Inside: roots})
		if want == nil && err != nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
		if err == nil {
			must.Do(t, p.Close())
		}
	}
	for path, may := range map[string]bool{
		"/new/one": true, "/a/near/new": true, "/a/out/new": false, "/a/far/new/one": false, "/a/gone/new": false, "/a/gone": false,
	} {
		p, err := Open(base+path, Options{Inside: roots, Create: true})
		if may != (err == nil) {
			t.Errorf("making %s: %v", path, err)
		}
		if err == nil {
			must.Do(t, p.Close())
		}
	}
	if p, err := Open(base+"/a", Options{Inside: roots, Backup: base + "/a/out/backup"}); !errors.Is(err, mover.ErrPermission) {
		t.Errorf("a backup outside: %v, %v", p, err)
	}
	entries := must.Get(os.ReadDir(outside))(t)
	if len(entries) != 1 {
		t.Errorf("made outside: %v", entries)
	}
}

// TestInsideRace: a link that is exchanged all the time leads out at no time.
//
//safety:6 with mover/coordinator TestOutsideRoots
func TestInsideRace(t *testing.T) {
	dir := memoryDir(t)
	must.Do(t, os.MkdirAll(dir+"/base/a/here", 0o755))
	must.Do(t, os.MkdirAll(dir+"/outside", 0o755))
	must.Do(t, os.Symlink(dir+"/outside", dir+"/base/link"))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, dir+"/base/a", unix.AT_FDCWD, dir+"/base/link", unix.RENAME_EXCHANGE)
			}
		}
	}()
	for range 2000 {
		p, err := Open(dir+"/base/a/new", Options{Inside: []string{dir + "/base"}, Create: true})
		if err == nil {
			must.Do(t, p.Close())
		}
	}
	close(stop)
	<-stopped
	entries := must.Get(os.ReadDir(dir + "/outside"))(t)
	if len(entries) > 0 {
		t.Errorf("made outside: %v", entries)
	}
}
