package posix

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/backendtest"
	"datamove.dev/test/must"
)

// publish drafts e without content, and gives it its name.
func publish(t testing.TB, p *Backend, e mover.Entry, h mover.Hints) error {
	t.Helper()
	h.By = testOwner
	d, err := p.Draft(t.Context(), e, h)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Finish(t.Context(), e, nil); err != nil {
		return err
	}
	return p.Publish(t.Context(), []mover.Draft{d})[0].Err
}

func statOf(t testing.TB, p *Backend, name string) mover.Entry {
	t.Helper()
	e := must.Get(p.Stat(t.Context(), name))(t)
	return e
}

// acl is the value of a POSIX ACL attribute (acl(5), linux/posix_acl_xattr.h):
// rwx for the owner and the user 1234, the rest as given.
func acl(group, mask, other uint16) []byte {
	const undefined = ^uint32(0)
	b := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{{1, 7, undefined}, {2, 7, 1234}, {4, group, undefined}, {16, mask, undefined}, {32, other, undefined}} {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.perm)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	return b
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can do that")
	}
}

// TestEveryFact drafts entries of every kind with unusual facts and reads them back.
func TestEveryFact(t *testing.T) {
	needRoot(t)
	const all = mover.FactMode | mover.FactOwner | mover.FactGroup | mover.FactMtime | mover.FactAtime | mover.FactXattrs
	base := mover.Entry{
		Known: all, Mode: 0o6751, UID: 1001, GID: 1002,
		Mtime: mover.Time{Sec: -5, Nsec: 999_999_999}, Atime: mover.Time{Sec: 1 << 33, Nsec: 1},
	}
	for _, dir := range []string{memoryDir(t), t.TempDir()} {
		p := opened(t, dir, Options{})
		for _, e := range []mover.Entry{
			{Name: "file", Kind: mover.File, Xattrs: []mover.Xattr{{Name: mover.XattrAccessACL, Value: acl(5, 5, 1)}, {Name: "user.empty", Value: []byte{}}, {Name: "user.note", Value: []byte("a\x00b")}}},
			{Name: "dir", Kind: mover.Dir, Xattrs: []mover.Xattr{{Name: mover.XattrDefaultACL, Value: acl(5, 7, 0)}, {Name: "trusted.x", Value: []byte("1")}}},
			{Name: "link", Kind: mover.Symlink, Target: "to\nnowhere\xff", Xattrs: []mover.Xattr{{Name: "trusted.y", Value: []byte("2")}}},
			{Name: "fifo", Kind: mover.FIFO}, {Name: "socket", Kind: mover.Socket},
			{Name: "tty", Kind: mover.CharDevice, Rdev: unix.Mkdev(5, 300)},
			{Name: "disk", Kind: mover.BlockDevice, Rdev: unix.Mkdev(259, 70000)},
		} {
			want := base
			want.Name, want.Kind, want.Target, want.Rdev, want.Xattrs = e.Name, e.Kind, e.Target, e.Rdev, e.Xattrs
			if e.Kind == mover.Symlink {
				want.Mode = 0o777
			}
			must.Do(t, publish(t, p, want, mover.Hints{}))
			sameFacts(t, statOf(t, p, e.Name), want)
			c := must.Get(p.Open(t.Context(), statOf(t, p, e.Name)))(t)
			sameFacts(t, c.Entry(), want)
			must.Do(t, c.Close())

			want.Mode, want.UID, want.Mtime.Nsec, want.Xattrs = 0o750, 1003, 7, nil
			if e.Kind == mover.Symlink {
				want.Mode = 0o777
			}
			must.Do(t, p.Update(t.Context(), want))
			sameFacts(t, statOf(t, p, e.Name), want)
		}
	}
}

func sameFacts(t *testing.T, got, want mover.Entry) {
	t.Helper()
	sameXattrs := slices.EqualFunc(got.Xattrs, want.Xattrs, func(a, b mover.Xattr) bool {
		return a.Name == b.Name && string(a.Value) == string(b.Value)
	})
	if got.Kind != want.Kind || got.Mode != want.Mode || got.UID != want.UID || got.GID != want.GID || got.Rdev != want.Rdev ||
		got.Mtime != want.Mtime || got.Atime != want.Atime || got.Target != want.Target || !sameXattrs {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestInheritedACL: what is drafted below a directory with a default ACL has the
// facts of its source and not those of its parent.
func TestInheritedACL(t *testing.T) {
	dir := memoryDir(t)
	if err := unix.Setxattr(dir, mover.XattrDefaultACL, acl(7, 7, 7), 0); err != nil {
		t.Skip("no ACLs here: ", err)
	}
	p := opened(t, dir, Options{})
	for _, name := range []string{"first", "second"} {
		e := mover.Entry{Name: name, Kind: mover.File, Known: mover.FactMode | mover.FactXattrs, Mode: 0o640}
		must.Do(t, publish(t, p, e, mover.Hints{}))
		if got := statOf(t, p, name); got.Mode != 0o640 || len(got.Xattrs) != 0 {
			t.Errorf("%s has mode %o and %v", name, got.Mode, got.Xattrs)
		}
	}
}

// TestNobodyCopies: a user without rights copies what others own. Owners are not
// kept and not claimed, and no setuid bit is given to another owner.
func TestNobodyCopies(t *testing.T) {
	needRoot(t)
	dir := memoryDir(t)
	must.Do(t, os.Chmod(dir, 0o777))
	asNobody(t, func() {
		p := opened(t, dir, Options{})
		if p.Capabilities().Keeps&(mover.FactOwner|mover.FactGroup) != 0 {
			t.Errorf("it claims to keep owners: %b", p.Capabilities().Keeps)
		}
		e := mover.Entry{Name: "tool", Kind: mover.File, Mode: 0o6755, UID: 0, GID: 0,
			Known: mover.FactMode | mover.FactOwner | mover.FactGroup}
		must.Do(t, publish(t, p, e, mover.Hints{}))
		if got := statOf(t, p, "tool"); got.Mode != 0o755 || got.UID != 65534 {
			t.Errorf("mode %o of user %d", got.Mode, got.UID)
		}
		e.Name, e.UID, e.GID = "own", 65534, 65534
		must.Do(t, publish(t, p, e, mover.Hints{}))
		if got := statOf(t, p, "own"); got.Mode != 0o6755 {
			t.Errorf("own file has mode %o", got.Mode)
		}
		device := mover.Entry{Name: "null", Kind: mover.CharDevice, Rdev: unix.Mkdev(1, 3)}
		if err := publish(t, p, device, mover.Hints{}); !errors.Is(err, mover.ErrPermission) {
			t.Errorf("device made by nobody: %v", err)
		}
		must.Do(t, os.Mkdir(dir+"/mine", 0o500))
		must.Do(t, p.Mkdir(t.Context(), mover.Entry{Name: "mine", Kind: mover.Dir}))
		e.Name = "mine/f"
		must.Do(t, publish(t, p, e, mover.Hints{}))
	})
}

// TestHoles copies a sparse file segment by segment.
func TestHoles(t *testing.T) {
	dir := memoryDir(t)
	f, err := os.Create(dir + "/sparse")
	must.Do(t, err)
	const mib = 1 << 20
	for _, off := range []int64{0, 3 * mib, 9*mib - 5} {
		_, err = f.WriteAt([]byte("island"), off)
		must.Do(t, err)
	}
	must.Do(t, f.Truncate(12*mib))
	must.Do(t, f.Close())
	p := opened(t, dir, Options{})
	from, err := p.Open(t.Context(), statOf(t, p, "sparse"))
	must.Do(t, err)
	defer from.Close()
	e := from.Entry()
	e.Name = "copy"
	d, err := p.Draft(t.Context(), e, mover.Hints{By: testOwner})
	must.Do(t, err)
	defer d.Close()
	var receipts []mover.Receipt
	for _, part := range backendtest.Parts(e.Size, 4*mib) {
		feed := &sparseFeed{from: from, part: part, off: part.Off}
		r := must.Get(d.WritePart(t.Context(), part, feed))(t)
		receipts = append(receipts, r)
	}
	must.Do(t, d.Finish(t.Context(), e, receipts))
	must.Do(t, p.Publish(t.Context(), []mover.Draft{d})[0].Err)
	if backendtest.Sum(backendtest.Read(t, p, "copy")) != backendtest.Sum(backendtest.Read(t, p, "sparse")) {
		t.Error("the copy differs")
	}
	if a, b := statOf(t, p, "copy").Stored, e.Stored; a != b || a > mib {
		t.Errorf("the copy stores %d bytes, the source %d", a, b)
	}
}

// sparseFeed gives the holes of a content as holes.
type sparseFeed struct {
	from mover.Content
	part mover.Part
	off  int64
}

func (f *sparseFeed) Hole() int64 {
	s, err := f.from.Segment(f.off)
	if err != nil {
		return 0
	}
	n := min(s.Start, f.part.Off+f.part.Length) - f.off
	f.off += n
	return n
}

func (f *sparseFeed) Read(b []byte) (int, error) {
	s, err := f.from.Segment(f.off)
	if err != nil {
		return 0, err
	}
	r, err := f.from.Range(context.Background(), f.off, min(s.End, f.part.Off+f.part.Length)-f.off)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	n, err := io.ReadFull(r, b)
	if err == io.ErrUnexpectedEOF {
		err = nil
	}
	f.off += int64(n)
	return n, err
}

func (f *sparseFeed) Sum() uint64   { return 0 }
func (f *sparseFeed) Rewind() error { f.off = f.part.Off; return nil }

// TestModeOfItsOwn makes entries of which no mode is known: they are as open as
// what any program makes.
func TestModeOfItsOwn(t *testing.T) {
	p := opened(t, t.TempDir(), Options{})
	for _, e := range []mover.Entry{
		{Name: "file", Kind: mover.File}, {Name: "dir", Kind: mover.Dir}, {Name: "fifo", Kind: mover.FIFO},
		{Name: "dated", Kind: mover.File, Known: mover.FactMtime},
	} {
		must.Do(t, publish(t, p, e, mover.Hints{}))
	}
	must.Do(t, p.Mkdir(t.Context(), mover.Entry{Name: "made", Kind: mover.Dir}))
	for name, want := range map[string]uint32{"file": 0o666, "dated": 0o666, "fifo": 0o666, "dir": 0o777, "made": 0o777} {
		if got := statOf(t, p, name).Mode; got != want&^p.umask {
			t.Errorf("%s: mode %04o, want %04o", name, got, want&^p.umask)
		}
	}
}

// TestSetIDsAfterTheOwner gives entries to another group: the kernel clears setuid
// and setgid then, but neither of a directory, nor setgid of what no group executes.
func TestSetIDsAfterTheOwner(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	must.Do(t, unix.Chmod(dir, 0o2755)) // what is made in it inherits setgid
	p := opened(t, dir, Options{})
	facts := mover.Entry{Known: mover.FactMode | mover.FactOwner | mover.FactGroup, UID: 1001, GID: 1002}
	folder, file := facts, facts
	folder.Name, folder.Kind, folder.Mode = "dir", mover.Dir, 0o700
	file.Name, file.Kind, file.Mode = "file", mover.File, 0o644
	must.Do(t, publish(t, p, folder, mover.Hints{}))
	must.Do(t, os.WriteFile(dir+"/file", nil, 0o600))
	must.Do(t, unix.Chmod(dir+"/file", 0o2644))
	must.Do(t, p.Update(t.Context(), file))
	for _, want := range []mover.Entry{folder, file} {
		if got := statOf(t, p, want.Name); got.Mode != want.Mode || got.GID != want.GID {
			t.Errorf("%s: mode %04o, group %d; want %04o, %d", want.Name, got.Mode, got.GID, want.Mode, want.GID)
		}
	}
}
