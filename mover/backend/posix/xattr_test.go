package posix

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

// TestUnset: an attribute that its inode has no place for is a limit of that entry, and the file system is not full.
func TestUnset(t *testing.T) {
	const plenty = 250 << 20
	for _, c := range []struct {
		err   error
		bytes int
		free  int64
		want  error
	}{
		{unix.ENOSPC, 5000, plenty, mover.ErrUnsupported},
		{unix.EDQUOT, 5000, plenty, mover.ErrUnsupported},
		{unix.E2BIG, 5000, 0, mover.ErrUnsupported},
		{unix.ERANGE, 5000, 0, mover.ErrUnsupported},
		{unix.ENOSPC, 5000, 0, mover.ErrFull},
		{unix.ENOSPC, 5000, freeBesides, mover.ErrFull},
		{unix.EDQUOT, 5000, 0, mover.ErrFull},
		{unix.EPERM, 5000, plenty, mover.ErrPermission},
	} {
		if got := kinded(unset(c.err, c.bytes, c.free)); !errors.Is(got, c.want) || errors.Is(got, mover.ErrFull) != (c.want == mover.ErrFull) {
			t.Errorf("%v of %d bytes, %d are free: %v, want %v", c.err, c.bytes, c.free, got, c.want)
		}
	}
}

// TestTooLargeAttribute: every way to set an attribute, on a file system that keeps a block of them for each file.
func TestTooLargeAttribute(t *testing.T) {
	large := []mover.Xattr{{Name: "user.large", Value: bytes.Repeat([]byte("x"), 5000)}}
	trusted := []mover.Xattr{{Name: "trusted.large", Value: large[0].Value}}
	p := opened(t, formatted(t, 16<<20, "mkfs.ext4", "-q"), Options{})
	for _, name := range []string{"there", "folder"} {
		if err := os.Mkdir(filepath.Join(p.String(), name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(p.String(), "old"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	entry := func(name string, kind mover.Kind, xattrs []mover.Xattr) mover.Entry {
		return mover.Entry{Name: name, Kind: kind, Xattrs: xattrs, Known: mover.FactXattrs, Target: "somewhere"}
	}
	for name, err := range map[string]error{
		"a new file":                publish(t, p, entry("file", mover.File, large), mover.Hints{}),
		"a new directory":           publish(t, p, entry("dir", mover.Dir, large), mover.Hints{}),
		"a new link":                publish(t, p, entry("link", mover.Symlink, trusted), mover.Hints{}),
		"a new FIFO":                publish(t, p, entry("fifo", mover.FIFO, trusted), mover.Hints{}),
		"an old file":               p.Update(t.Context(), entry("old", mover.File, large)),
		"a directory that was made": p.Update(t.Context(), entry("folder", mover.Dir, large)),
		"the root":                  p.Update(t.Context(), entry("", mover.Dir, large)),
	} {
		if !errors.Is(err, mover.ErrUnsupported) || errors.Is(err, mover.ErrFull) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := publish(t, p, entry("file", mover.File, []mover.Xattr{{Name: "user.small", Value: []byte("x")}}), mover.Hints{}); err != nil {
		t.Error(err)
	}
}
