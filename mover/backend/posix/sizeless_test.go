package posix

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// TestContentWithoutSize: a file of size 0 that has content is refused, since no range of it would be read; one that was written to since the walk has
// changed, and an empty one is opened.
func TestContentWithoutSize(t *testing.T) {
	dir := memoryDir(t)
	for _, name := range []string{"empty", "grown"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
	}
	p, proc := open(t, dir, Options{}), open(t, "/proc", Options{})
	grown := statOf(t, p, "grown")
	must.Do(t, os.WriteFile(filepath.Join(dir, "grown"), []byte("x"), 0o644))
	for _, row := range []struct {
		place *Backend
		entry mover.Entry
		want  error
	}{
		{p, statOf(t, p, "empty"), nil},
		{p, grown, mover.ErrChanged},
		{proc, statOf(t, proc, "version"), mover.ErrUnsupported},
	} {
		c, err := row.place.Open(t.Context(), row.entry)
		if !errors.Is(err, row.want) || row.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", row.entry.Name, err, row.want)
		}
		if err == nil {
			must.Do(t, c.Close())
		}
	}
}
