package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/uapi"
	"datamove.dev/test/must"
)

func wide(count int) lustre.Layout {
	return lustre.Layout{Components: []lustre.Component{{End: lustre.EOF, Pattern: lustre.RAID0, StripeBytes: 1 << 20, StripeCount: count, FirstTarget: lustre.AnyTarget}}}
}

var guards = map[string]lustre.RestripeOptions{"yielding": {}, "blocking": {Block: true}}

// names are what is in a directory.
func names(n *inode) (all []string) {
	for name := range n.children {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

func TestRestripe(t *testing.T) {
	t.Parallel()
	for name, guard := range guards {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeFiles()
			c := newFilesClient(t, f)
			data := strings.Repeat("content ", 3<<17) + strings.Repeat("\x00", 4<<20)
			dir := f.mkdir(t, "d")
			n := f.file(t, "d/data", data)
			s := f.state(n)
			n.uid, n.gid, s.mtime, n.project, n.mdt = 1001, 1002, 1795184235, 4242, 1
			f.cache(n, 0, "CONTENT") // by a client that has closed it since
			var made *inode
			f.before["sync"] = func() {
				for other := range f.of {
					if other != n {
						made = other
					}
				}
			}
			id := n.fid
			must.Do(t, c.Restripe(t.Context(), f.openDir(t, "d"), "data", wide(4), guard))
			if got := f.content(n); got != "CONTENT"+data[7:] {
				t.Errorf("%d bytes, %.20q; want %d", len(got), got, len(data))
			}
			if got := n.layout.Components[0]; got.StripeCount != 4 || len(got.Objects) != 4 {
				t.Errorf("its layout is %+v", got)
			}
			if s := f.state(n); n.uid != 1001 || n.gid != 1002 || s.mtime != 1795184235 || n.fid != id || n.project != 4242 {
				t.Errorf("owner %d, time %d, FID %v, project %d", n.uid, s.mtime, n.fid, n.project)
			}
			if made.uid != 1001 || made.gid != 1002 || made.project != 4242 || made.mdt != 1 {
				t.Errorf("the copy belonged to %d, project %d, MDT %d", made.uid, made.project, made.mdt)
			}
			if all := names(dir); !reflect.DeepEqual(all, []string{"data"}) {
				t.Errorf("left behind: %q", all)
			}
		})
	}
}

// The trap: the versions of both files are as they were, and yet a write that another
// client keeps to itself is lost. It is what a restripe must not rely on.
//
//safety:4 with TestRestripeBesideAWriter
func TestVersionsDoNotGuardASwap(t *testing.T) {
	t.Parallel()
	f := newFakeFiles()
	c := newFilesClient(t, f)
	ctx := t.Context()
	n, copied := f.file(t, "data", "old content"), f.file(t, "copy", "old content")
	from, to := f.openFile(t, "data", unix.O_RDWR), f.openFile(t, "copy", unix.O_RDWR)
	defer func() { _, _ = f.close(from), f.close(to) }()
	v1, err1 := c.DataVersion(ctx, from)
	v2, err2 := c.DataVersion(ctx, to)
	must.Do(t, errors.Join(err1, err2))
	f.cache(n, 0, "NEW")
	checked := uapi.Swap{Flags: uapi.SwapCheckFirst | uapi.SwapCheckSecond, Other: to, First: v1, Second: v2}
	if _, err := f.ioctl(from, uapi.IocSwapLayouts, uapi.EncodeSwap(checked)); err != nil {
		t.Fatal(err)
	}
	if got := f.content(n); got != "old content" || f.content(copied) != "NEW content" {
		t.Fatalf("the fake is kinder than a Lustre: %q", got)
	}
}

// Somebody writes at the worst moment: nothing of it is lost, with either guard.
//
//safety:4 a file is written while its layout is exchanged: by data versions alone that write would be lost
func TestRestripeBesideAWriter(t *testing.T) {
	t.Parallel()
	moments := map[string]string{
		"before anything is read": "pread", "when all was copied": "sync", "just before the exchange": fmt.Sprintf("ioctl %#x", uapi.IocSwapLayouts),
	}
	for moment, call := range moments {
		t.Run("yielding, "+moment, func(t *testing.T) {
			t.Parallel()
			f := newFakeFiles()
			c := newFilesClient(t, f)
			n := f.file(t, "data", "old content")
			old := n.layout
			f.before[call] = func() {
				fd := f.openFile(t, "data", unix.O_RDWR)
				f.cache(n, 0, "NEW")
				must.Tell(t, f.close(fd))
			}
			if err := c.Restripe(t.Context(), c.root, "data", wide(4), lustre.RestripeOptions{}); !errors.Is(err, lustre.ErrChanged) {
				t.Errorf("%v; want %v", err, lustre.ErrChanged)
			}
			if got := f.content(n); got != "NEW content" || n.layout != old || f.swapped != 0 {
				t.Errorf("%q, swapped %d times; want the write, and nothing done", got, f.swapped)
			}
		})
		t.Run("blocking, "+moment, func(t *testing.T) {
			t.Parallel()
			f := newFakeFiles()
			c := newFilesClient(t, f)
			n := f.file(t, "data", "old content")
			wrote := make(chan error)
			f.before[call] = func() {
				fd := f.openFile(t, "data", unix.O_RDWR)
				go func() {
					_, err := f.pwrite(fd, []byte("NEW"), 0)
					wrote <- errors.Join(err, f.close(fd))
				}()
			}
			must.Tell(t, c.Restripe(t.Context(), c.root, "data", wide(4), lustre.RestripeOptions{Block: true}))
			must.Tell(t, <-wrote)
			if got := f.content(n); got != "NEW content" || n.layout.Components[0].StripeCount != 4 {
				t.Errorf("%q on %d stripes; want the write, on 4", got, n.layout.Components[0].StripeCount)
			}
		})
	}
}

// A client says EBUSY when a server did not do it, whatever the reason was.
func TestRestripeNotDone(t *testing.T) {
	t.Parallel()
	for _, said := range []error{unix.EBUSY, unix.ESTALE, unix.ENOLCK} {
		f := newFakeFiles()
		c := newFilesClient(t, f)
		n := f.file(t, "data", "content")
		old := n.layout
		f.fails[fmt.Sprintf("ioctl %#x", uapi.IocSwapLayouts)] = said
		if err := c.Restripe(t.Context(), c.root, "data", wide(4), lustre.RestripeOptions{}); !errors.Is(err, lustre.ErrChanged) || n.layout != old {
			t.Errorf("%v: %v; want %v", said, err, lustre.ErrChanged)
		}
	}
}

// What is on an MDT does not change places, so a layout that puts more there is refused,
// before anything is copied.
func TestRestripeToAnMDT(t *testing.T) {
	t.Parallel()
	f := newFakeFiles()
	c := newFilesClient(t, f)
	small := lustre.Layout{Components: []lustre.Component{{End: 64 << 10, Pattern: lustre.OnMDT, FirstTarget: lustre.AnyTarget}, part(64<<10, lustre.EOF, 1<<20, 2)}}
	large := lustre.Layout{Components: []lustre.Component{{End: 128 << 10, Pattern: lustre.OnMDT, FirstTarget: lustre.AnyTarget}, part(128<<10, lustre.EOF, 1<<20, 2)}}
	more := lustre.Layout{Components: []lustre.Component{small.Components[0], part(64<<10, lustre.EOF, 1<<20, 4)}}
	n := f.file(t, "plain", "content")
	onMDT := f.file(t, "on the MDT", "content")
	onMDT.layout = &small
	for _, step := range []struct {
		base    string
		to      lustre.Layout
		refused bool
	}{
		{"plain", small, true}, {"on the MDT", large, true}, {"on the MDT", more, false}, {"on the MDT", wide(4), false},
	} {
		before := f.swapped
		f.before["pwrite"] = func() {
			if step.refused {
				t.Errorf("%s: something was copied", step.base)
			}
		}
		err := c.Restripe(t.Context(), c.root, step.base, step.to, lustre.RestripeOptions{})
		if errors.Is(err, lustre.ErrNotApplied) != step.refused || err != nil && !step.refused || step.refused && f.swapped != before {
			t.Errorf("%s: %v; want it refused %v", step.base, err, step.refused)
		}
	}
	if f.content(n) != "content" || f.content(onMDT) != "content" {
		t.Error("it has another content")
	}
}

func TestRestripeOfNoName(t *testing.T) {
	t.Parallel()
	f := newFakeFiles()
	c := newFilesClient(t, f)
	f.mkdir(t, "d")
	f.file(t, "d/data", "content")
	for _, base := range []string{"", ".", "..", "d/data", "../x", "a\x00"} {
		if err := c.Restripe(t.Context(), c.root, base, wide(4), lustre.RestripeOptions{}); err == nil || f.swapped != 0 {
			t.Errorf("%q: %v", base, err)
		}
	}
}

// Somebody appends, and is gone again before the file is guarded: what was known of its size
// and times is old by then.
func TestRestripeAfterAWriter(t *testing.T) {
	t.Parallel()
	for name, o := range guards {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeFiles()
			c := newFilesClient(t, f)
			f.most = 7
			n := f.file(t, "data", "old content")
			f.before[fmt.Sprintf("ioctl %#x", uapi.IocHSMState)] = func() {
				f.cache(n, len("old content"), " and more")
				f.state(n).mtime = 1795184235
			}
			var told []int64
			o.Progress = func(done, size int64) { told = append(told, done, size) }
			must.Do(t, c.Restripe(t.Context(), c.root, "data", wide(4), o))
			if got := f.content(n); got != "old content and more" || f.state(n).mtime != 1795184235 || n.layout.Components[0].StripeCount != 4 {
				t.Errorf("%q of %d, on %d stripes", got, f.state(n).mtime, n.layout.Components[0].StripeCount)
			}
			if want := []int64{20, 20}; !slices.Equal(told, want) {
				t.Errorf("told %d; want %d", told, want)
			}
		})
	}
}

func TestRestripeOfWhatIsOpen(t *testing.T) {
	t.Parallel()
	f := newFakeFiles()
	c := newFilesClient(t, f)
	n := f.file(t, "data", "content")
	fd := f.openFile(t, "data", unix.O_RDWR)
	defer func() { _ = f.close(fd) }()
	if err := c.Restripe(t.Context(), c.root, "data", wide(4), lustre.RestripeOptions{}); !errors.Is(err, lustre.ErrInUse) || f.swapped != 0 {
		t.Errorf("yielding: %v; want %v", err, lustre.ErrInUse)
	}
	if err := c.Restripe(t.Context(), c.root, "data", wide(3), lustre.RestripeOptions{Block: true}); err != nil || n.layout.Components[0].StripeCount != 3 {
		t.Errorf("blocking: %v", err)
	}
}

// Whatever does not work: the file is as it was, nothing is open or locked, nothing is left.
//
//safety:1 with lustre/copytool TestEncrypted
func TestRestripeFails(t *testing.T) {
	t.Parallel()
	pool := wide(2)
	pool.Components[0].Pool = "none-such"
	for name, c := range map[string]struct {
		to   lustre.Layout
		do   func(f *fakeFiles, n *inode, stop func())
		want error
	}{
		"released": {wide(4), func(f *fakeFiles, n *inode, _ func()) { f.state(n).hsm.Archived = lustre.ReleasedState }, lustre.ErrReleased},
		"released meanwhile": {wide(4), func(f *fakeFiles, n *inode, _ func()) {
			f.before[fmt.Sprintf("ioctl %#x", uapi.IocGetFSXattr)] = func() { f.state(n).hsm.Archived = lustre.ReleasedState }
		}, lustre.ErrReleased},
		"encrypted":          {wide(4), func(f *fakeFiles, n *inode, _ func()) { f.state(n).encrypted = true }, lustre.ErrEncrypted},
		"no such pool":       {pool, func(*fakeFiles, *inode, func()) {}, lustre.ErrNotApplied},
		"a layout that lies": {wide(4), func(f *fakeFiles, _ *inode, _ func()) { f.lies["setxattr"] = true }, lustre.ErrNotApplied},
		"no room":            {wide(4), func(f *fakeFiles, _ *inode, _ func()) { f.fails["pwrite"] = unix.ENOSPC }, unix.ENOSPC},
		"over its quota":     {wide(4), func(f *fakeFiles, _ *inode, _ func()) { f.fails["sync"] = unix.EDQUOT }, unix.EDQUOT},
		"stopped":            {wide(4), func(f *fakeFiles, _ *inode, stop func()) { f.before["pread"] = stop }, context.Canceled},
		"no swap": {wide(4), func(f *fakeFiles, _ *inode, _ func()) {
			f.fails[fmt.Sprintf("ioctl %#x", uapi.IocSwapLayouts)] = unix.EOPNOTSUPP
		}, errors.ErrUnsupported},
		"a directory": {wide(4), func(f *fakeFiles, n *inode, _ func()) {
			f.root.children["data"] = f.newInode(f.root, unix.S_IFDIR|0o755)
		}, nil},
		"gone": {wide(4), func(f *fakeFiles, n *inode, _ func()) { delete(f.root.children, "data") }, unix.ENOENT},
		"another file meanwhile": {wide(4), func(f *fakeFiles, n *inode, _ func()) {
			f.before[fmt.Sprintf("ioctl %#x", uapi.IocHSMState)] = func() {
				f.root.children["data"] = f.newInode(f.root, unix.S_IFREG|0o644)
			}
		}, lustre.ErrChanged},
	} {
		for guardName, guard := range guards {
			t.Run(name+", "+guardName, func(t *testing.T) {
				t.Parallel()
				f := newFakeFiles()
				client := newFilesClient(t, f)
				n := f.file(t, "data", strings.Repeat("x", 3*copyBytes))
				old := n.layout
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				c.do(f, n, stop)
				err := client.Restripe(ctx, client.root, "data", c.to, guard)
				if err == nil || c.want != nil && !errors.Is(err, c.want) || c.want != unix.ENOENT && errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%v; want %v", err, c.want)
				}
				if s := f.state(n); len(s.content.data) != 3*copyBytes || n.layout != old || s.lease != nil || len(s.locked) > 0 || f.swapped != 0 {
					t.Errorf("%d bytes, lease %v, locked %d, swapped %d", len(s.content.data), s.lease, len(s.locked), f.swapped)
				}
				for _, left := range names(f.root) {
					if left != "data" {
						t.Errorf("left behind: %q", left)
					}
				}
			})
		}
	}
}

// What a user may do with modes, groups and quotas as they are: either the layout is exchanged, and
// the file belongs to whom it did, or it is as it was, and nothing is left.
func TestRestripeByAUser(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(f *fakeFiles, dir, n *inode)
		want error
	}{
		"of their own":           {func(*fakeFiles, *inode, *inode) {}, nil},
		"in a group of theirs":   {func(_ *fakeFiles, _, n *inode) { n.gid = 3000 }, nil},
		"in another group":       {func(_ *fakeFiles, _, n *inode) { n.gid = 4000 }, unix.EPERM},
		"in a set-group-ID dir":  {func(_ *fakeFiles, dir, _ *inode) { dir.gid, dir.mode = 3000, dir.mode|unix.S_ISGID }, nil},
		"of somebody else":       {func(_ *fakeFiles, _, n *inode) { n.uid, n.gid, n.mode = 7, 3000, unix.S_IFREG|0o660 }, unix.EPERM},
		"not to be written":      {func(_ *fakeFiles, _, n *inode) { n.uid, n.mode = 7, unix.S_IFREG|0o644 }, unix.EACCES},
		"not to be read":         {func(_ *fakeFiles, _, n *inode) { n.mode = unix.S_IFREG | 0o200 }, unix.EACCES},
		"where they can not add": {func(_ *fakeFiles, dir, _ *inode) { dir.uid, dir.gid = 0, 0 }, unix.EACCES},
		"of another project":     {func(_ *fakeFiles, _, n *inode) { n.project = 8 }, unix.EPERM},
		"one file too many": {func(f *fakeFiles, dir, n *inode) {
			dir.project, dir.xflags, n.project = 7, uapi.InheritProject, 7
			f.quotas[7] = &uapi.Quotactl{HardInodes: 3, UsedInodes: 3}
		}, unix.EDQUOT},
		"bytes too many": {func(f *fakeFiles, dir, n *inode) {
			dir.project, dir.xflags, n.project = 7, uapi.InheritProject, 7
			f.quotas[7] = &uapi.Quotactl{HardKiB: 64, UsedBytes: 60 << 10}
		}, unix.EDQUOT},
	} {
		for guardName, guard := range guards {
			t.Run(name+", "+guardName, func(t *testing.T) {
				t.Parallel()
				f := newFakeFiles()
				f.groups = []uint32{fakeUID, 3000}
				client := newFilesClient(t, f)
				dir := f.mkdir(t, "d")
				fd := f.openDir(t, "d")
				dir.uid, dir.gid = fakeUID, fakeUID
				n := f.file(t, "d/data", strings.Repeat("x", 10<<10))
				n.uid, n.gid = fakeUID, fakeUID
				c.do(f, dir, n)
				uid, gid, project, old := n.uid, n.gid, n.project, n.layout
				f.user = true
				err := client.Restripe(t.Context(), fd, "data", wide(4), guard)
				if !errors.Is(err, c.want) {
					t.Errorf("%v; want %v", err, c.want)
				}
				if n.uid != uid || n.gid != gid || n.project != project || (n.layout == old) != (c.want != nil) || len(f.content(n)) != 10<<10 {
					t.Errorf("%d:%d, project %d, %+v", n.uid, n.gid, n.project, n.layout)
				}
				if s := f.state(n); s.lease != nil || len(s.locked) > 0 || !slices.Equal(names(dir), []string{"data"}) {
					t.Errorf("lease %v, locked %d, left %q", s.lease, len(s.locked), names(dir))
				}
			})
		}
	}
}

func TestLease(t *testing.T) {
	t.Parallel()
	f := newFakeFiles()
	c := newFilesClient(t, f)
	ctx := t.Context()
	f.file(t, "data", "x")
	fd := f.openFile(t, "data", unix.O_RDWR)
	defer func() { _ = f.close(fd) }()
	lease, err := c.LeaseToWrite(ctx, fd)
	must.Do(t, err)
	if held, err := lease.Held(); !held || err != nil {
		t.Errorf("held %v, %v", held, err)
	}
	if held, err := lease.Release(); !held || err != nil {
		t.Errorf("given up while held %v, %v", held, err)
	}
	if lease, err = c.LeaseToWrite(ctx, fd); err != nil {
		t.Fatal(err)
	}
	must.Do(t, f.close(f.openFile(t, "data", unix.O_RDONLY)))
	if held, err := lease.Held(); held || err != nil {
		t.Errorf("after somebody opened it: held %v, %v", held, err)
	}
	if held, err := lease.Release(); held || err != nil {
		t.Errorf("broken, and given up: held %v, %v", held, err)
	}
}
