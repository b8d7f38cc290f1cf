package catalog_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/test/must"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/dataset"
)

// grown is a tree of so many files, twenty in a folder, with names, owners and times as a project directory has them.
type grown struct{ files int }

func (g grown) Stat(context.Context, string) (mover.Entry, error) {
	return mover.Entry{}, mover.ErrNotExist
}

func (g grown) Walk(_ context.Context, _ mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	const inFolder, folders = 20, 50
	known := mover.FactMode | mover.FactOwner | mover.FactGroup | mover.FactMtime | mover.FactAtime | mover.FactCtime | mover.FactLinks
	return func(yield func(mover.Entry, error) bool) {
		r := rand.New(rand.NewPCG(1, 2))
		ino := uint64(1 << 20)
		entry := func(name string, kind mover.Kind, at int64) mover.Entry {
			ino += uint64(r.IntN(3)) + 1
			moment := func(after int64) mover.Time { return mover.Time{Sec: at + after, Nsec: int32(r.IntN(1e9))} }
			e := mover.Entry{Name: name, Kind: kind, Known: known, Mode: 0o644, UID: uint32(1000 + ino%7), GID: 100, Nlink: 1, Ino: ino, Mtime: moment(0), Ctime: moment(3), Atime: moment(int64(r.IntN(1e6)))}
			if kind == mover.File {
				e.Size = r.Int64N(1 << uint(r.IntN(34)))
				e.Stored = (e.Size + 4095) / 4096 * 4096
			}
			return e
		}
		for n := 0; n < g.files; {
			top := fmt.Sprintf("project-%05d", n/inFolder/folders)
			at := 1_700_000_000 + r.Int64N(50_000_000)
			if !yield(entry(top, mover.Dir, at), nil) {
				return
			}
			for d := range folders {
				dir := fmt.Sprintf("%s/run-%03d", top, d)
				if n >= g.files || !yield(entry(dir, mover.Dir, at), nil) {
					return
				}
				for f := range inFolder {
					if n++; !yield(entry(fmt.Sprintf("%s/shard-%06d-%x.tar", dir, f, r.IntN(1<<16)), mover.File, at+int64(f)), nil) {
						return
					}
				}
			}
		}
	}
}

// sizeOf is what a directory takes on its disk.
func sizeOf(t testing.TB, dir string) (size int64) {
	t.Helper()
	must.Do(t, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		st, err := d.Info()
		size += st.Size()
		return err
	}))
	return size
}

// peak is the most memory that this process has had since it was told to count anew, in bytes.
func peak(t testing.TB, anew bool) int64 {
	t.Helper()
	if anew {
		must.Do(t, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0))
	}
	text := must.Get(os.ReadFile("/proc/self/status"))(t)
	_, rest, _ := bytes.Cut(text, []byte("VmHWM:"))
	line, _, _ := bytes.Cut(rest, []byte("kB"))
	n := must.Get(strconv.ParseInt(string(bytes.TrimSpace(line)), 10, 64))(t)
	return n << 10
}

// How much an entry takes, on the disk and in memory. DATAMOVE_ENTRIES says how many there are.
func TestSizes(t *testing.T) {
	n := 100_000
	if text := os.Getenv("DATAMOVE_ENTRIES"); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		must.Do(t, err)
	}
	dir := filepath.Join(t.TempDir(), "catalog")
	c := open(t, dir)
	peak(t, true)
	begun := time.Now()
	tally := must.Get(c.Scan(t.Context(), project, grown{n}, catalog.ScanOptions{}))(t)
	entries := tally.Files + tally.Dirs
	t.Logf("%d entries scanned in %v", entries, time.Since(begun).Round(time.Millisecond))
	must.Do(t, c.Close())
	begun = time.Now()
	c = open(t, dir)
	t.Logf("opened in %v", time.Since(begun).Round(time.Millisecond))
	begun = time.Now()
	var seen, bytes atomic.Int64
	must.Do(t, c.Each(t.Context(), project, 2, func(_ int, files []dataset.File) error {
		seen.Add(int64(len(files)))
		for i := range files {
			bytes.Add(files[i].Size)
		}
		return nil
	}))
	took := time.Since(begun)
	t.Logf("read in %v by two: %.2f M/s", took.Round(time.Millisecond), float64(entries)/took.Seconds()/1e6)
	must.Do(t, c.Close())
	each, most := float64(sizeOf(t, dir))/float64(entries), peak(t, false)
	t.Logf("%.0f bytes for each on the disk, %d MiB of memory at most", each, most>>20)
	if seen.Load() != entries || bytes.Load() != tally.Bytes {
		t.Errorf("%d entries, and %d", seen.Load(), entries)
	}
	if each > 250 {
		t.Errorf("%.0f bytes for each entry", each)
	}
	if most > 512<<20 {
		t.Errorf("%d MiB of memory", most>>20)
	}
}

// A scan of DATAMOVE_TREE, into a new catalog and into one that knows it.
func BenchmarkScan(b *testing.B) {
	tree := os.Getenv("DATAMOVE_TREE")
	if tree == "" {
		b.Skip("DATAMOVE_TREE names no tree")
	}
	src := must.Get(posix.Open(tree, posix.Options{}))(b)
	defer src.Close()
	for name, again := range map[string]bool{"new": false, "known": true} {
		b.Run(name, func(b *testing.B) {
			c := open(b, b.TempDir())
			defer func() { must.Do(b, c.Close()) }()
			if again {
				_, err := c.Scan(b.Context(), project, src, catalog.ScanOptions{})
				must.Do(b, err)
			}
			n := int64(0)
			for i := 0; b.Loop(); i++ {
				into := project
				if !again {
					into.Node = strconv.Itoa(i)
				}
				tally := must.Get(c.Scan(b.Context(), into, src, catalog.ScanOptions{}))(b)
				n += tally.Files + tally.Dirs
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds()/1e3, "k/s")
		})
	}
}

// Looks at files of DATAMOVE_TREE, a thousand at a time, of which each is somewhere else.
func BenchmarkLook(b *testing.B) {
	tree := os.Getenv("DATAMOVE_TREE")
	if tree == "" {
		b.Skip("DATAMOVE_TREE names no tree")
	}
	src, err := posix.Open(tree, posix.Options{})
	must.Do(b, err)
	defer src.Close()
	c := open(b, b.TempDir())
	defer func() { must.Do(b, c.Close()) }()
	_, err = c.Scan(b.Context(), project, src, catalog.ScanOptions{})
	must.Do(b, err)
	var names []string
	must.Do(b, c.Each(b.Context(), project, 1, func(_ int, files []dataset.File) error {
		for i := range files {
			names = append(names, files[i].Name())
		}
		return nil
	}))
	r, n := rand.New(rand.NewPCG(1, 1)), 0
	batch := make([]string, 1000)
	for b.Loop() {
		for i := range batch {
			batch[i] = names[r.IntN(len(names))]
		}
		must.Do(b, c.Look(b.Context(), project, src, batch, catalog.Mark{Feed: "f", Value: []byte{1}}))
		n += len(batch)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds()/1e3, "k/s")
}
