package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/server/osaccount"
	"datamove.dev/test/must"
)

// TestShelf: the folders that datasets are staged to belong to who stages, and to nobody of
// the users around it.
//
//safety:6 with test/cluster TestPurgeStaysInItsTier
func TestShelf(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root makes folders for others")
	}
	dir := t.TempDir()
	a := &Agent{o: Options{Config: func() *config.Config {
		return &config.Config{Tiers: map[string]config.Tier{"scratch": {Level: "hot", Path: dir}, "archive": {Level: "cold", S3: &config.S3{Bucket: "b"}}}}
	}}}
	digest := strings.Repeat("a", 64)
	spec := func(kind pb.TaskKind, target string) *pb.TaskSpec {
		return &pb.TaskSpec{Kind: kind, Target: target, Staging: &pb.Staging{Dataset: "d"}}
	}
	stage, release := pb.TaskKind_TASK_KIND_STAGE, pb.TaskKind_TASK_KIND_RELEASE
	owner := func(path string) (uid uint32, mode fs.FileMode) {
		t.Helper()
		info := must.Get(os.Lstat(filepath.Join(dir, path)))(t)
		return info.Sys().(*syscall.Stat_t).Uid, info.Mode().Perm()
	}
	makeShelf := func(s *pb.TaskSpec, uid uint32) error {
		return a.prepareReplicas(t.Context(), &process{job: &agentv1.Job{Spec: s}}, osaccount.Account{UID: uid, GID: uid})
	}
	for at, uid := range map[string]uint32{"a": 1001, "b": 1002, "c/data": 1003} {
		must.Do(t, makeShelf(spec(stage, "scratch:.datasets/d/"+at), uid))
	}
	for path, want := range map[string]uint32{".datasets": 0, ".datasets/d": 0, ".datasets/d/a": 1001, ".datasets/d/b": 1002, ".datasets/d/c/data": 1003} {
		if uid, mode := owner(path); uid != want || mode != 0o755 {
			t.Errorf("%s is of %d with %o", path, uid, mode)
		}
	}
	if uid, mode := owner(".datasets/d/c"); uid != 0 || mode != 0o710 {
		t.Errorf("the gate is of %d with %o", uid, mode)
	}
	for _, other := range []*pb.TaskSpec{
		spec(stage, "archive:.datasets/x/"+digest), spec(stage, "scratch:x/y/z"), spec(stage, "scratch:.datasets/x"), spec(stage, "gone:.datasets/x/y"),
		spec(stage, "/tmp/.datasets/x"), spec(pb.TaskKind_TASK_KIND_COPY, "scratch:.datasets/x/y"),
	} {
		if err := makeShelf(other, 1001); err != nil {
			t.Errorf("%v: %v", other, err)
		}
	}
	if _, err := os.Lstat(dir + "/.datasets/x"); err == nil {
		t.Error("a folder was made that nobody stages a dataset to")
	}

	for _, err := range []error{os.Mkdir(dir+"/out", 0o755), os.Symlink(dir+"/out", dir+"/.datasets/evil"), os.WriteFile(dir+"/.datasets/d/b/f", nil, 0o644)} {
		must.Do(t, err)
	}
	if err := makeShelf(spec(stage, "scratch:.datasets/evil/x"), 1001); !errors.Is(err, mover.ErrConflict) {
		t.Errorf("behind a link: %v", err)
	}
	for _, target := range []string{"scratch:.datasets/evil/x", "scratch:.datasets/d/a", "scratch:.datasets/d/b", "scratch:.datasets/d/c/data"} {
		a.clearReplica(spec(release, target))
	}
	if _, err := os.Lstat(dir + "/.datasets/d/a"); err == nil {
		t.Error("an empty folder stays")
	}
	if _, err := os.Lstat(dir + "/.datasets/d/b/f"); err != nil {
		t.Error(err)
	}
	must.Do(t, os.Remove(dir+"/.datasets/d/b/f"))
	a.clearReplica(spec(release, "scratch:.datasets/d/b"))
	if _, err := os.Lstat(dir + "/.datasets/d"); err == nil {
		t.Error("the folder of a name that has nothing stays")
	}
	if left, err := os.ReadDir(dir + "/out"); err != nil || len(left) > 0 {
		t.Errorf("outside there is %v, %v", left, err)
	}
}
