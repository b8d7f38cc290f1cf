package compare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Scenario is one kind of work.
type Scenario struct {
	Name  string   // as on the command line; that of a ceiling begins with "ceiling-"
	What  string   // for the report
	Tools []string // that can do it; ours first
	// stage makes the data. It is called once, and what it returns is closed.
	stage func(ctx context.Context, h *house) (*workload, error)
}

// house is where scenarios make their data: a folder on a disk and one in memory.
type house struct {
	disk, tmpfs string
	scale       float64
	datamove    string // path of the program, for what has to be there before
}

// count scales a number of files.
func (h *house) count(n int) int { return max(1, int(float64(n)*h.scale)) }

// size scales a number of bytes to whole MiB.
func (h *house) size(n int64) int64 { return max(1, int64(float64(n)*h.scale)>>20) << 20 }

// workload is a scenario's data in place, and what a run of it is.
type workload struct {
	place   string // where the runs' targets are made
	data    dataset
	job     func(run string) job // run names a target that was never used
	check   func(j job) error    // whether the target holds what was asked for
	syncDir string               // "sync -f" on this is part of a run; "" where that is not asked
	disk    bool                 // removing targets disturbs the runs that follow
	same    bool                 // every run has the same target, which is there already
	unpaid  int                  // runs of each tool before the first that counts
	close   func() error
}

// Scenarios returns all scenarios, in the order of the report.
func Scenarios() []Scenario {
	posix := []string{Ours, "cp", "rsync", "fpsync", "dcp", "rclone", "juicefs"}
	large := []string{Ours, "cp", "rsync", "dcp", "rclone", "juicefs"}
	s3 := []string{Ours, "s5cmd", "rclone", "juicefs"}
	return []Scenario{
		{"small-tmpfs", "new copy of 100,000 files of 4 KiB in 1,000 directories, in memory", posix, copying(smallFiles, inMemory)},
		{"small-ext4", "the same on a disk, sync -f included", posix, copying(smallFiles, onDisk)},
		{"large-tmpfs", "one file of 8 GiB, in memory", large, copying(largeFile, inMemory)},
		{"large-ext4", "one file of 8 GiB on a disk, sync -f included", large, copying(largeFile, onDisk)},
		{"reflink", "one file of 4 GiB on XFS with reflinks", []string{Ours, "cp --reflink", "rsync"}, reflinking},
		{"unchanged", "second run over 1,000,000 files, nothing changed, in memory", []string{Ours, "rsync", "rsync -aHAX", "find"}, unchanged},
		{"s3-small-up", "10,000 files of 16 KiB to a versitygw on the same machine (its CPU is not counted)", s3, uploading(manyObjects)},
		{"s3-small-down", "the same back, to memory", s3, downloading(manyObjects)},
		{"s3-large-up", "one file of 4 GiB to it", s3, uploading(oneObject)},
		{"s3-large-down", "the same back, to memory", s3, downloading(oneObject)},
		{"memory-files", "new copy of 1,000,000 files (4 KiB holes in 1,000 directories), in memory", []string{Ours, "rsync"}, copying(manyHollow, inMemory)},
		{"memory-sparse", "one sparse file of 100 GiB, in memory", []string{Ours, "cp"}, copying(hugeHollow, inMemory)},
		{"ceiling-disk", "4 GiB on a disk, in a file for each of 8 streams or more, from cold files; load generators write and read as much past the page cache",
			[]string{Ours, "elbencho", "fio", "ior", "dd"}, pastCache},
		{"ceiling-s3-up", "1,000 files of 4 MiB to a versitygw on the same machine; warp puts such objects", []string{Ours, "warp"}, uploading(objectsOf4MiB)},
		{"ceiling-s3-down", "the same back, to memory; warp gets such objects and drops them", []string{Ours, "warp"}, downloading(objectsOf4MiB)},
		{"ceiling-load", "what our load generator writes and reads past the page cache of a disk: 4 GiB in blocks of 4 MiB", []string{OurLoad, "fio"}, generating(streamFiles)},
		{"ceiling-load-small", "the same of 1 GiB in blocks of 4 KiB", []string{OurLoad, "fio"}, generating(smallBlocks)},
	}
}

func smallFiles(h *house) dataset {
	return dataset{files: h.count(100_000), dirs: h.count(1000), bytes: 4 << 10}
}
func largeFile(h *house) dataset { return dataset{files: 1, bytes: h.size(8 << 30)} }
func manyHollow(h *house) dataset {
	return dataset{files: h.count(1_000_000), dirs: h.count(1000), bytes: 4 << 10, hollow: true}
}
func hugeHollow(h *house) dataset { return dataset{files: 1, bytes: h.size(100 << 30), hollow: true} }
func manyObjects(h *house) dataset {
	return dataset{files: h.count(10_000), dirs: h.count(100), bytes: 16 << 10}
}
func objectsOf4MiB(h *house) dataset {
	return dataset{files: h.count(1000), dirs: h.count(10), bytes: extent}
}
func oneObject(h *house) dataset { return dataset{files: 1, bytes: h.size(4 << 30)} }

func inMemory(h *house) (dir, syncDir string) { return h.tmpfs, "" }
func onDisk(h *house) (dir, syncDir string)   { return h.disk, h.disk }

// copying stages a new copy of a dataset within one file system.
func copying(data func(*house) dataset, where func(*house) (dir, syncDir string)) func(context.Context, *house) (*workload, error) {
	return func(_ context.Context, h *house) (*workload, error) {
		dir, syncDir := where(h)
		return stageCopy(dir, syncDir, data(h))
	}
}

func stageCopy(dir, syncDir string, data dataset) (*workload, error) {
	place, err := os.MkdirTemp(dir, "copy-")
	if err != nil {
		return nil, err
	}
	w := &workload{place: place, data: data, syncDir: syncDir, disk: syncDir != "", close: func() error { return os.RemoveAll(place) }}
	if !w.disk {
		w.unpaid = 1 // the first touch of memory is slow
	}
	source := filepath.Join(place, "source")
	if err := data.make(source); err != nil {
		return nil, errors.Join(err, w.close())
	}
	w.job = func(run string) job {
		target := filepath.Join(place, run)
		return job{source: source, target: target, folder: target, file: data.dirs == 0, data: data, scratch: place}
	}
	w.check = func(j job) error { return data.check(j.folder) }
	return w, nil
}

// unchanged stages two equal trees.
func unchanged(ctx context.Context, h *house) (*workload, error) {
	w, err := stageCopy(h.tmpfs, "", manyHollow(h))
	if err != nil {
		return nil, err
	}
	if err := w.data.make(w.job("target").target); err != nil {
		return nil, errors.Join(err, w.close())
	}
	w.same = true
	return w, nil
}

// reflinking stages a copy on a file system that can share blocks: XFS in a
// sparse image, mounted for the time of the scenario.
func reflinking(ctx context.Context, h *house) (*workload, error) {
	data := dataset{files: 1, bytes: h.size(4 << 30)}
	dir, err := os.MkdirTemp(h.disk, "reflink-")
	if err != nil {
		return nil, err
	}
	// The image is sparse, and one GiB larger than what room wants to be free.
	image, mount := filepath.Join(dir, "image"), filepath.Join(dir, "mount")
	for _, step := range [][]string{
		{"truncate", "-s", fmt.Sprint(3*data.bytes + 2<<30), image},
		{"mkfs.xfs", "-q", "-m", "reflink=1", image},
		{"mkdir", mount},
		{"mount", "-o", "loop", image, mount},
	} {
		if out, err := exec.CommandContext(ctx, step[0], step[1:]...).CombinedOutput(); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w: %s", step[0], err, lastLine(string(out))), os.RemoveAll(dir))
		}
	}
	unmount := func() error {
		return errors.Join(exec.Command("umount", mount).Run(), os.RemoveAll(dir))
	}
	w, err := stageCopy(mount, mount, data)
	if err != nil {
		return nil, errors.Join(err, unmount())
	}
	w.close = unmount
	return w, nil
}
