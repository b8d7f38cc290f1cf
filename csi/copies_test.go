package csi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"datamove.dev/csi/volume"
	"datamove.dev/lustre"
	"datamove.dev/mover/config"
	"datamove.dev/test/must"
)

// unable has a file system that can neither clone nor hold volumes to a capacity: memory, which the mover calls memory.
func (r *kubelet) unable() {
	r.Helper()
	root := must.Get(os.MkdirTemp("/dev/shm", "csi-"))(r.T)
	r.Cleanup(func() { must.Do(r.T, os.RemoveAll(root)) })
	r.tiers = map[string]config.Tier{"memory": {Level: "warm", Path: root}}
	r.driver.Config.FileSystems["plain"] = FileSystem{Use: volume.Project, Kind: lustre.IsOther, Root: root, Volumes: "k8s", Unenforced: true, Tier: "memory"}
	r.staging()
}

// until makes a call as the sidecars do: again and again while it is under way.
func until[R any](r *kubelet, call func() (R, error)) (answer R) {
	r.Helper()
	r.service.Until("it is not under way any more", func() bool {
		var err error
		if answer, err = call(); status.Code(err) != codes.Aborted {
			must.Do(r.T, err)
		}
		return err == nil
	})
	return answer
}

// onPlain is a request for a volume on plain.
func onPlain(name string, from *csi.VolumeContentSource, more ...string) *csi.CreateVolumeRequest {
	q := creation(volume.Project, "vision", name, 20*mib)
	q.Parameters["fileSystem"], q.VolumeContentSource = "plain", from
	for i := 0; i < len(more); i += 2 {
		q.Parameters[more[i]] = more[i+1]
	}
	return q
}

// TestCopies: where the file system can not clone, the mover copies: into a snapshot, and out of it, and from volume to volume.
func TestCopies(t *testing.T) {
	r := rigged(t)
	r.unable()
	create := func(q *csi.CreateVolumeRequest) *csi.Volume {
		return until(r, func() (*csi.CreateVolumeResponse, error) { return r.CreateVolume(t.Context(), q) }).GetVolume()
	}
	v := create(onPlain("home", nil))
	q := r.publication(v.GetVolumeId(), "vision", "train")
	target := r.published(q)
	must.Do(t, os.MkdirAll(filepath.Join(target, "run/1"), 0o750))
	must.Do(t, os.WriteFile(filepath.Join(target, "run/1/ckpt"), []byte("kept"), 0o640))
	must.Do(t, os.Symlink("/etc/passwd", filepath.Join(target, "link")))
	s := until(r, func() (*csi.CreateSnapshotResponse, error) {
		return r.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: "snap", SourceVolumeId: v.GetVolumeId()})
	}).GetSnapshot()
	must.Do(t, os.WriteFile(filepath.Join(target, "run/1/ckpt"), []byte("lost"), 0o640))
	for name, from := range map[string]*csi.VolumeContentSource{
		"kept": {Type: &csi.VolumeContentSource_Snapshot{Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: s.GetSnapshotId()}}},
		"lost": {Type: &csi.VolumeContentSource_Volume{Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: v.GetVolumeId()}}},
	} {
		copied := create(onPlain(name, from, "uid", "1000", "gid", "2000"))
		q := r.publication(copied.GetVolumeId(), "vision", "look-"+name)
		at := r.published(q)
		if got, err := os.ReadFile(filepath.Join(at, "run/1/ckpt")); err != nil || string(got) != name {
			t.Errorf("%q, %v", got, err)
		}
		if to, err := os.Readlink(filepath.Join(at, "link")); err != nil || to != "/etc/passwd" {
			t.Errorf("%q, %v", to, err)
		}
		var top unix.Stat_t
		if err := unix.Stat(at, &top); err != nil || top.Mode&0o7777 != 0o1777 || top.Uid != 1000 || top.Gid != 2000 {
			t.Errorf("%+v, %v", top, err)
		}
		r.unpublished(q)
		_, err := r.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: copied.GetVolumeId()})
		must.Do(t, err)
		// Its name again, and empty: what was copied once is not taken for this one.
		again := create(onPlain(name, nil))
		q = r.publication(again.GetVolumeId(), "vision", "look-"+name)
		if entries, err := os.ReadDir(r.published(q)); err != nil || len(entries) != 0 {
			t.Errorf("%v, %v", entries, err)
		}
	}
}

// TestCopyNobodyMakes: without a mover it is said at once, and a removal in the middle ends the copy.
//
//safety:8 with csi/volumestore TestFailedForGood
func TestCopyNobodyMakes(t *testing.T) {
	r := rigged(t)
	r.unable()
	v, err := r.CreateVolume(t.Context(), onPlain("home", nil))
	must.Do(t, err)
	from := &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: v.GetVolume().GetVolumeId()}}}
	_, err = r.CreateVolume(t.Context(), onPlain("copy", from))
	r.refused(err, codes.Aborted) // it is on its way
	// Nobody comes back to it for a day: its copy ends with it.
	must.Do(t, r.driver.forsake(t.Context(), "plain", time.Now().Add(25*time.Hour)))
	making, err := os.ReadDir(filepath.Join(r.driver.Config.FileSystems["plain"].Root, "k8s/making"))
	if err != nil || len(making) != 0 {
		t.Errorf("%v, %v", making, err)
	}
	_, err = r.CreateVolume(t.Context(), onPlain("copy", from))
	r.refused(err, codes.Aborted)
	begun, err := volume.ParseID(v.GetVolume().GetVolumeId())
	must.Do(t, err)
	making, err = os.ReadDir(filepath.Join(r.driver.Config.FileSystems["plain"].Root, "k8s/making"))
	must.Do(t, err)
	begun.Key = making[0].Name()
	_, err = r.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: begun.String()})
	must.Do(t, err)

	r.driver.Staging = nil
	_, err = r.CreateVolume(t.Context(), onPlain("copy", from))
	r.refused(err, codes.InvalidArgument)
	_, err = r.CreateVolume(t.Context(), onPlain("attic", nil, "onDelete", "archive", "archiveTo", "cold:attic"))
	r.refused(err, codes.InvalidArgument)
}

// TestArchive: a volume of such a class is copied to the colder tier before it is gone.
//
//safety:5/volumes with csi/volumestore TestRestore
func TestArchive(t *testing.T) {
	r := rigged(t)
	r.unable()
	v, err := r.CreateVolume(t.Context(), onPlain("home", nil, "onDelete", "archive", "archiveTo", "shared:attic", "trash", "0s"))
	must.Do(t, err)
	q := r.publication(v.GetVolume().GetVolumeId(), "vision", "train")
	must.Do(t, os.WriteFile(filepath.Join(r.published(q), "ckpt"), []byte("kept"), 0o640))
	r.unpublished(q)
	_, err = r.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: v.GetVolume().GetVolumeId()})
	must.Do(t, err)
	spec := r.driver.spec("plain")
	r.service.Until("it is archived", func() bool {
		left := must.Get(r.driver.archive(t.Context(), "plain"))(t)
		if left == 0 {
			return true
		}
		if gone, _, err := r.driver.Files.Reap(t.Context(), spec, time.Now()); gone > 0 || err != nil {
			t.Fatalf("%d, %v", gone, err)
		}
		return false
	})
	if gone, _, err := r.driver.Files.Reap(t.Context(), spec, time.Now()); gone != 1 || err != nil {
		t.Errorf("%d, %v", gone, err)
	}
	found, err := filepath.Glob(filepath.Join(r.shared, "attic/vision/home/*/ckpt"))
	must.Do(t, err)
	if got, err := os.ReadFile(strings.Join(found, "")); err != nil || string(got) != "kept" {
		t.Errorf("%q, %q, %v", found, got, err)
	}
}
