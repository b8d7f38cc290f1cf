package posix

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/remedy"
	"datamove.dev/test/must"
)

// TestInTheWay: a file in the place of a directory is named, wherever on the way it is, however the directory is opened, and has a remedy.
func TestInTheWay(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	for _, row := range []struct{ path, want string }{
		{file, "open " + file + ": it is a file, and no directory"},
		{file + "/a/b", "open " + file + "/a/b: " + file + ", above it, is a file, and no directory"},
	} {
		for name, o := range map[string]Options{
			"to read": {}, "to write": {Create: true},
			"to write below a root": {Create: true, Inside: []string{dir}}, "to write beneath a directory": {Create: true, Beneath: dir},
		} {
			_, err := Open(row.path, o)
			if err == nil || err.Error() != row.want || !errors.Is(err, mover.ErrConflict) {
				t.Errorf("%s: %v, want %s", name, err, row.want)
			}
			if try := remedy.About(err); !strings.Contains(try, "removal of the file") {
				t.Errorf("%s: try %q", name, try)
			}
		}
	}
	_, err := Open(dir, Options{Backup: file + "/old"})
	if err == nil || !strings.Contains(err.Error(), "backup directory "+file+"/old: "+file+", above it, is a file") {
		t.Errorf("as the backup directory: %v", err)
	}
}
