package localfs

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/test/loopfs"
	"datamove.dev/test/must"
)

// TestProjectIDs needs no quotas: IDs are set, inherited, read by descriptors old and new.
func TestProjectIDs(t *testing.T) {
	for _, f := range withProjects {
		t.Run(string(f.kind), func(t *testing.T) {
			spec := f.count
			if f.kind == lustre.IsXFS {
				spec.Options = "" // xfs has IDs without quotas
			}
			dir := loopfs.Mount(t, spec)
			projectIDs(t, dir, asked(t, f.kind, dir, false))
		})
	}
}

func projectIDs(t *testing.T, dir string, q *Projects) {
	must.Do(t, os.Mkdir(dir+"/p", 0o755))
	must.Do(t, os.WriteFile(dir+"/p/old", nil, 0o644))
	before, file := opened(t, dir+"/p"), opened(t, dir+"/p/old")
	p := lustre.Project{ID: 4242, Inherit: true}
	must.Do(t, q.SetProject(t.Context(), before, p))
	must.Do(t, os.MkdirAll(dir+"/p/a/b", 0o755))
	must.Do(t, os.WriteFile(dir+"/p/a/b/f", nil, 0o644))
	for name, want := range map[string]lustre.Project{"": {}, "/p": p, "/p/a": p, "/p/a/b": p, "/p/a/b/f": {ID: 4242}, "/p/old": {}} {
		if got := projectOf(t, q, dir+name); got != want {
			t.Errorf("%s is under %+v instead of %+v", name, got, want)
		}
	}
	if got, err := q.Project(t.Context(), before); err != nil || got != p {
		t.Errorf("the descriptor from before says %+v, %v", got, err)
	}
	for _, id := range []uint32{0, 1, 1 << 31, MaxProject} {
		want := lustre.Project{ID: id, Inherit: id%2 == 0}
		must.Do(t, q.SetProject(t.Context(), before, want))
		if got := projectOf(t, q, dir+"/p"); got != want {
			t.Errorf("it is %+v instead of %+v", got, want)
		}
	}
	for _, bad := range []lustre.Project{{ID: math.MaxUint32}, {Name: "fileset"}} {
		refused(t, q.SetProject(t.Context(), before, bad), fs.ErrInvalid, "from 0 to")
	}
	if err := ioctl(before, setAttribute, func() []byte { a, _ := readAttribute(before); a.put(lustre.Project{ID: math.MaxUint32}); return a[:] }()); !errors.Is(err, unix.EINVAL) {
		t.Errorf("the kernel is asked for the ID that means none: %v", err)
	}
	refused(t, q.SetProject(t.Context(), file, p), fs.ErrInvalid, "directory")
	if got, err := q.Project(t.Context(), file); err != nil || got.ID != 0 {
		t.Errorf("a file that is no directory was put under %+v, %v", got, err)
	}
	asNobody(t, func() {
		refused(t, q.SetProject(t.Context(), before, p), fs.ErrPermission, "owner")
	})
	// What is its own, an ordinary user may take out of its project: these quotas are no fence.
	must.Do(t, os.Chown(dir+"/p", nobody, nobody))
	asNobody(t, func() { must.Do(t, q.SetProject(t.Context(), before, lustre.Project{ID: 7})) })
	if got, err := q.Project(t.Context(), file); err != nil || got.ID != 0 {
		t.Errorf("a file that was there is under %+v, %v", got, err)
	}
	must.Do(t, os.Chown(dir+"/p", 0, 0))
}
