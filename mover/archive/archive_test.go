package archive_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"datamove.dev/mover"
	"datamove.dev/mover/archive"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shelf is a kind of place to keep copies in. What it opens twice is the same place, as
// two processes see it.
type shelf struct {
	name string
	open func(t *testing.T) func() mover.Backend
}

var shelves = []shelf{
	{"directory", func(t *testing.T) func() mover.Backend {
		dir := t.TempDir()
		return func() mover.Backend { return directory(t, dir) }
	}},
	{"memory", func(*testing.T) func() mover.Backend {
		tree := mem.NewTree()
		return func() mover.Backend { return mem.New(tree, mem.Options{}) }
	}},
	{"store", func(t *testing.T) func() mover.Backend {
		o := s3test.Start(t, false).Options(t)
		return func() mover.Backend { return s3test.Open(t, o) }
	}},
}

func directory(t *testing.T, dir string) mover.Backend {
	t.Helper()
	p := must.Get(posix.Open(dir, posix.Options{Create: true}))(t)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// each runs a test over every kind of place.
func each(t *testing.T, test func(t *testing.T, p mover.Backend)) {
	for _, s := range shelves {
		t.Run(s.name, func(t *testing.T) { test(t, s.open(t)()) })
	}
}

func open(t *testing.T, p mover.Backend, state string, epoch uint64) *archive.Archive {
	t.Helper()
	v := must.Get(archive.Open(t.Context(), p, archive.Options{By: mover.WriterID{Task: "vault", Epoch: epoch}, StateDir: state}))(t)
	return v
}

func content(size int) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(size), byte(size >> 8)}).Read(b) // it has no errors
	return b
}

// file is an open file with a content.
func file(t *testing.T, data []byte) *os.File {
	t.Helper()
	f := must.Get(os.Create(filepath.Join(t.TempDir(), "file")))(t)
	t.Cleanup(func() { _ = f.Close() })
	if _, err := f.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	return f
}

const key = "lab/0x200000402/02/0x200000402:0x2:0x0"

func put(t *testing.T, v *archive.Archive, data []byte) error {
	t.Helper()
	return v.Put(t.Context(), item(file(t, data), len(data)))
}

func item(f *os.File, size int) archive.Item {
	return archive.Item{Key: key, File: f, Size: int64(size), Origin: "project/a file", Facts: mover.Entry{
		Known: mover.FactMode | mover.FactOwner | mover.FactGroup | mover.FactMtime | mover.FactAtime,
		Mode:  0o4750, UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), Mtime: mover.Time{Sec: 1_700_000_000, Nsec: 5}, Atime: mover.Time{Sec: 1_700_000_001},
	}}
}

// holds compares what a vault gives for the key.
func holds(t *testing.T, v *archive.Archive, data []byte) {
	t.Helper()
	f := file(t, nil)
	must.Do(t, v.Get(t.Context(), archive.Item{Key: key, File: f, Size: int64(len(data))}))
	got, err := os.ReadFile(f.Name())
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes came back of %d, %v", len(got), len(data), err)
	}
}

// TestRoundTrip: what was put comes back, of every size, and takes the place of what was
// there; beside it are the facts of the file, and where it was.
func TestRoundTrip(t *testing.T) {
	each(t, func(t *testing.T, p mover.Backend) {
		v := open(t, p, t.TempDir(), 1)
		for _, size := range []int{0, 1, 1 << 20, 17<<20 + 3} {
			var passed atomic.Int64
			data := content(size)
			it := item(file(t, data), size)
			it.Moved = &passed
			must.Do(t, v.Put(t.Context(), it))
			if passed.Load() < int64(size) {
				t.Errorf("%d of %d bytes were counted", passed.Load(), size)
			}
			holds(t, v, data)
		}
		e, err := p.Stat(t.Context(), key)
		if err != nil || e.Mode != 0o750 || e.Mtime != (mover.Time{Sec: 1_700_000_000, Nsec: 5}) || e.UID != uint32(os.Getuid()) {
			t.Errorf("%+v, %v", e, err)
		}
		c, err := p.Open(t.Context(), e)
		must.Do(t, err)
		defer c.Close()
		var path string
		for _, x := range c.Entry().Xattrs {
			if x.Name == mover.XattrPath {
				path = string(x.Value)
			}
		}
		if path != "project/a file" {
			t.Errorf("it was at %q", path)
		}
		for range 2 {
			must.Tell(t, v.Delete(t.Context(), key))
		}
		if err := v.Get(t.Context(), archive.Item{Key: key, File: file(t, nil)}); !errors.Is(err, mover.ErrNotExist) {
			t.Errorf("after the removal: %v", err)
		}
	})
}

// TestPays: every byte is paid for before it passes, in its direction, and who can not pay
// moves nothing.
func TestPays(t *testing.T) {
	each(t, func(t *testing.T, p mover.Backend) {
		var in, out atomic.Int64
		poor := errors.New("no more for today")
		var broke atomic.Bool
		pay := func(_ context.Context, write bool, bytes, _ int64) error {
			switch {
			case broke.Load():
				return poor
			case write:
				in.Add(bytes)
			default:
				out.Add(bytes)
			}
			return nil
		}
		v := must.Get(archive.Open(t.Context(), p, archive.Options{By: mover.WriterID{Task: "vault", Epoch: 1}, StateDir: t.TempDir(), Pay: pay}))(t)
		for _, size := range []int64{100_000, 17<<20 + 3} {
			in.Store(0)
			out.Store(0)
			must.Do(t, put(t, v, content(int(size))))
			if in.Load() != size || out.Load() != 0 {
				t.Errorf("for %d bytes %d were paid, and %d back", size, in.Load(), out.Load())
			}
			holds(t, v, content(int(size)))
			if in.Load() != size || out.Load() != size {
				t.Errorf("for %d bytes back %d were paid, and %d in", size, out.Load(), in.Load())
			}
		}
		broke.Store(true)
		if err := put(t, v, content(9)); !errors.Is(err, poor) {
			t.Errorf("put: %v", err)
		}
		if err := v.Get(t.Context(), archive.Item{Key: key, File: file(t, nil), Size: 17<<20 + 3}); !errors.Is(err, poor) {
			t.Errorf("get: %v", err)
		}
		broke.Store(false)
		holds(t, v, content(17<<20+3))
	})
}

// TestHoles: a hole is one again where the place keeps holes, and zeros in any case.
func TestHoles(t *testing.T) {
	each(t, func(t *testing.T, p mover.Backend) {
		v := open(t, p, t.TempDir(), 1)
		data := make([]byte, 36<<20)
		copy(data[20<<20:], content(4096))
		f := file(t, nil)
		if _, err := f.WriteAt(data[20<<20:20<<20+4096], 20<<20); err != nil {
			t.Fatal(err)
		}
		must.Do(t, f.Truncate(int64(len(data))))
		must.Do(t, v.Put(t.Context(), item(f, len(data))))
		holds(t, v, data)
	})
}

// TestOldCopyStays: a new copy that can not be made leaves the old one, and nothing else.
//
//safety:1 copies of an HSM: a file that is written until the last moment, another copytool that was faster, a kill -9 in the middle
func TestOldCopyStays(t *testing.T) {
	each(t, func(t *testing.T, p mover.Backend) {
		for _, size := range []int{100_000, 17 << 20} {
			v := open(t, p, t.TempDir(), 1)
			old, fresh := content(7), content(size)
			must.Do(t, put(t, v, old))
			no := errors.New("somebody else has it now")
			it := item(file(t, fresh), size)
			it.Mine = func(context.Context) error { return no }
			if err := v.Put(t.Context(), it); !errors.Is(err, no) {
				t.Errorf("not ours: %v", err)
			}
			holds(t, v, old)

			it = item(file(t, fresh), size)
			it.Mine = func(context.Context) error { // the last moment
				_, err := it.File.WriteAt([]byte{1}, int64(size))
				return err
			}
			if err := v.Put(t.Context(), it); !errors.Is(err, mover.ErrChanged) {
				t.Errorf("written while it is read: %v", err)
			}
			holds(t, v, old)
			if left := strays(t, p); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		}
	})
}

func strays(t *testing.T, p mover.Backend) (left []mover.Stray) {
	t.Helper()
	for _, err := range p.Walk(t.Context(), mover.WalkOptions{Stray: func(s mover.Stray) { left = append(left, s) }}) {
		must.Do(t, err)
	}
	return left
}

// TestFaster: where a store has conditions, a copy of somebody who was faster stays, even
// when it comes between our last question and the step.
//
//safety:1 with TestOldCopyStays
func TestFaster(t *testing.T) {
	o := s3test.Start(t, false).Options(t)
	ours, theirs := s3test.Open(t, o), s3test.Open(t, o)
	if f := ours.Profile(); !f.CreatesOnce || !f.MatchesPut {
		t.Skip("this server has no conditional writes")
	}
	v, w := open(t, ours, t.TempDir(), 1), open(t, theirs, t.TempDir(), 2)
	for i, later := range [][]byte{content(200), content(300)} {
		it := item(file(t, content(100)), 100)
		first := true
		it.Mine = func(context.Context) error {
			if !first {
				return nil
			}
			first = false
			return put(t, w, later)
		}
		if err := v.Put(t.Context(), it); !errors.Is(err, mover.ErrChanged) {
			t.Errorf("with %d copies before: %v", i, err)
		}
		holds(t, v, later)
	}
}
