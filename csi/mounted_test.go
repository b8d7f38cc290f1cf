package csi

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"datamove.dev/csi/mount"
	"datamove.dev/csi/volume"
	"datamove.dev/test/must"
)

// TestKeepMounted: a file system that the driver mounts is mounted when it can be, whatever becomes of another one, and again when it was
// taken away; and nothing is made where it is not.
//
//safety:8 a file system that can not be mounted keeps no other waiting, and no call; it is tried until it is there, and never mounted over itself
func TestKeepMounted(t *testing.T) {
	r := rigged(t)
	dir := t.TempDir()
	system := func(name, root, kind string) {
		r.driver.Config.FileSystems[name] = FileSystem{Use: volume.Project, Root: root, Volumes: "k8s", Unenforced: true, Mount: &Mount{Type: kind, Source: name}}
	}
	late, link := filepath.Join(dir, "late/root"), filepath.Join(dir, "link")
	must.Do(t, os.Symlink("late", link))
	system("late", filepath.Join(link, "root"), "tmpfs")
	system("never", filepath.Join(dir, "never"), "none-such")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); r.driver.KeepMounted(ctx, 20*time.Millisecond) }()
	t.Cleanup(func() { stop(); <-ended; must.Do(t, mount.Unmount(late, mount.Detach)) })
	mounted := func() {
		t.Helper()
		for limit := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			if _, there, err := mount.At(late); there || err != nil {
				must.Do(t, err)
				return
			}
			if time.Now().After(limit) {
				t.Fatal("it is not mounted")
			}
		}
	}
	q := creation(volume.Project, "vision", "home", 20*mib)
	q.Parameters["fileSystem"] = "never"
	must.Do(t, os.MkdirAll(filepath.Join(dir, "never"), 0o755))
	_, err := r.CreateVolume(t.Context(), q)
	r.refused(err, codes.Unavailable)

	must.Do(t, os.Mkdir(filepath.Join(dir, "late"), 0o755))
	mounted()
	f := r.driver.Config.FileSystems["late"]
	must.Do(t, r.driver.Files.Mount(t.Context(), "late", f.Mount.spec(), f.Root))
	if table, err := mount.Table(late); err != nil || len(table) != 1 {
		t.Errorf("mounted over itself: %v, %v", table, err)
	}
	must.Do(t, unix.Unmount(late, 0))
	mounted()
}
