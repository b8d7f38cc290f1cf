package engine

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/mover/location"
	"datamove.dev/test/must"
)

// equalTree has an entry of each kind that the test may make.
func equalTree(t *testing.T, root string) {
	must.Do(t, os.MkdirAll(filepath.Join(root, "dir"), 0o755))
	for _, name := range []string{"file", "dir/inner", "first"} {
		must.Do(t, os.WriteFile(filepath.Join(root, name), []byte(name), 0o644))
		must.Do(t, unix.Setxattr(filepath.Join(root, name), "user.note", []byte(name), 0))
	}
	must.Do(t, os.Link(filepath.Join(root, "first"), filepath.Join(root, "second")))
	must.Do(t, os.Symlink("file", filepath.Join(root, "link")))
	must.Do(t, unix.Mkfifo(filepath.Join(root, "fifo"), 0o644))
	must.Do(t, unix.Mknod(filepath.Join(root, "null"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
	must.Do(t, unix.Setxattr(filepath.Join(root, "dir"), "user.note", []byte("dir"), 0))
	must.Do(t, unix.Setxattr(filepath.Join(root, "file"), mover.XattrAccessACL, aclOf(1), 0))
	old := unix.NsecToTimespec(1_600_000_000_123_456_789)
	for _, name := range []string{"file", "dir/inner", "first", "link", "fifo", "null", "dir", ""} {
		must.Do(t, unix.UtimesNanoAt(unix.AT_FDCWD, filepath.Join(root, name), []unix.Timespec{old, old}, unix.AT_SYMLINK_NOFOLLOW))
	}
}

// aclOf is an ACL that lets one more user read (linux/posix_acl_xattr.h).
func aclOf(uid byte) []byte {
	entry := func(tag, perm, id byte) []byte {
		if id == 0 {
			return []byte{tag, 0, perm, 0, 0xFF, 0xFF, 0xFF, 0xFF}
		}
		return []byte{tag, 0, perm, 0, id, 3, 0, 0}
	}
	return bytes.Join([][]byte{{2, 0, 0, 0}, entry(1, 6, 0), entry(2, 4, uid), entry(4, 4, 0), entry(16, 4, 0), entry(32, 4, 0)}, nil)
}

// TestVerifySaysWhatSyncDoes: whatever one fact of one entry is changed, on either side, verify names the entry, sync mends it, and
// then verify is silent. No clock helps: what is changed at the target is later there.
func TestVerifySaysWhatSyncDoes(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away and makes devices")
	}
	chmod := func(name string, mode uint32) func(string) error {
		return func(root string) error { return os.Chmod(filepath.Join(root, name), os.FileMode(mode)) }
	}
	chown := func(name string, uid, gid int) func(string) error {
		return func(root string) error { return os.Lchown(filepath.Join(root, name), uid, gid) }
	}
	date := func(name string) func(string) error {
		return func(root string) error {
			later := unix.NsecToTimespec(1_600_000_000_123_456_790)
			return unix.UtimesNanoAt(unix.AT_FDCWD, filepath.Join(root, name), []unix.Timespec{later, later}, unix.AT_SYMLINK_NOFOLLOW)
		}
	}
	set := func(name, attribute string, value []byte) func(string) error {
		return func(root string) error { return unix.Lsetxattr(filepath.Join(root, name), attribute, value, 0) }
	}
	unset := func(name, attribute string) func(string) error {
		return func(root string) error { return unix.Lremovexattr(filepath.Join(root, name), attribute) }
	}
	again := func(name string, make func(path string) error) func(string) error {
		return func(root string) error {
			if err := os.Remove(filepath.Join(root, name)); err != nil {
				return err
			}
			return make(filepath.Join(root, name))
		}
	}
	rows := map[string]struct {
		name   string // that verify tells
		change func(root string) error
	}{
		"mode of a file":           {"file", chmod("file", 0o600)},
		"mode of a directory":      {"dir", chmod("dir", 0o700)},
		"mode of the root":         {"", chmod("", 0o711)},
		"mode of a FIFO":           {"fifo", chmod("fifo", 0o600)},
		"owner of a file":          {"file", chown("file", 7, -1)},
		"owner of a directory":     {"dir", chown("dir", 7, -1)},
		"owner of the root":        {"", chown("", 7, -1)},
		"owner of a link":          {"link", chown("link", 7, -1)},
		"owner of a device":        {"null", chown("null", 7, -1)},
		"group of a file":          {"file", chown("file", -1, 7)},
		"group of the root":        {"", chown("", -1, 7)},
		"a nanosecond of a file":   {"file", date("file")},
		"of a directory":           {"dir", date("dir")},
		"of a link":                {"link", date("link")},
		"of a FIFO":                {"fifo", date("fifo")},
		"of the root":              {"", date("")},
		"an attribute more":        {"file", set("file", "user.more", nil)},
		"one of a directory":       {"dir", set("dir", "user.more", nil)},
		"one of the root":          {"", set("", "user.more", nil)},
		"one of root of a link":    {"link", set("link", "trusted.more", []byte("x"))},
		"an attribute less":        {"dir/inner", unset("dir/inner", "user.note")},
		"an attribute changed":     {"file", set("file", "user.note", []byte("eno"))},
		"an ACL less":              {"file", unset("file", mover.XattrAccessACL)},
		"an ACL of another user":   {"file", set("file", mover.XattrAccessACL, aclOf(2))},
		"a default ACL":            {"dir", set("dir", mover.XattrDefaultACL, aclOf(1))},
		"rights of a program":      {"file", set("file", "security.capability", []byte{1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})},
		"attribute of a hard link": {"first", set("second", "user.note", []byte("x"))},
		"where a link leads":       {"link", again("link", func(path string) error { return os.Symlink("elif", path) })},
		"number of a device":       {"null", again("null", func(path string) error { return unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))) })},
		"a FIFO that is a file":    {"fifo", again("fifo", func(path string) error { return os.WriteFile(path, nil, 0o644) })},
		"a link that is a file":    {"link", again("link", func(path string) error { return os.WriteFile(path, []byte("file"), 0o644) })},
		"a file that is a link":    {"file", again("file", func(path string) error { return os.Symlink("first", path) })},
		"a hard link less":         {"second", again("second", func(path string) error { return os.WriteFile(path, []byte("first"), 0o644) })},
		"a byte more":              {"file", func(root string) error { return os.WriteFile(filepath.Join(root, "file"), []byte("more!"), 0o644) }},
	}
	open := func(_ context.Context, l location.Location, o OpenOptions) (mover.Backend, error) {
		return posix.Open(l.Path, posix.Options{Create: o.Write})
	}
	for what, row := range rows {
		for _, side := range []string{"source", "target"} {
			t.Run(what+" of the "+side, func(t *testing.T) {
				t.Parallel()
				base := t.TempDir()
				s, d := filepath.Join(base, "source"), filepath.Join(base, "target")
				equalTree(t, s)
				work := func(w Work) ([]string, error) {
					var names []string
					task, err := Start(t.Context(), Request{Work: w, Delete: w == Sync, Source: at(s), Target: at(d), StateDir: filepath.Join(base, "state")}, open)
					must.Do(t, err)
					report, err := task.Wait()
					for _, f := range report.Failures {
						names = append(names, f.Name)
					}
					return names, err
				}
				if _, err := work(Sync); err != nil {
					t.Fatal(err)
				}
				if names, err := work(Verify); err != nil {
					t.Fatalf("verify of a fresh copy: %v, %q", err, names)
				}
				must.Do(t, row.change(filepath.Join(base, side)))
				if names, err := work(Verify); err == nil || !slices.Contains(names, row.name) {
					t.Errorf("verify tells of %q, and not of %q: %v", names, row.name, err)
				}
				if _, err := work(Sync); err != nil {
					t.Fatal(err)
				}
				if names, err := work(Verify); err != nil {
					t.Errorf("verify after sync: %v, %q", err, names)
				}
			})
		}
	}
}

func at(path string) location.Location { return location.Location{Scheme: location.POSIX, Path: path} }
