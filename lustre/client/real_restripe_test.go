package client

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/uapi"
	"datamove.dev/test/must"
)

// twoStripes is another layout than what most directories give.
func twoStripes(size int64) lustre.Layout {
	return lustre.Layout{Components: []lustre.Component{{End: lustre.EOF, Pattern: lustre.RAID0, StripeBytes: size, StripeCount: 2, FirstTarget: lustre.AnyTarget}}}
}

func TestRealRestripe(t *testing.T) {
	s := onLustre(t)
	s.needsStriping()
	c, dir, ctx := s.Client, s.path, t.Context()
	at := realFD(t, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	for name, guard := range guards {
		path, data := realFile(t, dir, name, 5<<20+17)
		if err := os.Truncate(path, 20<<20); err != nil { // with a hole
			t.Fatal(err)
		}
		data = append(data, make([]byte, 20<<20-len(data))...)
		then := time.Unix(1700000000, 0)
		must.Do(t, os.Chtimes(path, then, then))
		before, err := os.Stat(path)
		must.Do(t, err)
		wanted := twoStripes(2 << 20)
		if err := c.Restripe(ctx, at, name, wanted, guard); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := c.Layout(ctx, realFD(t, path, OpenToAsk))
		if err != nil || lustre.Same(&wanted, &got, 0) != "" {
			t.Errorf("%s: layout %+v, %v", name, got, err)
		}
		after, err := os.Stat(path)
		if err != nil || !os.SameFile(before, after) || !after.ModTime().Equal(then) || after.Mode() != before.Mode() {
			t.Errorf("%s: %v, %v; it was %v", name, after, err, before)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: %d bytes, %v; want its %d", name, len(got), err, len(data))
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != len(guards) {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A writer comes at the worst moment, when all was copied. Nothing of it is lost.
func TestRealRestripeBesideAWriter(t *testing.T) {
	s := onLustre(t)
	s.needsStriping()
	c, dir, ctx := s.Client, s.path, t.Context()
	at := realFD(t, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	write := func(path string) error {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteAt([]byte("NEW"), 0)
		return errors.Join(err, f.Close()) // and no fsync
	}
	check := func(path string, data []byte) {
		t.Helper()
		copy(data, "NEW")
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: the write was lost (%v)", path, err)
		}
	}
	path, data := realFile(t, dir, "yielding", 1<<20)
	once := &meddler{contents: linux{}, do: func() {
		must.Tell(t, write(path))
	}}
	mine := *c
	mine.k = once
	if err := mine.Restripe(ctx, at, "yielding", twoStripes(1<<20), lustre.RestripeOptions{}); !errors.Is(err, lustre.ErrChanged) {
		t.Errorf("yielding: %v; want %v", err, lustre.ErrChanged)
	}
	check(path, data)

	path2, data2 := realFile(t, dir, "late", 1<<20)
	once.late = func() {
		must.Tell(t, write(path2))
	}
	if err := mine.Restripe(ctx, at, "late", twoStripes(1<<20), lustre.RestripeOptions{}); !errors.Is(err, lustre.ErrChanged) {
		t.Errorf("yielding, at the last moment: %v; want %v", err, lustre.ErrChanged)
	}
	check(path2, data2)

	blocked, other := realFile(t, dir, "blocking", 1<<20)
	wrote := make(chan error, 1)
	once.do = func() { go func() { wrote <- write(blocked) }() }
	if err := mine.Restripe(ctx, at, "blocking", twoStripes(1<<20), lustre.RestripeOptions{Block: true}); err != nil {
		t.Errorf("blocking: %v", err)
	}
	select {
	case err := <-wrote:
		must.Tell(t, err)
	case <-time.After(2 * time.Minute):
		t.Fatal("the writer still waits")
	}
	check(blocked, other)
	if err := c.Restripe(ctx, at, "yielding", twoStripes(1<<20), lustre.RestripeOptions{}); err != nil {
		t.Errorf("when the writer was gone: %v", err)
	}
	check(path, data)
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	b := must.Get(os.ReadFile(path))(t)
	return b
}

// meddler is the kernel, and lets somebody do something when a copy was put on disk, or at
// the last moment before the exchange.
type meddler struct {
	contents
	do, late func()
}

func (m *meddler) ioctl(fd int, request uint, arg []byte) (int, error) {
	if late := m.late; late != nil && request == uapi.IocSwapLayouts {
		m.late = nil
		late()
	}
	return m.contents.ioctl(fd, request, arg)
}

func (m *meddler) sync(fd int) error {
	err := m.contents.sync(fd)
	if do := m.do; do != nil {
		m.do = nil
		do()
	}
	return err
}

// withMDT is a layout with the first 64 KiB on the MDT.
func withMDT() lustre.Layout {
	return lustre.Layout{Components: []lustre.Component{{End: 64 << 10, Pattern: lustre.OnMDT, FirstTarget: lustre.AnyTarget}, part(64<<10, lustre.EOF, mib, 1)}}
}

// What is on an MDT can go to OSTs, as of 2.14, and stay where it is while the rest moves.
func TestRealRestripeFromAnMDT(t *testing.T) {
	s := onLustre(t)
	s.needsStriping()
	data := make([]byte, 3*mib+17)
	_, _ = rand.Read(data)
	fd, err := s.Create(t.Context(), s.dir, "data", unix.O_RDWR, 0o644, withMDT())
	must.Do(t, err)
	_, err = unix.Pwrite(fd, data, 0)
	must.Do(t, errors.Join(err, unix.Close(fd)))
	rest := withMDT()
	rest.Components[1].StripeBytes = 2 * mib
	for _, to := range []lustre.Layout{rest, twoStripes(mib)} {
		err := s.Restripe(t.Context(), s.dir, "data", to, lustre.RestripeOptions{})
		if errors.Is(err, errors.ErrUnsupported) {
			t.Logf("note: %v", err)
		} else if err != nil {
			t.Error(err)
		}
		if got := mustRead(t, filepath.Join(s.path, "data")); !bytes.Equal(got, data) {
			t.Fatalf("as %+v it is %d bytes; want its %d", to, len(got), len(data))
		}
	}
}

func TestRealRestripeRefusals(t *testing.T) {
	s := onLustre(t)
	s.needsStriping()
	c, dir, ctx := s.Client, s.path, t.Context()
	at := realFD(t, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	path, data := realFile(t, dir, "data", 1<<20)
	none := twoStripes(1 << 20)
	none.Components[0].Pool = fmt.Sprintf("no%d", os.Getpid()%1000000)
	if err := c.Restripe(ctx, at, "data", none, lustre.RestripeOptions{}); err == nil {
		t.Error("a pool that there is not was taken")
	}
	if err := c.Restripe(ctx, at, "data", withMDT(), lustre.RestripeOptions{}); !errors.Is(err, lustre.ErrNotApplied) {
		t.Errorf("to an MDT: %v; want not applied", err)
	}
	realFD(t, path, unix.O_RDWR)
	if err := c.Restripe(ctx, at, "data", twoStripes(1<<20), lustre.RestripeOptions{}); !errors.Is(err, lustre.ErrInUse) {
		t.Errorf("what is open: %v; want %v", err, lustre.ErrInUse)
	}
	if got := mustRead(t, path); !bytes.Equal(got, data) {
		t.Error("the file is another one")
	}
}
