package posix_test

import (
	"errors"
	"strings"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/test/must"
)

// TestLongNames: a name that the file system does not take is refused with the mark that no entry here can have it.
func TestLongNames(t *testing.T) {
	p := must.Get(posix.Open(t.TempDir(), posix.Options{}))(t)
	defer p.Close()
	long := strings.Repeat("n", 256)
	for _, name := range []string{long, long + "/f"} {
		for kind, refused := range map[mover.Kind]func(e mover.Entry) error{
			mover.Symlink: func(e mover.Entry) error { // a file, too, is refused when it gets its name
				d, err := p.Draft(t.Context(), e, mover.Hints{By: mover.WriterID{Task: "t"}})
				if err != nil {
					return err
				}
				defer d.Close()
				must.Do(t, d.Finish(t.Context(), e, nil))
				return p.Publish(t.Context(), []mover.Draft{d})[0].Err
			},
			mover.Dir: func(e mover.Entry) error { return p.Mkdir(t.Context(), e) },
		} {
			if err := refused(mover.Entry{Name: name, Kind: kind, Target: map[mover.Kind]string{mover.Symlink: "x"}[kind]}); !errors.Is(err, mover.ErrNoSuchName) || !errors.Is(err, mover.ErrUnsupported) {
				t.Errorf("%v %q: %v", kind, name, err)
			}
		}
	}
}
