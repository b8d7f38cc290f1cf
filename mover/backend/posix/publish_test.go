package posix

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/backendtest"
	"datamove.dev/mover/backend/posix/fstype"
	"datamove.dev/mover/backend/posix/kernel"
	"datamove.dev/test/crash/rig"
	"datamove.dev/test/must"
)

func fileEntry(name, text string) mover.Entry {
	return mover.Entry{Name: name, Kind: mover.File, Size: int64(len(text)), Known: mover.FactMode, Mode: 0o644}
}

// ready drafts and finishes a file.
func ready(t testing.TB, p *Backend, name, text string, in mover.Draft) mover.Draft {
	t.Helper()
	e := fileEntry(name, text)
	d := must.Get(p.Draft(t.Context(), e, mover.Hints{By: testOwner, In: in}))(t)
	t.Cleanup(func() { d.Close() })
	r := must.Get(d.WritePart(t.Context(), mover.Part{Length: e.Size}, backendtest.NewFeed([]byte(text))))(t)
	must.Do(t, d.Finish(t.Context(), e, []mover.Receipt{r}))
	return d
}

// readyDir drafts a directory with what fill puts into it.
func readyDir(t testing.TB, p *Backend, name string, in mover.Draft, fill func(d mover.Draft) []mover.Draft) []mover.Draft {
	t.Helper()
	e := mover.Entry{Name: name, Kind: mover.Dir, Known: mover.FactMode | mover.FactMtime, Mode: 0o751, Mtime: mover.Time{Sec: 42}}
	d := must.Get(p.Draft(t.Context(), e, mover.Hints{By: testOwner, In: in}))(t)
	t.Cleanup(func() { d.Close() })
	inside := fill(d)
	must.Do(t, d.Finish(t.Context(), e, nil))
	return append([]mover.Draft{d}, inside...)
}

func holds(t testing.TB, p *Backend, name, want string) {
	t.Helper()
	if got := string(backendtest.Read(t, p, name)); got != want {
		t.Errorf("%s holds %q, want %q", name, got, want)
	}
}

// clean reports names of ours that are left in the tree.
func clean(t testing.TB, p *Backend) {
	t.Helper()
	must.Do(t, filepath.WalkDir(p.address, func(path string, _ os.DirEntry, err error) error {
		if strings.Contains(filepath.Base(path), mover.TempPrefix) {
			t.Errorf("%s is left", path)
		}
		return err
	}))
}

// TestDirectoryAppearsMeanwhile publishes a directory draft when somebody has made
// the directory, or something else of its name, since it was begun.
//
//safety:1 another process makes the directory that a finished directory draft is about to become
func TestDirectoryAppearsMeanwhile(t *testing.T) {
	for _, row := range []struct {
		name      string
		meanwhile func(dir string) error
		failed    string // the name that can not be published; "" is none
		survives  string
	}{
		{"nothing", func(string) error { return nil }, "", ""},
		{"an empty directory", func(dir string) error { return os.Mkdir(dir, 0o700) }, "", ""},
		{"a directory with others", func(dir string) error {
			return errors.Join(os.MkdirAll(dir+"/sub", 0o700), os.WriteFile(dir+"/sub/other", []byte("kept"), 0o600),
				os.WriteFile(dir+"/f", []byte("older"), 0o600))
		}, "", "d/sub/other"},
		{"a file", func(dir string) error { return os.WriteFile(dir, nil, 0o600) }, "", ""},
		{"a symlink to elsewhere", func(dir string) error { return os.Symlink("/tmp", dir) }, "", ""},
		{"a full directory where a file goes", func(dir string) error {
			return errors.Join(os.MkdirAll(dir+"/f", 0o700), os.WriteFile(dir+"/f/other", []byte("kept"), 0o600))
		}, "d/f", "d/f/other"},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := memoryDir(t)
			p := opened(t, dir, Options{})
			batch := readyDir(t, p, "d", nil, func(d mover.Draft) []mover.Draft {
				inside := []mover.Draft{ready(t, p, "d/f", "new", d)}
				return append(inside, readyDir(t, p, "d/sub", d, func(sub mover.Draft) []mover.Draft {
					return []mover.Draft{ready(t, p, "d/sub/g", "deep", sub)}
				})...)
			})
			must.Do(t, row.meanwhile(dir+"/d"))
			for i, out := range p.Publish(t.Context(), batch) {
				name := batch[i].(some).common().name
				if (out.Err != nil) != (name == row.failed) {
					t.Errorf("%s: %v", name, out.Err)
				}
			}
			holds(t, p, "d/sub/g", "deep")
			if row.failed != "d/f" {
				holds(t, p, "d/f", "new")
			}
			if row.survives != "" {
				holds(t, p, row.survives, "kept")
			}
			for _, name := range []string{"d", "d/sub"} {
				if e := statOf(t, p, name); e.Mode != 0o751 || e.Mtime.Sec != 42 {
					t.Errorf("%s has mode %o and mtime %v", name, e.Mode, e.Mtime)
				}
			}
			for _, d := range batch {
				must.Do(t, d.Close())
			}
			clean(t, p)
		})
	}
}

// TestStrayTree: a directory draft that a killed run left is told, ignored and dropped.
func TestStrayTree(t *testing.T) {
	p := opened(t, memoryDir(t), Options{})
	batch := readyDir(t, p, "d", nil, func(d mover.Draft) []mover.Draft {
		return []mover.Draft{ready(t, p, "d/f", "new", d)}
	})
	var strays []mover.Stray
	for e, err := range p.Walk(t.Context(), mover.WalkOptions{Stray: func(s mover.Stray) { strays = append(strays, s) }}) {
		t.Errorf("the walk yields %q, %v", e.Name, err)
	}
	if len(strays) != 1 || strays[0].Token != batch[0].Token() || strays[0].Owner != testOwner {
		t.Fatalf("strays: %+v", strays)
	}
	must.Do(t, p.Drop(t.Context(), strays[0].Token))
	must.Do(t, p.Drop(t.Context(), strays[0].Token))
	clean(t, p)
}

// TestHardLinks makes names of one inode, again over themselves, and a copy when
// there can be no more links.
func TestHardLinks(t *testing.T) {
	dir := memoryDir(t)
	p := opened(t, dir, Options{})
	backendtest.Put(t, p, fileEntry("leader", "content"), []byte("content"))
	for range 2 { // the second time both names are of the same inode already
		must.Do(t, publish(t, p, fileEntry("other", "content"), mover.Hints{Link: "leader"}))
	}
	a, b := statOf(t, p, "leader"), statOf(t, p, "other")
	if a.Ino != b.Ino || a.Nlink != 2 {
		t.Errorf("inodes %d and %d, %d links", a.Ino, b.Ino, a.Nlink)
	}
	must.Do(t, p.Remove(t.Context(), a, testOwner))
	must.Do(t, p.Remove(t.Context(), b, testOwner)) // its ctime told of the first
	clean(t, p)
}

// TestLossSpoilsAll: a failed sync may have lost what any draft wrote, so none that
// was begun before it is published.
//
//safety:3 a failed sync fails every draft that may have lost bytes, and is not tried again
func TestLossSpoilsAll(t *testing.T) {
	p := opened(t, t.TempDir(), Options{})
	p.system.Durable = fstype.WholeSystem
	before := ready(t, p, "before", "x", nil)
	if err := p.loss.during(func() error { return unix.Syncfs(-1) }); err == nil {
		t.Fatal("a sync of no file system worked")
	}
	after := ready(t, p, "after", "y", nil)
	out := p.Publish(t.Context(), []mover.Draft{before, after})
	if !errors.Is(out[0].Err, mover.ErrTransient) || out[1].Err != nil {
		t.Errorf("outcomes %v and %v", out[0].Err, out[1].Err)
	}
	if _, err := p.Stat(t.Context(), "before"); !errors.Is(err, mover.ErrNotExist) {
		t.Errorf("it is visible: %v", err)
	}
}

// TestFailedSyncIsNotTriedAgain: the kernel tells of lost writes once, so the next sync of
// the draft would go well.
//
//safety:3 with TestLossSpoilsAll
func TestFailedSyncIsNotTriedAgain(t *testing.T) {
	p := opened(t, t.TempDir(), Options{})
	e := fileEntry("file", "text")
	d := must.Get(p.Draft(t.Context(), e, mover.Hints{By: testOwner}))(t)
	defer d.Close()
	f, _ := mover.As[*fileDraft](d)
	rec := must.Get(d.WritePart(t.Context(), mover.Part{Length: 4}, backendtest.NewFeed([]byte("text"))))(t)
	must.Do(t, f.Sync(t.Context()))
	fd := f.fd
	f.fd = opensNoSync(t)
	if err := f.Sync(t.Context()); err == nil {
		t.Fatal("a pipe was synced")
	}
	kernel.Close(f.fd)
	f.fd = fd
	if err := f.Sync(t.Context()); !errors.Is(err, mover.ErrTransient) {
		t.Errorf("the next sync: %v", err)
	}
	if err := d.Finish(t.Context(), e, []mover.Receipt{rec}); !errors.Is(err, mover.ErrTransient) {
		t.Errorf("the end: %v", err)
	}
	must.Do(t, d.Close())
	if names, err := os.ReadDir(p.String()); err != nil || len(names) > 0 {
		t.Errorf("left: %v, %v", names, err)
	}
}

// TestLostNamesSpoilAll: the sync of a directory that failed may have lost the names that
// others made in it before, and their own sync is not believed; nor is another try to
// publish, of a draft whose name was not confirmed.
//
//safety:3 with mover/engine TestUnconfirmedIsMovedAnew
func TestLostNamesSpoilAll(t *testing.T) {
	p := opened(t, t.TempDir(), Options{})
	p.system.Durable = fstype.EachFile
	must.Do(t, os.MkdirAll(p.String()+"/d", 0o755))
	ours, alone := ready(t, p, "d/ours", "x", nil), ready(t, p, "alone", "y", nil)
	out := make([]mover.Outcome, 2)
	todo := p.take(t.Context(), []mover.Draft{ours, alone}, out)
	dirs := p.dirsOf(todo)
	p.renameAll(todo)
	if err := p.dirLosses.of("d").during(func() error { return unix.EIO }); err == nil { // another batch's
		t.Fatal("it did not fail")
	}
	p.syncNames(todo, dirs)
	if !errors.Is(out[0].Err, mover.ErrTransient) || !errors.Is(out[0].Err, mover.ErrUnconfirmed) || out[1].Err != nil {
		t.Errorf("outcomes %v and %v", out[0].Err, out[1].Err)
	}
	if again := p.Publish(t.Context(), []mover.Draft{ours})[0]; !errors.Is(again.Err, mover.ErrTransient) || !errors.Is(again.Err, mover.ErrUnconfirmed) {
		t.Errorf("published again: %+v", again)
	}
	must.Do(t, publish(t, p, fileEntry("d/ours", ""), mover.Hints{}))
}

// opensNoSync is a descriptor that can not be synced: EINVAL, as of every pipe.
func opensNoSync(t *testing.T) int {
	t.Helper()
	var ends [2]int
	must.Do(t, unix.Pipe2(ends[:], unix.O_CLOEXEC))
	kernel.Close(ends[0])
	return ends[1]
}

// TestManyAtOnce publishes enough drafts that they are renamed in parallel.
func TestManyAtOnce(t *testing.T) {
	p := opened(t, memoryDir(t), Options{Handles: 4})
	var batch []mover.Draft
	for d := range 40 {
		dir := fmt.Sprintf("d%d", d)
		must.Do(t, p.Mkdir(t.Context(), mover.Entry{Name: dir, Kind: mover.Dir}))
		for f := range 60 {
			batch = append(batch, ready(t, p, fmt.Sprintf("%s/f%d", dir, f), "x", nil))
		}
	}
	must.Do(t, batch[77].Close())
	for i, out := range p.Publish(t.Context(), batch) {
		if (out.Err != nil) != (i == 77) {
			t.Errorf("outcome %d: %v", i, out.Err)
		}
	}
	if got := walked(t, p, mover.WalkOptions{}); len(got) != 40*61-1 {
		t.Errorf("%d entries are there", len(got))
	}
	clean(t, p)
}

// TestBackup keeps what is replaced and what is removed.
//
//safety:5 `--backup-dir` keeps what goes, and is not itself taken for what is there
func TestBackup(t *testing.T) {
	dir := memoryDir(t)
	p := opened(t, dir, Options{Backup: dir + "/old"})
	must.Do(t, p.Mkdir(t.Context(), mover.Entry{Name: "d", Kind: mover.Dir}))
	for _, text := range []string{"one", "two", "three"} {
		backendtest.Put(t, p, fileEntry("d/f", text), []byte(text))
	}
	keeps := func(want string) {
		t.Helper()
		if got, err := os.ReadFile(dir + "/old/d/f"); err != nil || string(got) != want {
			t.Errorf("the backup has %q (%v), want %q", got, err, want)
		}
	}
	keeps("two")
	must.Do(t, p.Remove(t.Context(), statOf(t, p, "d/f"), testOwner))
	keeps("three")
	must.Do(t, p.Remove(t.Context(), statOf(t, p, "d"), testOwner))
	if got := walked(t, p, mover.WalkOptions{}); len(got) != 0 {
		t.Errorf("a walk yields %v", got)
	}
	clean(t, p)
	must.Do(t, p.Remove(t.Context(), placed(t, p, "d"), testOwner))
	must.Do(t, p.Mkdir(t.Context(), mover.Entry{Name: "d", Kind: mover.Dir}))
	must.Do(t, p.Remove(t.Context(), placed(t, p, "d/f"), testOwner))
	must.Do(t, p.Remove(t.Context(), statOf(t, p, "d"), testOwner))
	for name, want := range map[string]string{"d/f": "d/f", "d.~1~/f": "three", "d.~2~": "d"} {
		if got, err := os.ReadFile(dir + "/old/" + name); err != nil || string(got) != want {
			t.Errorf("a file and a directory of one name: %s has %q (%v), want %q", name, got, err, want)
		}
	}
	if _, err := Open(dir, Options{Backup: dir}); !errors.Is(err, mover.ErrUsage) {
		t.Errorf("backup in itself: %v", err)
	}
}

// placed puts a file that contains its name.
func placed(t *testing.T, p *Backend, name string) mover.Entry {
	t.Helper()
	backendtest.Put(t, p, fileEntry(name, name), []byte(name))
	return statOf(t, p, name)
}

// TestNoRoom fills a small file system, by bytes and by inodes.
func TestNoRoom(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m,nr_inodes=20"); err != nil {
		t.Skip("can not mount: ", err)
	}
	defer func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }()
	p := opened(t, dir, Options{})
	big := fileEntry("big", strings.Repeat("x", 2<<20))
	d, err := p.Draft(t.Context(), big, mover.Hints{By: testOwner})
	must.Do(t, err)
	_, err = d.WritePart(t.Context(), mover.Part{Length: big.Size}, backendtest.NewFeed(make([]byte, big.Size)))
	if !errors.Is(err, mover.ErrFull) {
		t.Errorf("write of 2 MiB into 1: %v", err)
	}
	must.Do(t, d.Close())
	big.Stored = big.Size
	if _, err := p.Draft(t.Context(), big, mover.Hints{By: testOwner}); !errors.Is(err, mover.ErrFull) {
		t.Errorf("draft of 2 MiB without holes: %v", err)
	}
	for i := 0; err == nil || i < 20; i++ {
		err = publish(t, p, fileEntry(fmt.Sprint(i), ""), mover.Hints{})
	}
	if !errors.Is(err, mover.ErrFull) {
		t.Errorf("file without an inode: %v", err)
	}
	clean(t, p)
}

// TestImmutable: the error says what a person can do.
func TestImmutable(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	p := opened(t, dir, Options{})
	backendtest.Put(t, p, fileEntry("f", "fixed"), []byte("fixed"))
	f := must.Get(os.Open(dir + "/f"))(t)
	defer f.Close()
	if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, unix.STATX_ATTR_IMMUTABLE); err != nil {
		t.Skip("no attributes here: ", err)
	}
	defer func() { _ = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, 0) }()
	e := fileEntry("f", "")
	for what, err := range map[string]error{
		"publish": publish(t, p, e, mover.Hints{}),
		"update":  p.Update(t.Context(), mover.Entry{Name: "f", Kind: mover.File, Known: mover.FactMode}),
		"remove":  p.Remove(t.Context(), statOf(t, p, "f"), testOwner),
	} {
		if !errors.Is(err, mover.ErrPermission) || !strings.Contains(err.Error(), "chattr -i") {
			t.Errorf("%s: %v", what, err)
		}
	}
	holds(t, p, "f", "fixed")
	clean(t, p)
}

// TestReflink shares blocks where the file system can, and says so.
//
//safety:2 a clone says that it is one
func TestReflink(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	image, mount := dir+"/image", dir+"/mount"
	must.Do(t, os.WriteFile(image, nil, 0o600))
	must.Do(t, os.Truncate(image, 320<<20))
	must.Do(t, os.Mkdir(mount, 0o755))
	for _, command := range [][]string{{"mkfs.xfs", "-q", "-m", "reflink=1", image}, {"mount", "-o", "loop", image, mount}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Skipf("%s: %v %s", command[0], err, out)
		}
	}
	defer func() { _ = exec.Command("umount", "-l", mount).Run() }()
	p := opened(t, mount, Options{})
	if p.Capabilities().System != "xfs" || p.system.Durable != fstype.WholeSystem {
		t.Errorf("it is %+v", p.system)
	}
	text := strings.Repeat("shared blocks ", 20_000)
	backendtest.Put(t, p, fileEntry("f", text), []byte(text))
	c := must.Get(p.Open(t.Context(), statOf(t, p, "f")))(t)
	defer c.Close()
	e := c.Entry()
	e.Name = "clone"
	d := must.Get(p.Draft(t.Context(), e, mover.Hints{By: testOwner}))(t)
	defer d.Close()
	if done, err := d.(mover.Cloner).Clone(t.Context(), c); !done || err != nil {
		t.Fatalf("clone: %v, %v", done, err)
	}
	must.Do(t, d.Finish(t.Context(), e, nil))
	if out := p.Publish(t.Context(), []mover.Draft{d})[0]; out.Err != nil || out.Level != mover.Cloned {
		t.Errorf("outcome %+v", out)
	}
	holds(t, p, "clone", text)
}

// TestPublishAgain: an answer that was lost can be asked for once more.
func TestPublishAgain(t *testing.T) {
	p := opened(t, memoryDir(t), Options{})
	d := ready(t, p, "f", "once", nil)
	first := p.Publish(t.Context(), []mover.Draft{d})[0]
	must.Do(t, first.Err)
	if again := p.Publish(t.Context(), []mover.Draft{d})[0]; again != first {
		t.Errorf("published again: %+v, before: %+v", again, first)
	}
	holds(t, p, "f", "once")
}

// TestRenameByLink: on file systems without RENAME_NOREPLACE nothing is replaced either.
func TestRenameByLink(t *testing.T) {
	dir := t.TempDir()
	fd := must.Get(unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0))(t)
	defer unix.Close(fd)
	in := func(name string) string { return filepath.Join(dir, name) }
	must.Do(t, os.WriteFile(in("a"), []byte("a"), 0o644))
	must.Do(t, os.WriteFile(in("b"), []byte("b"), 0o644))
	must.Do(t, os.MkdirAll(in("d/e"), 0o755))
	must.Do(t, os.Mkdir(in("f"), 0o755))
	for _, c := range []struct {
		old, name string
		want      error
	}{{"a", "b", unix.EEXIST}, {"d", "f", unix.EEXIST}, {"d", "b", unix.EEXIST}, {"a", "d", unix.EEXIST}, {"missing", "x", unix.ENOENT}, {"a", "c", nil}, {"d", "g", nil}} {
		if err := renameByLink(fd, c.old, fd, c.name); err != c.want {
			t.Errorf("%s to %s: %v, want %v", c.old, c.name, err, c.want)
		}
	}
	for name, want := range map[string]string{"c": "a", "b": "b"} {
		if got, err := os.ReadFile(in(name)); string(got) != want {
			t.Errorf("%s has %q (%v)", name, got, err)
		}
	}
	if _, err := os.Stat(in("g/e")); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(in("a")); !os.IsNotExist(err) {
		t.Errorf("the old name: %v", err)
	}
}

// TestReadOnlyIsNoSync: a file system that has become read-only says of each sync that it
// went well, and whoever was told so would be told a lie. One that always was is no error.
//
//safety:3 a file system that its failing disk has made read-only: the kernel answers to every sync then that it went well
func TestReadOnlyIsNoSync(t *testing.T) {
	dir := rig.Disk(t, "ext4", 64<<20)
	p := open(t, dir, Options{})
	must.Do(t, p.Mkdir(t.Context(), mover.Entry{Name: "made", Kind: mover.Dir}))
	must.Do(t, p.Sync(t.Context()))
	must.Do(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	if err := p.Sync(t.Context()); !errors.Is(err, unix.EROFS) {
		t.Errorf("it is read-only now, and a sync says %v", err)
	}
	must.Do(t, open(t, dir, Options{}).Sync(t.Context()))
}
