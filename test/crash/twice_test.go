package crash

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"datamove.dev/test/crash/rig"
	"datamove.dev/test/kill"
	"datamove.dev/test/must"
)

// The jobs of the runs here, and what they move at once.
const (
	jobs      = 2
	fileParts = 4 << 20
	s3Parts   = 16 << 20
)

// amount is how many bytes a test moves: less when time is short.
func amount(bytes int64) int64 {
	if testing.Short() {
		return bytes / 5
	}
	return bytes
}

// kills runs a task again and again and has it killed, each time later, until it ends. It returns how many were
// killed, and how many bytes all runs read.
func kills(t *testing.T, first int, run func(n int) (*rig.Run, int)) (killed int, read int64) {
	t.Helper()
	random := kill.Random(t)
	for n := first; ; n *= 2 {
		r, _ := run(n + random.IntN(n))
		read += r.Read
		if r.Exit != -1 {
			if r.Want(0); killed == 0 {
				t.Error("it came to its end before it was killed")
			}
			return killed, read
		}
		killed++
	}
}

// A run that is killed costs the parts that were in flight, and not those that
// were there. What is read of a source tells what was sent.
//
//safety:3 what is read after a kill is at most what was in flight
func TestSentTwiceLargeFile(t *testing.T) {
	rig.Root(t)
	size := amount(int64(kill.Times(64<<20, 160<<20)))
	source := rig.Memory(t)
	rig.Make(t, source, rig.Shape{Seed: 2, Large: 1, LargeBytes: size})
	for name, base := range map[string]string{"memory": rig.Memory(t), "ext4": rig.Disk(t, "ext4", 400<<20)} {
		t.Run(name, func(t *testing.T) {
			target := filepath.Join(base, "target")
			p := rig.New(t)
			killed, read := kills(t, 40, func(n int) (*rig.Run, int) {
				return p.KillAtCall(t, n, "copy", "-q", "--jobs", fmt.Sprint(jobs), "--bwlimit", "120MiB/s", source, target)
			})
			t.Logf("%d kills, %d MiB read of %d", killed, read>>20, size>>20)
			const start = 1 << 20 // what a process reads when it starts
			if most := size + start + int64(killed)*(jobs*fileParts+start); read > most {
				t.Errorf("%d bytes were read; with %d kills %d are enough", read, killed, most)
			}
			rig.SameTrees(t, source, target, true)
		})
	}
}

// Small files that were written and wait to be published are taken over: the run
// is killed while it is busy with a file behind them.
//
//safety:3 with TestSentTwiceLargeFile
func TestSentTwiceSmallFiles(t *testing.T) {
	rig.Root(t)
	const small, last = 4000, 64 << 20
	source, target := rig.Memory(t), filepath.Join(rig.Disk(t, "ext4", 400<<20), "target")
	rig.Make(t, source, rig.Shape{Seed: 3, Small: small, Large: 1, LargeBytes: last})
	must.Do(t, os.Rename(filepath.Join(source, "large"), filepath.Join(source, "zz")))
	p := rig.New(t)
	r := p.Start(t, "copy", "-q", "--jobs", fmt.Sprint(jobs), "--bwlimit", "5MiB/s", source, target)
	r.Until("most small files are drafts, and 4 MiB of the last one are there", func() bool {
		n, largest := drafts(target)
		return n > small-600 && largest >= 4<<20 // so that the journal knows the others
	})
	r.Kill()
	again := p.Do(t, 0, "copy", "-q", source, target)
	if most := int64(last + 6<<20); again.Read > most {
		t.Errorf("the second run read %d bytes; %d are enough for the last file and a few batches", again.Read, most)
	}
	rig.SameTrees(t, source, target, true)
}

// drafts counts the files in directory drafts and beside them, and returns the size of the largest.
func drafts(dir string) (n int, largest int64) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error { // things come and go meanwhile
		if err == nil && !d.IsDir() && strings.Contains(path, ".datamove-") {
			n++
			if info, err := d.Info(); err == nil {
				largest = max(largest, info.Sys().(*syscall.Stat_t).Blocks*512)
			}
		}
		return nil
	})
	return n, largest
}

//safety:3 with TestSentTwiceLargeFile
func TestSentTwiceToS3(t *testing.T) {
	size := amount(int64(kill.Times(112<<20, 400<<20)))
	p, source := rig.New(t), rig.Memory(t)
	store := rig.NewStore(t, p)
	rig.Make(t, source, rig.Shape{Seed: 5, Large: 1, LargeBytes: size})
	killed, _ := kills(t, 8, func(n int) (*rig.Run, int) {
		return store.KillAtRequest(t, p, n, n%2 == 0, "copy", "-q", "--jobs", fmt.Sprint(jobs), "--bwlimit", "150MiB/s", source, store.At("twice"))
	})
	n, _ := store.Calls("UploadPart")
	t.Logf("%d kills, %d parts sent", killed, n)
	if most := int(size/s3Parts) + killed*jobs + 1; n > most { // one is of the probe of the bucket
		t.Errorf("%d parts were stored; with %d kills %d are enough", n, killed, most)
	}
	if n := store.Uploads(t); n != 0 {
		t.Errorf("%d uploads are open", n)
	}
}

//safety:3 with TestSentTwiceLargeFile
func TestSentTwiceFromS3(t *testing.T) {
	rig.Root(t)
	size := amount(int64(kill.Times(112<<20, 160<<20)))
	p, source := rig.New(t), rig.Memory(t)
	store := rig.NewStore(t, p)
	rig.Make(t, source, rig.Shape{Seed: 6, Large: 1, LargeBytes: size})
	p.Do(t, 0, "copy", "-q", source, store.At("back"))
	target := filepath.Join(rig.Memory(t), "target")
	store.Calls("GetObject")
	killed, _ := kills(t, 40, func(n int) (*rig.Run, int) {
		return p.KillAtCall(t, n, "copy", "-q", "--jobs", fmt.Sprint(jobs), "--bwlimit", "120MiB/s", store.At("back"), target)
	})
	_, bytes := store.Calls("GetObject")
	t.Logf("%d kills, %d MiB fetched", killed, bytes>>20)
	if most := size + int64(killed)*jobs*s3Parts + 1<<20; bytes > most {
		t.Errorf("%d bytes were fetched; with %d kills %d are enough", bytes, killed, most)
	}
	rig.SameTrees(t, source, target, true)
}

// A target is held by one run. When its holder is killed, the next one goes on at
// once, and nothing that was begun is lost.
func TestHeld(t *testing.T) {
	source := rig.Memory(t)
	rig.Make(t, source, rig.Shape{Seed: 7, Large: 1, LargeBytes: 40 << 20})
	p := rig.New(t)
	store := rig.NewStore(t, p)
	files := filepath.Join(rig.Memory(t), "target")
	for name, row := range map[string]struct{ target, lock string }{
		"files": {files, filepath.Join(files, ".datamove-lock")},
		"store": {store.At("held"), filepath.Join(store.Dir("held"), ".datamove", "lock")},
	} {
		t.Run(name, func(t *testing.T) {
			holder := p.Start(t, "copy", "-q", "--bwlimit", "256KiB/s", source, row.target)
			holder.Until("the target is locked", func() bool { st, err := os.Stat(row.lock); return err == nil && st.Size() > 0 })
			second := p.Do(t, 5, "copy", source, row.target)
			if who := fmt.Sprintf("process %d", holder.PID()); !strings.Contains(second.Stderr(), who) {
				t.Errorf("the second run does not name %s: %s", who, second.Stderr())
			}
			holder.Kill()
			p.Do(t, 0, "copy", "-q", source, row.target) // which waits for no lock
			if _, err := os.Stat(row.lock); err == nil {
				t.Error("a lock is left")
			}
		})
	}
}
