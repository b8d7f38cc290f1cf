package csi

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"datamove.dev/csi/volume"
	"datamove.dev/test/must"
)

// TestSwap: who exchanges a directory for a link again and again, while it is mounted, never gets mounted what is behind the link.
//
//safety:6 with TestTenants
func TestSwap(t *testing.T) {
	r := rigged(t)
	for _, dir := range []string{"team/vision/run", "team/vision/run2/data", "team/audio/data"} {
		must.Do(t, os.MkdirAll(filepath.Join(r.root, dir), 0o755))
	}
	must.Do(t, os.WriteFile(filepath.Join(r.root, "team/audio/data/secret"), nil, 0o644))
	run, aside, link := filepath.Join(r.root, "team/vision/run"), filepath.Join(r.root, "team/vision/run2"), filepath.Join(r.root, "team/vision/link")
	must.Do(t, os.Rename(aside, run+".x"))
	must.Do(t, os.Remove(run))
	must.Do(t, os.Rename(run+".x", run))
	must.Do(t, os.Symlink("../audio", link))
	stop := make(chan struct{})
	var swaps sync.WaitGroup
	swaps.Go(func() {
		for {
			select {
			case <-stop:
				return
			default: // what is at run is a directory of ours, and then a link to that of others
				if err := unix.Renameat2(unix.AT_FDCWD, run, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	defer swaps.Wait()
	defer close(stop)
	seen := map[codes.Code]int{}
	q := r.publication("v1:static:lab:vision", "vision", "pod")
	q.VolumeContext["path"] = "team/vision/run/data"
	for range 300 {
		_, err := r.NodePublishVolume(t.Context(), q)
		seen[status.Code(err)]++
		if err != nil {
			continue
		}
		if _, err := os.Lstat(filepath.Join(q.GetTargetPath(), "secret")); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("the directory of another team was mounted: %v", err)
		}
		r.unpublished(q)
	}
	if seen[codes.OK] == 0 || seen[codes.PermissionDenied] == 0 || len(seen) > 2 {
		t.Errorf("%v", seen)
	}
}

// TestFullDisk: where there is no room a volume is refused with a reason, nothing of it is left, and it is made
// when there is room again.
//
//safety:8 with csi/volumestore TestPromises
func TestFullDisk(t *testing.T) {
	r := riggedOn(t, 256<<20)
	big := filepath.Join(r.root, "big")
	if _, err := fill(big, 4<<30); !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	var refused []error
	for i := range 40 { // until the metadata is full, too
		_, err := r.CreateVolume(t.Context(), creation(volume.Project, "vision", string(rune('a'+i)), 20*mib))
		if err != nil {
			refused = append(refused, err)
		}
	}
	for _, err := range refused {
		r.refused(err, codes.ResourceExhausted)
	}
	t.Logf("%d of 40 were refused", len(refused))
	must.Do(t, os.Remove(big))
	r.created(volume.Project, "vision", "later", 20*mib)
}
