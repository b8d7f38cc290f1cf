package compare

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// extent is what a load generator writes, or reads, at a time; and what files beside them are a multiple of.
const extent = 4 << 20

// streams is how many files a load generator works on at once.
func streams() int { return max(8, runtime.NumCPU()) }

func streamFiles(h *house) dataset {
	each := h.size(4<<30) / int64(streams()) / extent * extent
	return dataset{files: streams(), dirs: 1, bytes: max(extent, each)}
}

// pastCache stages copies on a disk of what is not in the page cache, beside load generators that do not use it.
func pastCache(_ context.Context, h *house) (*workload, error) {
	w, err := stageCopy(h.disk, h.disk, streamFiles(h))
	if err != nil {
		return nil, err
	}
	warm := w.job
	w.job = func(run string) job {
		j := warm(run)
		j.cold = true
		return j
	}
	w.check = func(j job) error { return w.data.checkBytes(j.folder) }
	return w, nil
}

func smallBlocks(h *house) dataset {
	each := h.size(1<<30) / int64(streams()) / extent * extent
	return dataset{files: streams(), dirs: 1, bytes: max(extent, each), at: 4 << 10}
}

// generating stages nothing: load generators make what they read.
func generating(data func(*house) dataset) func(context.Context, *house) (*workload, error) {
	return func(_ context.Context, h *house) (*workload, error) {
		place, err := os.MkdirTemp(h.disk, "load-")
		if err != nil {
			return nil, err
		}
		w := &workload{place: place, data: data(h), disk: true, close: func() error { return os.RemoveAll(place) }}
		w.job = func(run string) job {
			target := filepath.Join(place, run)
			return job{target: target, folder: target, data: w.data, scratch: place}
		}
		w.check = func(j job) error { return w.data.checkBytes(j.folder) }
		return w, nil
	}
}

// evict takes what is in a folder out of the page cache: what a reader finds there is not read from the storage.
func evict(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		f, err := root.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		fd := int(f.Fd())
		if err := unix.Fdatasync(fd); err != nil { // what is dirty stays
			return &fs.PathError{Op: "fdatasync", Path: filepath.Join(dir, name), Err: err}
		}
		return unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED)
	})
}
