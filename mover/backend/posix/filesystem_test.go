package posix

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix/allowance"
	"datamove.dev/test/must"
)

// striped is a file system that knows more: what it makes has a layout, which is that of
// the source or its own, and a project may hold so much.
type striped struct {
	mu    sync.Mutex
	made  []mover.NewFile
	taken int        // names that are taken, for the first tries
	other error      // why nothing is made
	room  mover.Room // of the project
	held  bool       // the project has no limit for us
	asked int
}

func (s *striped) Create(dir int, base string, flags int, mode uint32, f mover.NewFile) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken > 0 {
		s.taken--
		return -1, &os.PathError{Op: "create", Path: base, Err: unix.EEXIST}
	}
	if s.other != nil {
		return -1, s.other
	}
	s.made = append(s.made, f)
	return unix.Openat(dir, base, flags, mode)
}

func (*striped) Multiple(_ int, size int64) int64 { return size / 8 }

func (*striped) Layout(fd int) ([]byte, int64, error) { return []byte("four stripes"), 4 << 20, nil }

func (*striped) Away(int) (bool, error)              { return false, mover.ErrUnsupported }
func (*striped) Recall(context.Context, []int) error { return mover.ErrUnsupported }

func (s *striped) Left(int) (mover.Room, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return s.room, !s.held, nil
}

func (s *striped) place(t *testing.T, o Options) *Backend {
	t.Helper()
	o.FileSystem = func(int) (mover.FileSystem, error) { return s, nil }
	return opened(t, t.TempDir(), o)
}

// bring drafts and publishes one file.
func bring(t *testing.T, p *Backend, e mover.Entry, content []byte) error {
	t.Helper()
	d, err := p.Draft(t.Context(), e, mover.Hints{By: testOwner})
	if err != nil {
		return err
	}
	defer d.Close()
	part := mover.Part{Length: e.Size}
	rec, err := d.WritePart(t.Context(), part, &bytesFeed{r: bytes.NewReader(content)})
	if err != nil {
		return err
	}
	if err := d.Finish(t.Context(), e, []mover.Receipt{rec}); err != nil {
		return err
	}
	return p.Publish(t.Context(), []mover.Draft{d})[0].Err
}

// bytesFeed gives bytes.
type bytesFeed struct{ r *bytes.Reader }

func (f *bytesFeed) Read(p []byte) (int, error) { return f.r.Read(p) }
func (*bytesFeed) Hole() int64                  { return 0 }
func (*bytesFeed) Sum() uint64                  { return 0 }
func (f *bytesFeed) Rewind() error              { _, err := f.r.Seek(0, 0); return err }

// TestFilesAreMadeByTheFileSystem: with what is known of them, under a free name, and
// where it can not, in the usual way.
func TestFilesAreMadeByTheFileSystem(t *testing.T) {
	s := &striped{taken: 3, held: true}
	p := s.place(t, Options{})
	content := []byte("content")
	e := mover.Entry{Name: "a", Kind: mover.File, Size: int64(len(content)), Layout: []byte("of the source")}
	must.Do(t, bring(t, p, e, content))
	if len(s.made) != 1 || s.made[0].Size != e.Size || string(s.made[0].Layout) != "of the source" {
		t.Errorf("made: %+v", s.made)
	}
	s.other = mover.ErrUnsupported
	e.Name = "b"
	must.Do(t, bring(t, p, e, content))
	for _, name := range []string{"a", "b"} {
		if got, err := os.ReadFile(filepath.Join(p.String(), name)); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s has %q (%v)", name, got, err)
		}
	}
	if notes := p.Notes(); len(notes) != 1 {
		t.Errorf("the layout is lost, and the notes are %q", notes)
	}
	s.other = unix.EIO
	e.Name = "c"
	if err := bring(t, p, e, content); !errors.Is(err, unix.EIO) {
		t.Errorf("an error of the file system became %v", err)
	}
}

// TestPartsFitTheDraft: what parts are a multiple of is asked of the file that was made,
// while it is open.
func TestPartsFitTheDraft(t *testing.T) {
	for _, p := range []*Backend{(&striped{held: true}).place(t, Options{}), opened(t, t.TempDir(), Options{})} {
		d := must.Get(p.Draft(t.Context(), mover.Entry{Name: "f", Kind: mover.File, Size: 24 << 20}, mover.Hints{By: testOwner}))(t)
		want := int64(3 << 20)
		if p.fs == nil {
			want = 0
		}
		a, ok := mover.As[mover.Aligner](d)
		if !ok || a.PartMultiple(24<<20) != want {
			t.Errorf("%v: parts are no multiple of %d", ok, want)
		}
		must.Do(t, d.Close())
		if a.PartMultiple(24<<20) != 0 {
			t.Error("a file that is closed was asked")
		}
	}
}

// TestLayoutsAreKept only where that is asked for.
func TestLayoutsAreKept(t *testing.T) {
	for _, keep := range []bool{false, true} {
		s := &striped{held: true}
		p := s.place(t, Options{Layouts: keep})
		must.Do(t, os.WriteFile(filepath.Join(p.String(), "file"), []byte("x"), 0o644))
		e := must.Get(p.Stat(t.Context(), "file"))(t)
		c := must.Get(p.Open(t.Context(), e))(t)
		if got := c.Entry().Layout; (got != nil) != keep {
			t.Errorf("asked to keep: %v, layout %q", keep, got)
		}
		if w, ok := mover.As[mover.Striped](c); !ok || w.StripeWidth() != 4<<20 {
			t.Error("the width of its stripes is not known")
		}
		must.Do(t, c.Close())
	}
}

// TestAllowance: who is not held by the file system is held by us, goes on when there is
// room again, and nothing of what was refused is left.
func TestAllowance(t *testing.T) {
	s := &striped{room: mover.Room{Bytes: 10, Files: 2, Why: "project 7 is full"}}
	p := s.place(t, Options{})
	file := func(name string, n int) error {
		return bring(t, p, mover.Entry{Name: name, Kind: mover.File, Size: int64(n)}, make([]byte, n))
	}
	must.Do(t, file("six", 6))
	err := file("five", 5)
	if !errors.Is(err, mover.ErrFull) || !bytes.Contains([]byte(err.Error()), []byte("project 7 is full")) {
		t.Errorf("11 of 10 bytes: %v", err)
	}
	must.Do(t, file("four", 4)) // the answer was asked for again, and is 10 bytes and 2 files as before
	must.Do(t, file("none", 0))
	if err := file("more", 0); !errors.Is(err, mover.ErrFull) {
		t.Errorf("three of two files: %v", err)
	}
	s.room.Files = 0
	if err := p.Mkdir(t.Context(), mover.Entry{Name: "d", Kind: mover.Dir}); !errors.Is(err, mover.ErrFull) {
		t.Errorf("a directory beside two of two files: %v", err)
	}
	link, err := p.Draft(t.Context(), mover.Entry{Name: "link", Kind: mover.File, Size: 1 << 40}, mover.Hints{By: testOwner, Link: "six"})
	must.Do(t, err) // another name takes no room
	must.Do(t, link.Close())
	names, err := os.ReadDir(p.String())
	must.Do(t, err)
	if len(names) != 3 {
		t.Errorf("there is %v", names)
	}
	s.room = mover.Room{Bytes: -1, Files: -1}
	p.allowance = allowance.Limit{FileSystem: p.fs} // which asks anew
	must.Do(t, file("large", 1<<20))
	asked := s.asked
	must.Do(t, file("larger", 1<<20))
	if s.asked != asked {
		t.Error("every file asks for the quota")
	}
}

// TestKeepFree: nothing is written into the part of the file system that stays free, and a file that would be goes without its first byte.
func TestKeepFree(t *testing.T) {
	p := opened(t, t.TempDir(), Options{KeepFree: 100})
	err := bring(t, p, mover.Entry{Name: "file", Kind: mover.File, Size: 1}, []byte("x"))
	if !errors.Is(err, mover.ErrFull) || !strings.Contains(err.Error(), "for 1 B, 0 B are left: 100% of the file system stay free") {
		t.Errorf("a byte where all stays free: %v", err)
	}
	if names := must.Get(os.ReadDir(p.String()))(t); len(names) > 0 {
		t.Errorf("there is %v", names)
	}
	must.Do(t, p.Mkdir(t.Context(), mover.Entry{Name: "dir", Kind: mover.Dir})) // which has no bytes
}

// TestNobodyKnowsMore: who can not be asked is told of, and everything goes in the usual way.
func TestNobodyKnowsMore(t *testing.T) {
	p := opened(t, t.TempDir(), Options{FileSystem: func(int) (mover.FileSystem, error) { return nil, errors.New("no table of mounts") }})
	must.Do(t, bring(t, p, mover.Entry{Name: "a", Kind: mover.File}, nil))
	if notes := p.Notes(); len(notes) != 1 {
		t.Errorf("notes: %q", notes)
	}
	p = opened(t, t.TempDir(), Options{FileSystem: func(int) (mover.FileSystem, error) { return nil, nil }})
	must.Do(t, bring(t, p, mover.Entry{Name: "a", Kind: mover.File}, nil))
	if notes := p.Notes(); len(notes) != 0 {
		t.Errorf("notes: %q", notes)
	}
}

// TestRoom: what may be written is what is free, less what has to stay so, and no more than a quota leaves.
func TestRoom(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root mounts a file system of its own")
	}
	dir := t.TempDir()
	must.Do(t, unix.Mount("none", dir, "tmpfs", 0, "size=16m"))
	t.Cleanup(func() { must.Do(t, unix.Unmount(dir, 0)) })
	p := must.Get(Open(dir, Options{}))(t)
	defer p.Close()
	is := func(want int64) {
		t.Helper()
		if room, err := p.Room(t.Context()); err != nil || room.Bytes != want || room.Why == "" {
			t.Errorf("%+v, %v; want %d bytes", room, err, want)
		}
	}
	is(16 << 20)
	must.Do(t, os.WriteFile(filepath.Join(dir, "f"), make([]byte, 4<<20), 0o600))
	is(12 << 20)
	p.allowance.KeepFree = 50
	is(4 << 20)
	p.system.COW = true // what is compressed takes less
	if _, err := p.Room(t.Context()); !errors.Is(err, mover.ErrUnsupported) {
		t.Errorf("where it may be compressed: %v", err)
	}
}
