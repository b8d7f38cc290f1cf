package posix

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/backendtest"
	"datamove.dev/test/casefold"
	"datamove.dev/test/loopfs"
	"datamove.dev/test/must"
)

// folding are file systems that take names of different bytes for one. Kernels of many machines have none.
var folding = []struct {
	name  string
	mount func(t *testing.T) string
}{
	{"served", func(t *testing.T) string { return casefold.Mount(t) }},
	{"ext4", func(t *testing.T) string {
		dir := loopfs.Mount(t, loopfs.Spec{Type: "ext4", Make: []string{"-q", "-O", "casefold"}, Rare: true})
		folded := filepath.Join(dir, "folded") // the flag is that of an empty directory
		must.Do(t, os.Mkdir(folded, 0o755))
		d := must.Get(os.Open(folded))(t)
		defer d.Close()
		flags := must.Get(unix.IoctlGetUint32(int(d.Fd()), unix.FS_IOC_GETFLAGS))(t)
		must.Do(t, unix.IoctlSetPointerInt(int(d.Fd()), unix.FS_IOC_SETFLAGS, int(flags|casefoldFlag)))
		return folded
	}},
	{"vfat", func(t *testing.T) string {
		return loopfs.Mount(t, loopfs.Spec{Type: "vfat", Bytes: 64 << 20, Options: "iocharset=ascii", Rare: true})
	}},
}

const casefoldFlag = 0x40000000 // FS_CASEFOLD_FL of linux/fs.h

// TestNamesakes: what is published never takes the place of an entry of another spelling, and that is told with its name.
//
//safety:1 a name that the target's file system takes for another one
func TestNamesakes(t *testing.T) {
	for _, system := range folding {
		t.Run(system.name, func(t *testing.T) {
			dir := system.mount(t)
			p := must.Get(Open(dir, Options{}))(t)
			defer p.Close()
			put := func(name, content string) error {
				return backendtest.TryPut(t.Context(), p, mover.Entry{Name: name, Kind: mover.File, Size: int64(len(content))}, []byte(content))
			}
			is := func(err error, other string) {
				t.Helper()
				if !errors.Is(err, mover.ErrConflict) || !errors.Is(err, mover.ErrNamesake) || !strings.Contains(err.Error(), other) {
					t.Errorf("%v; want a conflict with %s", err, other)
				}
			}
			must.Do(t, put("ReadMe", "1"))
			must.Do(t, put("ReadMe", "2")) // the very name
			is(put("README", "3"), "ReadMe")
			is(put("readme", "3"), "ReadMe")
			must.Do(t, put("other", "4"))
			is(p.Mkdir(t.Context(), mover.Entry{Name: "readME", Kind: mover.Dir}), "ReadMe")
			must.Do(t, p.Mkdir(t.Context(), mover.Entry{Name: "Dir", Kind: mover.Dir}))
			must.Do(t, p.Mkdir(t.Context(), mover.Entry{Name: "Dir", Kind: mover.Dir})) // the very name
			is(p.Mkdir(t.Context(), mover.Entry{Name: "dIR", Kind: mover.Dir}), "Dir")
			is(p.Spelled(t.Context(), "dir"), "Dir")
			must.Do(t, p.Spelled(t.Context(), "Dir"))

			// A directory that is built under a temporary name.
			by := mover.WriterID{Task: "test", Epoch: 1}
			d := must.Get(p.Draft(t.Context(), mover.Entry{Name: "dir", Kind: mover.Dir}, mover.Hints{By: by}))(t)
			in := func(name string) (mover.Draft, error) {
				return p.Draft(t.Context(), mover.Entry{Name: name, Kind: mover.File}, mover.Hints{By: by, In: d})
			}
			file := must.Get(in("dir/File"))(t)
			_, err := in("dir/fILE")
			is(err, "File")
			must.Do(t, file.Finish(t.Context(), mover.Entry{Name: "dir/File", Kind: mover.File}, nil))
			must.Do(t, d.Finish(t.Context(), mover.Entry{Name: "dir", Kind: mover.Dir}, nil))
			for _, o := range p.Publish(t.Context(), []mover.Draft{d, file}) {
				if !errors.Is(o.Err, mover.ErrConflict) {
					t.Errorf("published beside its namesake: %v", o.Err)
				}
			}
			must.Do(t, d.Close())

			var names []string
			for e, err := range p.Walk(t.Context(), mover.WalkOptions{}) {
				must.Do(t, err)
				names = append(names, e.Name)
			}
			if slices.Sort(names); !slices.Equal(names, []string{"Dir", "ReadMe", "other"}) {
				t.Errorf("there is %q", names)
			}
			if b := must.Get(os.ReadFile(filepath.Join(dir, "ReadMe")))(t); string(b) != "2" {
				t.Errorf("ReadMe is %q", b)
			}
		})
	}
}
