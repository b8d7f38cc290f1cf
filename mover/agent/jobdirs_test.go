package agent

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/server/osaccount"
	"datamove.dev/test/must"
)

// TestHome: who writes to a directory of their own gets it, and nobody gets one that others will be given.
//
//safety:6 with tiering/slurm TestForeign
func TestHome(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root makes directories for others")
	}
	dir, out := t.TempDir(), t.TempDir()
	a := &Agent{o: Options{Config: func() *config.Config {
		return &config.Config{Tiers: map[string]config.Tier{
			"scratch": {Level: "hot", Path: dir, NodeLocal: true, Ephemeral: true}, "shared": {Level: "warm", Path: dir}, "kept": {Level: "hot", Path: dir, NodeLocal: true},
			"archive": {Level: "cold", S3: &config.S3{Bucket: "b"}},
		}}
	}}}
	alice := osaccount.Account{UID: 1001, GID: 1002}
	begin := func(kind pb.TaskKind, target string) error {
		return a.makeJobDirs(t.Context(), &pb.TaskSpec{Kind: kind, Target: target}, alice)
	}
	const copying = pb.TaskKind_TASK_KIND_COPY
	for range 2 {
		must.Do(t, begin(copying, "scratch:jobs/7.1001/imagenet"))
	}
	for path, want := range map[string]struct{ uid, gid, mode uint32 }{"jobs": {0, 0, 0o711}, "jobs/7.1001": {1001, 1002, 0o700}} {
		info := must.Get(os.Lstat(filepath.Join(dir, path)))(t)
		if st := info.Sys().(*syscall.Stat_t); st.Uid != want.uid || st.Gid != want.gid || st.Mode&0o7777 != want.mode {
			t.Errorf("%s is of %d:%d with %04o", path, st.Uid, st.Gid, st.Mode)
		}
	}
	if _, err := os.Lstat(dir + "/jobs/7.1001/imagenet"); err == nil {
		t.Error("what the task makes itself was made")
	}
	for _, target := range []string{
		"scratch:jobs/8.1002/x", "scratch:jobs/8.11001/x", "scratch:jobs/8/x", "scratch:jobs/81001", "scratch:jobs", "scratch:other/8.1001/x", "shared:jobs/8.1001/x", "kept:jobs/8.1001/x",
		"archive:jobs/8.1001/x", "gone:jobs/8.1001/x", dir + "/jobs/8.1001/x", "scratch:jobs/../8.1001/x",
	} {
		if err := begin(copying, target); err != nil && !errors.Is(err, mover.ErrUsage) {
			t.Errorf("%s: %v", target, err)
		}
	}
	must.Tell(t, begin(pb.TaskKind_TASK_KIND_REMOVE, "scratch:jobs/8.1001"))
	if left, err := os.ReadDir(dir + "/jobs"); err != nil || len(left) != 1 {
		t.Errorf("there are %v, %v", left, err)
	}
	must.Do(t, errors.Join(os.RemoveAll(dir+"/jobs"), os.Symlink(out, dir+"/jobs")))
	if err := begin(copying, "scratch:jobs/9.1001/x"); !errors.Is(err, mover.ErrConflict) {
		t.Errorf("behind a link: %v", err)
	}
	if left, err := os.ReadDir(out); err != nil || len(left) > 0 {
		t.Errorf("outside there is %v, %v", left, err)
	}
}
