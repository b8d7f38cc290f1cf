package hostile

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/test/crash/rig"
	"datamove.dev/test/must"
)

// deep makes (or, without flags, opens) directories below dir until the path is
// longer than PATH_MAX, and returns the last one.
func deep(t *testing.T, dir string, make bool) *os.File {
	t.Helper()
	fd := must.Get(unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0))(t)
	for i := range 30 {
		name := fmt.Sprintf("%02d-%s", i, strings.Repeat("d", 190))
		if make {
			must.Do(t, unix.Mkdirat(fd, name, 0o755))
		}
		next, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatalf("level %d: %v", i, err)
		}
		must.Do(t, unix.Close(fd))
		fd = next
	}
	f := os.NewFile(uintptr(fd), "deep")
	t.Cleanup(func() { f.Close() })
	return f
}

func at(t *testing.T, dir *os.File, flags int) *os.File {
	t.Helper()
	fd := must.Get(unix.Openat(int(dir.Fd()), "file", flags, 0o644))(t)
	return os.NewFile(uintptr(fd), "file")
}

// A path of 6,000 bytes, which no system call takes whole, is copied like others.
// To a store it does not go: it is refused by name, and the rest is there.
//
//safety:6 with mover/backend/posix TestBeyondPathMax
func TestLongPaths(t *testing.T) {
	base := rig.Memory(t)
	source, target := filepath.Join(base, "source"), filepath.Join(base, "target")
	write(t, source, "beside", "x")
	f := at(t, deep(t, source, true), unix.O_WRONLY|unix.O_CREAT)
	_, err := f.WriteString("very deep")
	must.Do(t, err)
	must.Do(t, f.Close())
	p := rig.New(t)
	p.Do(t, 0, "copy", "-q", source, target)
	f = at(t, deep(t, target, false), unix.O_RDONLY)
	defer f.Close()
	if text, err := io.ReadAll(f); err != nil || string(text) != "very deep" {
		t.Errorf("there is %q, %v", text, err)
	}
	r := p.Do(t, 0, "copy", "-o", "jsonl", source, target)
	if strings.Contains(r.Stdout(), "datamove.item") {
		t.Error("a second run finds something to do")
	}
	store := rig.NewStore(t, p)
	r = p.Start(t, "copy", "-q", source, store.At("deep")).Wait()
	if r.Exit == 0 || !strings.Contains(r.Stderr(), "dddd") {
		t.Errorf("exit code %d, and it said %.300s", r.Exit, r.Stderr())
	}
	if _, there := store.Look(t, "deep")["beside"]; !there {
		t.Error("the rest was held up")
	}
}

// Times before 1970 and far ahead are times like others, and a clock that was set
// back makes nobody's leftovers sacred.
func TestClockThatJumps(t *testing.T) {
	base := rig.Memory(t)
	source, target := filepath.Join(base, "source"), filepath.Join(base, "target")
	for i, when := range []time.Time{time.Date(1901, 12, 14, 0, 0, 0, 1, time.UTC), time.Unix(-1, 999999999), time.Unix(0, 0), time.Date(2199, 1, 1, 0, 0, 0, 5, time.UTC)} {
		must.Do(t, os.Chtimes(write(t, source, fmt.Sprint("file-", i), "x"), when, when))
	}
	rig.Make(t, filepath.Join(source, "more"), rig.Shape{Seed: 1, Large: 1, LargeBytes: 24 << 20})
	p := rig.New(t)
	r := p.Start(t, "copy", "-q", "--bwlimit", "1MiB/s", source, target)
	drafts := func() []string {
		found := must.Get(filepath.Glob(filepath.Join(target, "more", "large", ".datamove-*")))(t)
		return found
	}
	r.Until("a draft is there", func() bool { return len(drafts()) > 0 })
	r.Kill()
	for i, draft := range drafts() { // as a run would have left it that saw the year 2100
		f := strings.Split(filepath.Base(draft), "-")
		f[2] = "2fcyvi1s"
		must.Do(t, os.Rename(draft, filepath.Join(filepath.Dir(draft), strings.Join(f, "-"))))
		write(t, target, fmt.Sprintf(".datamove-%s-2fcyvi1s-%d", f[1], i+10), "left")
	}
	p.Do(t, 0, "copy", "-q", source, target)
	rig.SameTrees(t, source, target, true)
}

// Files of the sizes around one part, and of as many parts as a plan may have: a
// sparse file of 40 GiB is 10,000 of them.
func TestSizes(t *testing.T) {
	base := rig.Memory(t)
	source, target := filepath.Join(base, "source"), filepath.Join(base, "target")
	for _, size := range []int64{0, 1, 1 << 20, 4 << 20, 10_000 * 4 << 20} {
		for _, d := range []int64{-1, 0, 1} {
			if size+d >= 0 {
				edges(t, filepath.Join(source, fmt.Sprint(size+d)), size+d)
			}
		}
	}
	p := rig.New(t)
	p.Do(t, 0, "copy", "-q", source, target)
	names := must.Get(filepath.Glob(filepath.Join(source, "*")))(t)
	for _, name := range names {
		sameEdges(t, name, filepath.Join(target, filepath.Base(name)))
	}
}

// edges makes a file with something at its begin, around each of its quarters, and
// at its end.
func edges(t *testing.T, path string, size int64) {
	t.Helper()
	f := must.Get(os.Create(write(t, filepath.Dir(path), filepath.Base(path), "")))(t)
	must.Do(t, f.Truncate(size))
	for i := range int64(5) {
		text := []byte(fmt.Sprintf("mark %d of %d", i, size))
		off := max(0, min(size*i/4, size-int64(len(text))))
		_, err := f.WriteAt(text[:min(int64(len(text)), size-off)], off)
		must.Do(t, err)
	}
	must.Do(t, f.Close())
}

// sameEdges compares what is stored of two files.
func sameEdges(t *testing.T, want, got string) {
	t.Helper()
	a := must.Get(os.Open(want))(t)
	defer a.Close()
	b := must.Get(os.Open(got))(t)
	defer b.Close()
	size := must.Get(a.Seek(0, io.SeekEnd))(t)
	if n, err := b.Seek(0, io.SeekEnd); err != nil || n != size {
		t.Errorf("%s has %d bytes, want %d (%v)", got, n, size, err)
	}
	for _, pair := range [][2]*os.File{{a, b}, {b, a}} { // what is data in one is the same in the other
		for off := int64(0); off < size; {
			start, err := pair[0].Seek(off, unix.SEEK_DATA)
			if err != nil {
				break
			}
			off, err = pair[0].Seek(start, unix.SEEK_HOLE)
			must.Do(t, err)
			x, y := make([]byte, off-start), make([]byte, off-start)
			_, err1 := pair[0].ReadAt(x, start)
			_, err2 := pair[1].ReadAt(y, start)
			if err1 != nil && err1 != io.EOF || err2 != nil && err2 != io.EOF || string(x) != string(y) {
				t.Fatalf("%s differs between %d and %d (%v, %v)", got, start, off, err1, err2)
			}
		}
	}
}

// A name in another file system, mounted inside the target, can not be a link of
// its leader: it is moved as a file of its own, checked as others are.
func TestLinkIntoAnotherMount(t *testing.T) {
	rig.Root(t)
	base := rig.Memory(t)
	source, target := filepath.Join(base, "source"), filepath.Join(base, "target")
	write(t, source, "leader", strings.Repeat("content ", 100_000))
	must.Do(t, os.Mkdir(filepath.Join(source, "mount"), 0o755))
	must.Do(t, os.Link(filepath.Join(source, "leader"), filepath.Join(source, "mount", "link")))
	mount := filepath.Join(target, "mount")
	must.Do(t, os.MkdirAll(mount, 0o755))
	must.Do(t, unix.Mount("tmpfs", mount, "tmpfs", 0, "size=8m"))
	t.Cleanup(func() { rig.Unmount(t, mount) })
	p := rig.New(t)
	if said := p.Do(t, 0, "copy", source, target).Stdout(); !strings.Contains(said, "checked: 2 written") {
		t.Errorf("both are moved and checked, and it says\n%s", said)
	}
	const told = "note: hard links that are files of their own in the target: 1"
	if said := p.Do(t, 0, "copy", source, target).Stdout(); !strings.Contains(said, told) || strings.Contains(said, "checked:") {
		t.Errorf("the second copy moves nothing, and it says\n%s", said)
	}
	for _, name := range []string{"leader", "mount/link"} {
		got := must.Get(os.ReadFile(filepath.Join(target, name)))(t)
		if string(got) != strings.Repeat("content ", 100_000) {
			t.Errorf("%s has %d bytes", name, len(got))
		}
	}
}
