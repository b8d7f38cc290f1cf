package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// TestHostile: what a user can put into the directory is looked at, and neither followed, nor waited for, nor read.
//
//safety:5/jobs checkpoints that are torn, half written by some of the nodes, or made to look complete; directories with links, fifos and a million entries
func TestHostile(t *testing.T) {
	outside := made(t, "secret/.metadata", "secret/__0_0.distcp")
	dir := made(t, "step_1/.metadata", "step_2/.metadata")
	must.Do(t, os.Symlink(filepath.Join(outside, "secret"), filepath.Join(dir, "step_3")))
	must.Do(t, os.Symlink("..", filepath.Join(dir, "step_1/up")))
	must.Do(t, unix.Mkfifo(filepath.Join(dir, "latest"), 0o644))
	must.Do(t, unix.Mkfifo(filepath.Join(dir, "step_2/pipe"), 0o644))
	must.Do(t, os.Mkdir(filepath.Join(dir, "\xff\n"), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(dir, "\xff\n/.metadata"), []byte("x"), 0o644))
	must.Do(t, os.WriteFile(filepath.Join(dir, mover.TempPrefix+"1-2-3"), nil, 0o644))
	v := found(t, DCP, dir)
	want := "+step_1@.metadata; -step_2: pipe is no file; +\xff\n@.metadata; latest; step_3"
	if got := printed(v); got != want {
		t.Errorf("%q\nwant %q", got, want)
	}
	if name, err := Newest(t.Context(), opened(t, dir), DCP, Limits{}); err != nil || name != "step_1" {
		t.Errorf("%q, %v", name, err)
	}
}

// TestBounds: a tree that is too wide or too deep is refused, and a tracker that is too long is none.
func TestBounds(t *testing.T) {
	wide := t.TempDir()
	for i := range 300 {
		must.Do(t, os.WriteFile(filepath.Join(wide, strconv.Itoa(i)), nil, 0o644))
	}
	if _, err := Read(t.Context(), opened(t, wide), Limits{Entries: 299}); !errors.Is(err, mover.ErrRefused) {
		t.Errorf("wide: %v", err)
	}
	if tree, err := Read(t.Context(), opened(t, wide), Limits{Entries: 300}); err != nil || len(tree.Entries) != 300 {
		t.Errorf("as wide as may be: %d, %v", len(tree.Entries), err)
	}
	deep := t.TempDir()
	must.Do(t, os.MkdirAll(filepath.Join(deep, strings.Repeat("a/", 17)), 0o755))
	if _, err := Read(t.Context(), opened(t, deep), Limits{}); !errors.Is(err, mover.ErrRefused) {
		t.Errorf("deep: %v", err)
	}
	long := made(t, "a/mp_rank_00_model_states.pt", "latest=a"+strings.Repeat("\n", 5000))
	if got := printed(found(t, DeepSpeed, long)); got != "-a: latest does not say so; latest>" {
		t.Errorf("a long tracker: %s", got)
	}
}

// TestMounts: another file system in the directory is not entered.
//
//safety:5/jobs with TestHostile
func TestMounts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root mounts")
	}
	dir := made(t, "step_1/.metadata", "step_1/other/")
	at := filepath.Join(dir, "step_1/other")
	if err := unix.Mount("none", at, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("mounts are not allowed here: %v", err)
	}
	defer func() { must.Do(t, unix.Unmount(at, unix.MNT_DETACH)) }()
	must.Do(t, os.WriteFile(filepath.Join(at, "file"), []byte("x"), 0o644))
	if got := printed(found(t, DCP, dir)); got != "-step_1: other is no file" {
		t.Error(got)
	}
}

// TestStillThere: what is removed during a look is left out, and ends nothing.
func TestStillThere(t *testing.T) {
	dir := made(t, "step_1/.metadata")
	f := opened(t, filepath.Join(dir, "step_1"))
	must.Do(t, os.RemoveAll(filepath.Join(dir, "step_1")))
	if tree, err := Read(t.Context(), f, Limits{}); err != nil || len(tree.Entries) != 0 {
		t.Errorf("%v, %v", tree, err)
	}
}
