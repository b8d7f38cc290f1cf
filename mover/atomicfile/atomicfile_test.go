package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"datamove.dev/test/must"
)

// names lists a directory.
func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	for _, e := range must.Get(os.ReadDir(dir))(t) {
		all = append(all, e.Name())
	}
	return all
}

func content(t *testing.T, file string) string {
	t.Helper()
	return string(must.Get(os.ReadFile(file))(t))
}

// watchSync has see called in place of each fsync.
func watchSync(t *testing.T, see func(f *os.File, dir bool) error) {
	was := sync
	t.Cleanup(func() { sync = was })
	sync = func(f *os.File) error {
		info := must.Get(f.Stat())(t)
		return errors.Join(see(f, info.IsDir()), was(f))
	}
}

// TestOrder: the draft is synced when it is whole and before it has the name, the directory when the name is there and
// nothing else is.
func TestOrder(t *testing.T) {
	for _, test := range []struct {
		name string
		o    Options
		was  string // what is there before; "" is nothing
		want []string
	}{
		{"a new file", Options{}, "", []string{"text absent", "directory new"}},
		{"a file is replaced", Options{}, "old", []string{"text old", "directory new"}},
		{"exclusive", Options{Exclusive: true}, "", []string{"text absent", "directory new"}},
		{"unsynced", Options{Unsynced: true}, "old", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "file")
			if test.was != "" {
				must.Do(t, os.WriteFile(file, []byte(test.was), 0o600))
			}
			var saw []string
			watchSync(t, func(f *os.File, isDir bool) error {
				now, err := os.ReadFile(file)
				state := string(now)
				if errors.Is(err, fs.ErrNotExist) {
					state = "absent"
				}
				if !isDir {
					if half := content(t, f.Name()); half != "new" {
						t.Errorf("the draft is synced when it says %q", half)
					}
					saw = append(saw, "text "+state)
					return nil
				}
				saw = append(saw, "directory "+state)
				if left := names(t, dir); !slices.Equal(left, []string{"file"}) {
					t.Errorf("the directory is synced with %q", left)
				}
				return nil
			})
			must.Do(t, Write(file, []byte("new"), test.o))
			if !slices.Equal(saw, test.want) {
				t.Errorf("synced %q, want %q", saw, test.want)
			}
			if now := content(t, file); now != "new" {
				t.Errorf("the file says %q", now)
			}
		})
	}
}

// TestFailure: after an error the old file is whole, or the new one is, and no draft is left.
func TestFailure(t *testing.T) {
	failed := errors.New("the disk is gone")
	for _, test := range []struct {
		name  string
		o     Options
		fault func(t *testing.T, dir string)
		do    func(file string, o Options) error
		err   error
		now   string
	}{
		{"the sync of the draft", Options{}, func(t *testing.T, _ string) {
			watchSync(t, func(_ *os.File, dir bool) error {
				if dir {
					return nil
				}
				return failed
			})
		}, nil, failed, "old"},
		{"the sync of the directory", Options{}, func(t *testing.T, _ string) {
			watchSync(t, func(_ *os.File, dir bool) error {
				if dir {
					return failed
				}
				return nil
			})
		}, nil, failed, "new"},
		{"a file is there", Options{Exclusive: true}, nil, nil, fs.ErrExist, "old"},
		{"a dangling link is there", Options{Exclusive: true}, func(t *testing.T, dir string) {
			must.Do(t, errors.Join(os.Remove(filepath.Join(dir, "file")), os.Symlink("nowhere", filepath.Join(dir, "file"))))
		}, nil, fs.ErrExist, ""},
		{"a directory is there", Options{}, func(t *testing.T, dir string) {
			must.Do(t, errors.Join(os.Remove(filepath.Join(dir, "file")), os.MkdirAll(filepath.Join(dir, "file", "sub"), 0o700)))
		}, nil, fs.ErrExist, ""},
		{"closed before", Options{}, nil, func(file string, o Options) error {
			f, err := Create(file, o)
			return errors.Join(err, f.Close(), f.Publish())
		}, fs.ErrClosed, "old"},
		{"published twice", Options{}, nil, func(file string, o Options) error {
			f, err := Create(file, o)
			if err == nil {
				_, err = f.WriteString("new")
			}
			return errors.Join(err, f.Publish(), f.Publish())
		}, fs.ErrClosed, "new"},
		{"given up", Options{}, nil, func(file string, o Options) error {
			f, err := Create(file, o)
			if err == nil {
				_, err = f.WriteString("half")
			}
			return errors.Join(err, f.Close(), f.Close())
		}, nil, "old"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "file")
			must.Do(t, os.WriteFile(file, []byte("old"), 0o600))
			if test.fault != nil {
				test.fault(t, dir)
			}
			if test.do == nil {
				test.do = func(file string, o Options) error { return Write(file, []byte("new"), o) }
			}
			if err := test.do(file, test.o); !errors.Is(err, test.err) {
				t.Errorf("got %v, want %v", err, test.err)
			}
			if left := names(t, dir); !slices.Equal(left, []string{"file"}) {
				t.Errorf("%q are left", left)
			}
			if test.now != "" && content(t, file) != test.now {
				t.Errorf("the file says %q, want %q", content(t, file), test.now)
			}
		})
	}
}

// TestMode: the mode is the asked one under the umask, also where a file or a draft is there with another one.
func TestMode(t *testing.T) {
	for _, test := range []struct{ ask, umask, want fs.FileMode }{
		{0, 0o022, 0o600},
		{0, 0, 0o600},
		{0o644, 0o022, 0o644},
		{0o666, 0o027, 0o640},
		{0o644, 0o077, 0o600},
	} {
		for _, draft := range []string{"", "file.new"} {
			dir := t.TempDir()
			file := filepath.Join(dir, "file")
			must.Do(t, errors.Join(os.WriteFile(file, nil, 0o600), os.WriteFile(file+".new", nil, 0o600), os.Chmod(file, 0o604), os.Chmod(file+".new", 0o666)))
			was := syscall.Umask(int(test.umask))
			err := Write(file, nil, Options{Mode: test.ask, Draft: draft})
			syscall.Umask(was)
			must.Do(t, err)
			if got := must.Get(os.Stat(file))(t).Mode(); got != test.want {
				t.Errorf("mode %04o under umask %04o with the draft %q: got %04o, want %04o", test.ask, test.umask, draft, got, test.want)
			}
		}
	}
}

// TestHostile: what others have put into the directory is not followed and not written to.
func TestHostile(t *testing.T) {
	for _, test := range []struct {
		name  string
		plant func(dir, victim string) error
		o     Options
	}{
		{"the name is a link", func(dir, victim string) error { return os.Symlink(victim, filepath.Join(dir, "file")) }, Options{}},
		{"the draft is a link", func(dir, victim string) error { return os.Symlink(victim, filepath.Join(dir, "file.new")) }, Options{Draft: "file.new"}},
		{"the draft is a hard link", func(dir, victim string) error { return os.Link(victim, filepath.Join(dir, "file.new")) }, Options{Draft: "file.new"}},
		{"the draft is a pipe", func(dir, _ string) error { return syscall.Mkfifo(filepath.Join(dir, "file.new"), 0o600) }, Options{Draft: "file.new"}},
		{"the name is a pipe", func(dir, _ string) error { return syscall.Mkfifo(filepath.Join(dir, "file"), 0o600) }, Options{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			victim := filepath.Join(t.TempDir(), "victim")
			dir := t.TempDir()
			must.Do(t, errors.Join(os.WriteFile(victim, []byte("keep"), 0o600), test.plant(dir, victim)))
			must.Do(t, Write(filepath.Join(dir, "file"), []byte("new"), test.o))
			if info := must.Get(os.Lstat(filepath.Join(dir, "file")))(t); !info.Mode().IsRegular() {
				t.Errorf("the file is %v", info.Mode())
			}
			if content(t, victim) != "keep" || content(t, filepath.Join(dir, "file")) != "new" {
				t.Errorf("the victim says %q, the file %q", content(t, victim), content(t, filepath.Join(dir, "file")))
			}
			if left := names(t, dir); !slices.Equal(left, []string{"file"}) {
				t.Errorf("%q are left", left)
			}
		})
	}
}

// TestNames: names of each kind that Linux has are written, and what is no name is refused before a draft is made.
func TestNames(t *testing.T) {
	for _, name := range []string{"a", "-", "*", "a*b", " ", "\n", "\xff\xfe", ".new-1", "..a", strings.Repeat("n", 255), "\u202e"} {
		dir := t.TempDir()
		must.Do(t, Write(dir+"/"+name, []byte("new"), Options{}))
		if left := names(t, dir); !slices.Equal(left, []string{name}) {
			t.Errorf("%q: %q are there", name, left)
		}
	}
	for _, name := range []string{"", ".", "..", "sub/", "sub/.", "sub/..", "a\x00b", strings.Repeat("n", 256)} {
		dir := t.TempDir()
		must.Do(t, os.Mkdir(dir+"/sub", 0o700))
		f, err := Create(dir+"/"+name, Options{})
		if err == nil && plain(name) == nil {
			err = f.Publish() // what is wrong with it the kernel says
		}
		if err == nil {
			t.Errorf("%q is written", name)
		}
		if left := append(names(t, dir), names(t, dir+"/sub")...); !slices.Equal(left, []string{"sub"}) {
			t.Errorf("%q: %q are there", name, left)
		}
	}
	dir := t.TempDir()
	f := must.Get(Create(dir+"/file", Options{}))(t)
	if err := f.PublishAs("../file"); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("another directory: %v", err)
	}
	if left := names(t, dir); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
}

// TestTaken: a draft has a name that nothing has.
func TestTaken(t *testing.T) {
	was := random
	defer func() { random = was }()
	dir := t.TempDir()
	must.Do(t, os.WriteFile(dir+"/.new-taken", []byte("theirs"), 0o600))
	calls := 0
	random = func() string {
		if calls++; calls < 4 {
			return "taken"
		}
		return "free"
	}
	f := must.Get(Create(dir+"/file", Options{}))(t)
	if draft := filepath.Base(f.Name()); draft != ".new-free" || content(t, dir+"/.new-taken") != "theirs" {
		t.Errorf("the draft is %q; theirs says %q", draft, content(t, dir+"/.new-taken"))
	}
	must.Do(t, f.Close())
	random = func() string { return "taken" }
	if _, err := Create(dir+"/file", Options{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("where every name is taken: %v", err)
	}
}

// TestDirectory: a rename of the directory does not lead a draft astray, and a link does not lead out of a root.
func TestDirectory(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "dir")
	must.Do(t, os.Mkdir(dir, 0o700))
	f := must.Get(Create(dir+"/file", Options{Draft: "coming-*"}))(t)
	if draft := filepath.Base(f.Name()); !strings.HasPrefix(draft, "coming-") || len(draft) < len("coming-")+8 {
		t.Errorf("the draft is %q", draft)
	}
	must.Do(t, errors.Join(os.Rename(dir, top+"/moved"), os.Mkdir(dir, 0o700)))
	must.Do(t, f.PublishAs("digest"))
	if moved, swapped := names(t, top+"/moved"), names(t, dir); !slices.Equal(moved, []string{"digest"}) || len(swapped) > 0 {
		t.Errorf("%q are where the directory is, %q where it was", moved, swapped)
	}

	root := must.Get(os.OpenRoot(dir))(t)
	defer root.Close()
	must.Do(t, errors.Join(os.Symlink("../moved", dir+"/out"), os.Mkdir(dir+"/in", 0o700)))
	if err := WriteIn(root, "out/file", nil, Options{}); err == nil {
		t.Error("a link leads out of the root")
	}
	must.Do(t, errors.Join(WriteIn(root, "in/file", []byte("new"), Options{}), WriteIn(root, "file", nil, Options{})))
	if content(t, dir+"/in/file") != "new" || len(names(t, top+"/moved")) != 1 {
		t.Errorf("%q are in moved", names(t, top+"/moved"))
	}
}

// TestSyncDir: a directory that the file system has no sync for is none to complain of; other errors are told.
func TestSyncDir(t *testing.T) {
	must.Do(t, SyncDir(t.TempDir()))
	must.Do(t, SyncDir("/proc")) // fsync(2) gives EINVAL there
	if err := SyncDir(t.TempDir() + "/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	failed := errors.New("the disk is gone")
	watchSync(t, func(*os.File, bool) error { return failed })
	if err := SyncDir(t.TempDir()); !errors.Is(err, failed) {
		t.Error(err)
	}
}
