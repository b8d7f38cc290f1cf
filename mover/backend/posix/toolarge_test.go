package posix

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"datamove.dev/mover"
)

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
