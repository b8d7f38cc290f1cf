package auditlog

import (
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// written returns the text of a log of one file.
func written(t *testing.T, o Options, reasons ...string) string {
	dir := t.TempDir()
	l := opened(t, dir, o)
	appended(t, l, reasons...)
	must.Do(t, l.Close())
	text := must.Get(os.ReadFile(filepath.Join(dir, fileName(1))))(t)
	return string(text)
}

// interrupted opens a log whose file has this text, and goes on.
func interrupted(t *testing.T, text string) (Entry, string) {
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, fileName(1)), []byte(text), 0o600))
	l := opened(t, dir, Options{})
	appended(t, l, "next")
	must.Do(t, l.Close())
	whole(t, dir, l.Head())
	var cut Entry
	for e, err := range Entries(t.Context(), dir) {
		must.Do(t, err)
		if e.Kind == Cut {
			cut = e
		}
	}
	return cut, strings.Join(reasons(t, dir), " ")
}

// TestTornEnd ends a log at each byte of its last line.
func TestTornEnd(t *testing.T) {
	text := written(t, Options{}, "a", "b", "c")
	last := strings.LastIndexByte(text[:len(text)-1], '\n') + 1
	for end := last; end <= len(text); end++ {
		cut, left := interrupted(t, text[:end])
		rest, want := text[last:end], "a b next"
		if end == len(text) {
			rest, want = "", "a b c next"
		}
		if cut.Bytes != int64(len(rest)) || rest != "" && cut.Digest != sha256.Sum256([]byte(rest)) || left != want {
			t.Fatalf("%d of %d bytes: %+v, %s", end-last, len(text)-last, cut, left)
		}
	}
}

// TestLostPages ends a log in a group of which a power cut has left only some
// pages: the others read as zeros.
func TestLostPages(t *testing.T) {
	const page = 4096
	text := written(t, Options{KeepLocations: true}, "a", "b")
	durable := len(text)
	group := strings.Repeat("c", 2*page)
	text = written(t, Options{KeepLocations: true}, "a", "b", group, group, group, group, group, group, group, group, group, group, group, group)
	pages := (len(text) + page - 1) / page
	if pages < 2 {
		t.Fatalf("only %d pages", pages)
	}
	for mask := range 1 << pages {
		b := []byte(text)
		for i := range b {
			if i >= durable && mask>>(i/page)&1 == 0 {
				b[i] = 0
			}
		}
		if _, left := interrupted(t, string(b)); !strings.HasPrefix(left, "a b ") || !strings.HasSuffix(left, " next") {
			t.Fatalf("pages %b: %.100s", mask, left)
		}
	}
}

// TestKilledWhileCutting interrupts Open itself, in the middle of its own record.
func TestKilledWhileCutting(t *testing.T) {
	text := written(t, Options{}, "a", "b")
	last := strings.LastIndexByte(text[:len(text)-1], '\n') + 1
	dir := t.TempDir()
	path := filepath.Join(dir, fileName(1))
	must.Do(t, os.WriteFile(path, []byte(text[:len(text)-1]), 0o600))
	_, err := Open(dir, Options{datasync: func(*os.File) error { return unix.EIO }})
	if !errors.Is(err, unix.EIO) {
		t.Fatal(err)
	}
	after, err := os.ReadFile(path)
	must.Do(t, err)
	for end := last; end < len(after); end++ {
		half := string(after[:end]) + text[min(end, len(text)-1):len(text)-1]
		if cut, left := interrupted(t, half); cut.Bytes == 0 || left != "a next" {
			t.Fatalf("%d bytes: %+v, %s", end-last, cut, left)
		}
	}
}

// TestKilledWhileRotating leaves a file that has no name yet.
func TestKilledWhileRotating(t *testing.T) {
	dir := t.TempDir()
	l := opened(t, dir, Options{})
	appended(t, l, "a")
	must.Do(t, l.Close())
	must.Do(t, os.WriteFile(filepath.Join(dir, newName), []byte(`{"sequence":3,`), 0o600))
	l = opened(t, dir, Options{})
	must.Do(t, l.Rotate())
	appended(t, l, "b")
	if got := reasons(t, dir); !slices.Equal(got, []string{"a", "b"}) || whole(t, dir, l.Head()).Files != 2 {
		t.Errorf("%q", got)
	}
}

// TestDiskFull fills a small disk. Decisions are refused while it is full, also by a
// file that can not begin, and taken again when there is room.
func TestDiskFull(t *testing.T) {
	for _, rotate := range []int64{0, 10_000} {
		mount := t.TempDir()
		if err := unix.Mount("tmpfs", mount, "tmpfs", 0, "size=128k"); err != nil {
			t.Skip("can not mount: ", err)
		}
		t.Cleanup(func() { must.Do(t, unix.Unmount(mount, unix.MNT_DETACH)) })
		must.Do(t, os.WriteFile(filepath.Join(mount, "ballast"), make([]byte, 64<<10), 0o600))
		dir := filepath.Join(mount, "audit")
		l := opened(t, dir, Options{RotateBytes: rotate})
		refused, n := 0, 0
		for ; refused < 20; n++ {
			switch err := l.Append(t.Context(), submit("before")); {
			case errors.Is(err, mover.ErrFull):
				refused++
			case err != nil:
				t.Fatal(err)
			}
		}
		must.Do(t, os.Remove(filepath.Join(mount, "ballast")))
		appended(t, l, "after")
		if s := whole(t, dir, l.Head()); s.Decisions != int64(n-refused+1) || s.Cuts != 0 || s.Files == 1 != (rotate == 0) {
			t.Errorf("%d appends, %d refused: %+v", n, refused, s)
		}
		must.Do(t, l.Close())
	}
}
