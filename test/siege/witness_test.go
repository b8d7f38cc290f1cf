package siege

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/test/crash/rig"
)

// mark is what tells a file from one that has been published in its place.
type mark struct {
	inode uint64
	size  int64
	ctime unix.Timespec // a write, a change of facts, and a rename move it
}

// marks are those of the files below a directory, temporary names left out.
func marks(t *testing.T, dir string) map[string]mark {
	t.Helper()
	all := map[string]mark{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) { // removed meanwhile, or not yet there
			return nil
		}
		name, rerr := filepath.Rel(dir, path)
		if err != nil || rerr != nil || d.IsDir() || rig.Temporary(name) {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err == nil {
			all[name] = mark{st.Ino, st.Size, st.Ctim}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return all
}

// witness looks at a target all the time. A file that it has seen stays that file.
type witness struct {
	t      *testing.T
	target string
	sizes  map[string]int64 // that files must have from the first moment
	end    chan struct{}
	ended  sync.WaitGroup
	seen   map[string]mark // of the goroutine, until it has ended
}

// watch begins to look at a target that will be equal to source.
func watch(t *testing.T, source, target string) *witness {
	t.Helper()
	w := &witness{t: t, target: target, sizes: map[string]int64{}, end: make(chan struct{}), seen: map[string]mark{}}
	for name, m := range marks(t, source) {
		w.sizes[name] = m.size
	}
	w.ended.Go(func() {
		for {
			w.look()
			select {
			case <-w.end:
				return
			case <-time.After(100 * time.Millisecond): // it must leave the CPU to what it watches
			}
		}
	})
	t.Cleanup(w.stop)
	return w
}

func (w *witness) stop() {
	if w.end != nil {
		close(w.end)
		w.ended.Wait()
		w.end = nil
	}
}

func (w *witness) look() {
	for name, now := range marks(w.t, w.target) {
		was, known := w.seen[name]
		switch {
		case known && was != now:
			w.t.Errorf("%s was published twice: %+v, and then %+v", name, was, now)
		case now.size != w.sizes[name]:
			w.t.Errorf("%s has %d of %d bytes", name, now.size, w.sizes[name])
		}
		w.seen[name] = now
	}
}

// finish looks once more.
func (w *witness) finish() {
	w.t.Helper()
	w.stop()
	w.look()
}
