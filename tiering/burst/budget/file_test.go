package budget

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/test/must"
	"datamove.dev/tiering/burst/pricing"
)

func entry(n int) Entry {
	return Entry{Time: noon, Kind: Charge, Team: "vision", Burst: "b", Amount: pricing.Money(n) * pricing.Cent, Why: "<because> & \"so\"", Key: fmt.Sprint(n)}
}

// written is a directory with a log of n entries, and the text of it.
func written(t *testing.T, n int) (dir string, text []byte) {
	t.Helper()
	dir = t.TempDir()
	f := opened(t, dir)
	for i := range n {
		must.Do(t, f.Append(t.Context(), int64(i), entry(i)))
	}
	text = must.Get(os.ReadFile(filepath.Join(dir, FileName)))(t)
	return dir, text
}

// kept reads a log from its beginning.
func kept(t *testing.T, f *File) (n int, err error) {
	t.Helper()
	err = f.Read(t.Context(), 0, func(e Entry) error {
		if e != entry(n) {
			t.Errorf("entry %d is %+v", n, e)
		}
		n++
		return nil
	})
	return n, err
}

// TestCut: a file that ends anywhere has the entries whose lines are whole, and the next one is appended behind them.
func TestCut(t *testing.T) {
	_, text := written(t, 4)
	for cut := range bytes.LastIndexByte(text[:len(text)-1], '\n') + 2 {
		dir := t.TempDir()
		path := filepath.Join(dir, FileName)
		must.Do(t, os.WriteFile(path, text[:cut], 0o600))
		f := opened(t, dir)
		f.datasync = func(*os.File) error { return nil }
		want := bytes.Count(text[:cut], []byte("\n"))
		if n, err := kept(t, f); n != want || err != nil {
			t.Fatalf("cut at %d: %d entries, want %d, %v", cut, n, want, err)
		}
		if err := f.Append(t.Context(), int64(want), entry(want)); err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if n, err := kept(t, opened(t, dir)); n != want+1 || err != nil {
			t.Fatalf("cut at %d: %d entries after another, %v", cut, n, err)
		}
		if now, err := os.ReadFile(path); err != nil || !bytes.HasPrefix(text, now) {
			t.Fatalf("cut at %d: it is not what it was: %v", cut, err)
		}
	}
}

// TestDamaged changes each byte of a log, one at a time. That is mover.ErrCorrupt, with the line, and nothing can be appended; but for the last line's end, which may be a crash.
func TestDamaged(t *testing.T) {
	dir, text := written(t, 4)
	path := filepath.Join(dir, FileName)
	for i := range text {
		line := 1 + bytes.Count(text[:i], []byte("\n"))
		if i == len(text)-1 {
			continue
		}
		for _, flip := range []byte{0x01, 0x80} {
			bad := bytes.Clone(text)
			bad[i] ^= flip
			must.Do(t, os.WriteFile(path, bad, 0o600))
			f, err := Open(dir)
			must.Do(t, err)
			n, err := kept(t, f)
			if !errors.Is(err, mover.ErrCorrupt) || n != line-1 || !strings.Contains(err.Error(), fmt.Sprintf("line %d ", line)) {
				t.Fatalf("byte %d of line %d: %d entries, %v", i, line, n, err)
			}
			if err := f.Append(t.Context(), int64(n), entry(n)); !errors.Is(err, mover.ErrCorrupt) && !errors.Is(err, mover.ErrChanged) {
				t.Fatalf("byte %d: %v", i, err)
			}
			if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, bad) {
				t.Fatalf("byte %d: the file was changed: %v", i, err)
			}
			_ = f.Close()
		}
	}
}

// TestLinesMoved takes lines away, doubles them and changes their order: the chain notices.
func TestLinesMoved(t *testing.T) {
	dir, text := written(t, 4)
	l := bytes.SplitAfter(text, []byte("\n"))
	for name, lines := range map[string][][]byte{
		"the first is missing": {l[1], l[2], l[3]}, "one is missing": {l[0], l[2], l[3]}, "twice": {l[0], l[0], l[1]}, "another order": {l[0], l[2], l[1], l[3]}, "an empty one": {l[0], []byte("\n"), l[1]},
		"another's": {l[0], []byte(`{"time":"2026-11-20T12:00:00Z","kind":"adjust","team":"vision","amount":"-1000.000000","key":"k"}` + "\n"), l[1]},
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, FileName), bytes.Join(lines, nil), 0o600))
		if _, err := New(t.Context(), opened(t, dir), nil, Options{}); !errors.Is(err, mover.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestZeros: blocks of the last line that never came to the disk are a crash; in the middle they are damage.
func TestZeros(t *testing.T) {
	dir, text := written(t, 3)
	path := filepath.Join(dir, FileName)
	second, third := bytes.IndexByte(text, '\n')+1, bytes.LastIndexByte(text[:len(text)-1], '\n')+1
	for _, row := range []struct {
		name     string
		from, to int
		tail     int
		entries  int
		err      error
	}{
		{"the beginning of the last", third, third + 40, 0, 2, nil},
		{"the end of the last", len(text) - 30, len(text), 0, 2, nil},
		{"behind the last", 0, 0, 4096, 3, nil},
		{"in the middle", second, second + 40, 0, 1, mover.ErrCorrupt},
	} {
		bad := append(bytes.Clone(text), make([]byte, row.tail)...)
		clear(bad[row.from:row.to])
		must.Do(t, os.WriteFile(path, bad, 0o600))
		f := opened(t, dir)
		n, err := kept(t, f)
		if n != row.entries || !errors.Is(err, row.err) {
			t.Errorf("%s: %d entries, %v", row.name, n, err)
		}
		if row.err == nil {
			if err := f.Append(t.Context(), int64(n), entry(n)); err != nil {
				t.Errorf("%s: %v", row.name, err)
			}
			if again, err := kept(t, opened(t, dir)); again != n+1 || err != nil {
				t.Errorf("%s: %d entries after another, %v", row.name, again, err)
			}
		}
	}
}

// TestBehind: who has not read all appends nothing.
func TestBehind(t *testing.T) {
	dir, _ := written(t, 2)
	f := opened(t, dir)
	for _, n := range []int64{0, 1} {
		if err := f.Append(t.Context(), n, entry(9)); !errors.Is(err, mover.ErrChanged) {
			t.Errorf("after %d of 2: %v", n, err)
		}
	}
	if err := f.Append(t.Context(), 3, entry(9)); !errors.Is(err, mover.ErrUsage) {
		t.Error(err)
	}
	if n, err := kept(t, f); n != 2 || err != nil {
		t.Error(n, err)
	}
}

// TestDiskFails: what could not be synced is not there, for nobody, and the next try may go well.
func TestDiskFails(t *testing.T) {
	dir, _ := written(t, 1)
	f := opened(t, dir)
	for _, row := range []struct{ disk, want error }{{unix.EIO, unix.EIO}, {nil, nil}, {unix.ENOSPC, mover.ErrTransient}, {nil, nil}} {
		before := must.Get(kept(t, f))(t)
		f.datasync = func(*os.File) error { return row.disk }
		if err := f.Append(t.Context(), int64(before), entry(before)); !errors.Is(err, row.want) || errors.Is(err, mover.ErrRefused) {
			t.Errorf("%v becomes %v", row.disk, err)
		}
		if after, err := kept(t, opened(t, dir)); err != nil || after > before != (row.want == nil) {
			t.Errorf("%v: %d entries, then %d, %v", row.disk, before, after, err)
		}
	}
	f.datasync = func(f *os.File) error { return errors.Join(unix.EIO, f.Close()) }
	if err := f.Append(t.Context(), 3, entry(3)); !errors.Is(err, unix.EIO) {
		t.Error(err)
	}
}

// TestTakenAway: a log that was removed, or cut off, while it is open is damage.
func TestTakenAway(t *testing.T) {
	for name, touch := range map[string]func(string) error{
		"removed": os.Remove, "cut off": func(p string) error { return os.Truncate(p, 10) }, "replaced": func(p string) error { return errors.Join(os.Remove(p), os.WriteFile(p, nil, 0o600)) },
	} {
		dir, _ := written(t, 2)
		l := ledger(t, dir, Account{Team: "vision", Cap: pricing.Dollar})
		must.Do(t, touch(filepath.Join(dir, FileName)))
		if _, err := l.Reserve(t.Context(), Request{Team: "vision", Burst: "b", Key: "k"}); !errors.Is(err, mover.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestModes(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	dir := filepath.Join(t.TempDir(), "made", "here")
	path := filepath.Join(dir, FileName)
	opened(t, dir)
	if st, err := os.Stat(path); err != nil || st.Mode() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	must.Do(t, os.Chmod(path, 0o620))
	if _, err := Open(dir); !errors.Is(err, mover.ErrPermission) {
		t.Error(err)
	}
	must.Do(t, errors.Join(os.Remove(path), os.Symlink("/dev/null", path)))
	if _, err := Open(dir); !errors.Is(err, unix.ELOOP) {
		t.Error(err)
	}
	must.Do(t, errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)))
	if _, err := Open(dir); !errors.Is(err, mover.ErrUsage) {
		t.Error(err)
	}
}

// TestWaitsForTheLock: while another has it nothing is read or appended, until a context ends.
func TestWaitsForTheLock(t *testing.T) {
	dir, _ := written(t, 1)
	synctest.Test(t, func(t *testing.T) {
		other := opened(t, dir)
		must.Do(t, other.lock(t.Context(), unix.F_WRLCK))
		f := opened(t, dir)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := f.Append(ctx, 1, entry(1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if err := f.Read(ctx, 0, func(Entry) error { return nil }); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		done := make(chan error)
		go func() { done <- f.Append(t.Context(), 1, entry(1)) }()
		time.Sleep(time.Hour)
		other.unlock()
		must.Tell(t, <-done)
	})
}

// FuzzLine: what is taken as a line is the very line that its entry is written as.
func FuzzLine(f *testing.F) {
	for n := range 3 {
		line, _, err := appendLine(nil, first, entry(n))
		must.Do(f, err)
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		e, c, err := parseLine(line, first)
		if err != nil {
			return
		}
		again, d, err := appendLine(nil, first, e)
		if err != nil || !bytes.Equal(again, line) || c != d {
			t.Errorf("%q is written as %q, %v", line, again, err)
		}
	})
}
