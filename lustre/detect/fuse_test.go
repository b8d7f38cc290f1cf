package detect

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"datamove.dev/lustre"
	"datamove.dev/test/must"
)

// TestServedByProcesses: a process decides what its mount is called, and is not believed
// where its answers tell something else.
func TestServedByProcesses(t *testing.T) {
	for _, want := range []struct {
		name, source string // of the mount
		kind         lustre.Kind
		words        string // of the reason that there are no quotas
	}{
		{"juicefs", "JuiceFS:vol", lustre.IsJuiceFS, "juicefs quota"},
		{"sshfs", "host:/", lustre.IsOther, "served by a process"},
		{"", "10.0.0.1@tcp:/lab", lustre.IsOther, "served by a process"},
		{"lustre", "10.0.0.1@tcp:/lab", lustre.IsOther, "served by a process"},
		{"ceph-fuse", "ceph-fuse", lustre.IsOther, "ceph"},
	} {
		t.Run(want.name, func(t *testing.T) {
			dir := served(t, want.name, want.source)
			s := opened(t, dir).System
			if s.Kind != want.kind || s.Mount != dir || s.Name != want.source || s.Quota != nil || s.Layout != nil || s.Usage == nil {
				t.Errorf("it is %+v", s)
			}
			if err := s.Lack(lustre.AskQuota); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), want.words) {
				t.Errorf("it says %v", err)
			}
		})
	}
}

// served mounts a directory that this process serves.
func served(t *testing.T, name, source string) string {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip("needs /dev/fuse: ", err)
	}
	from, dir := t.TempDir(), t.TempDir()
	root, err := fs.NewLoopbackRoot(from)
	must.Do(t, err)
	server, err := fs.Mount(dir, root, &fs.Options{MountOptions: fuse.MountOptions{Name: name, FsName: source}})
	if err != nil {
		t.Skip("needs FUSE: ", err)
	}
	t.Cleanup(func() {
		must.Do(t, server.Unmount())
		server.Wait()
	})
	return dir
}
