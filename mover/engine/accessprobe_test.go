package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/mover/location"
	"datamove.dev/test/must"
)

// opening is a backend of which the opening of some entries fails. It counts them all.
type opening struct {
	mover.Backend
	fails map[string]error
	n     int
}

func (o *opening) Open(ctx context.Context, e mover.Entry) (mover.Content, error) {
	o.n++
	if err := o.fails[e.Name]; err != nil {
		return nil, err
	}
	return o.Backend.Open(ctx, e)
}

// TestProbeAccess: the first file of each of the first folders is opened, and no other; what can not be opened is the answer, and what has changed or gone is none.
func TestProbeAccess(t *testing.T) {
	dir := t.TempDir()
	for i := range 3 * probeFolders {
		folder := filepath.Join(dir, fmt.Sprintf("d%02d", i))
		must.Do(t, os.Mkdir(folder, 0o700))
		for _, name := range []string{"a", "b"} {
			must.Do(t, os.WriteFile(filepath.Join(folder, name), []byte(name), 0o600))
		}
	}
	for _, row := range []struct {
		what  string
		fails map[string]error
		want  error
		opens int
	}{
		{"all is readable", nil, nil, probeFolders},
		{"the third folder has a file for others", map[string]error{"d02/a": mover.ErrPermission}, mover.ErrPermission, 3},
		{"the second file of a folder is not looked at", map[string]error{"d02/b": mover.ErrPermission}, nil, probeFolders},
		{"one changes and one goes meanwhile", map[string]error{"d00/a": mover.ErrChanged, "d01/a": mover.ErrNotExist}, nil, probeFolders},
		{"after the last folder", map[string]error{fmt.Sprintf("d%02d/a", probeFolders): mover.ErrPermission}, nil, probeFolders},
	} {
		place := &opening{Backend: must.Get(posix.Open(dir, posix.Options{}))(t), fails: row.fails}
		err := ProbeAccess(t.Context(), location.OfPath(dir), func(context.Context, location.Location, OpenOptions) (mover.Backend, error) { return place, nil })
		if !errors.Is(err, row.want) || place.n != row.opens {
			t.Errorf("%s: %v after %d were opened", row.what, err, place.n)
		}
	}
}
