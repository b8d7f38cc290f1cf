package csi

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"datamove.dev/csi/mount"
	"datamove.dev/csi/volume"
	"datamove.dev/test/must"
)

// separately has volumes of lab mounted each by itself.
func (r *kubelet) separately() {
	r.Helper()
	m, mounted, err := mount.At(r.root)
	if must.Do(r.T, err); !mounted {
		r.Fatal("lab is not mounted")
	}
	f := r.driver.Config.FileSystems["lab"]
	f.Mount, f.MountPerVolume = &Mount{Type: "btrfs", Source: m.Source}, true
	r.driver.Config.FileSystems["lab"] = f
}

// staged mounts a volume for a node, and returns where.
func (r *kubelet) staged(id string) *csi.NodeStageVolumeRequest {
	r.Helper()
	q := &csi.NodeStageVolumeRequest{VolumeId: id, StagingTargetPath: filepath.Join(r.pods, "staged-"+id[len(id)-8:]), VolumeCapability: writer()}
	must.Do(r.T, os.Mkdir(q.GetStagingTargetPath(), 0o750))
	for range 2 { // the kubelet asks twice
		_, err := r.NodeStageVolume(r.Context(), q)
		must.Do(r.T, err)
	}
	return q
}

// TestOwnMount: a volume that is mounted by itself is one mount on a node, of which its pods have binds; and it is nothing else
// than the directory of the volume.
func TestOwnMount(t *testing.T) {
	r := rigged(t)
	r.separately()
	v := r.created(volume.Project, "vision", "home", 20*mib)
	q := r.publication(v.GetVolumeId(), "vision", "train")
	q2 := r.publication(v.GetVolumeId(), "vision", "look")
	_, err := r.NodePublishVolume(t.Context(), q)
	r.refused(err, codes.FailedPrecondition) // it is not staged
	s := r.staged(v.GetVolumeId())
	q.StagingTargetPath, q2.StagingTargetPath = s.GetStagingTargetPath(), s.GetStagingTargetPath()
	target, other := r.published(q), r.published(q2)
	if n, err := fill(filepath.Join(target, "a"), 40*mib); !errors.Is(err, syscall.EDQUOT) || n > 20*mib {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := os.Stat(filepath.Join(other, "a")); err != nil {
		t.Error(err)
	}
	alone := r.publication(v.GetVolumeId(), "vision", "alone")
	alone.StagingTargetPath, alone.VolumeCapability = s.GetStagingTargetPath(), able(csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER)
	_, err = r.NodePublishVolume(t.Context(), alone)
	r.refused(err, codes.FailedPrecondition)
	r.unpublished(q)
	r.unpublished(q2)
	r.published(alone)
	r.unpublished(alone)
	unstage := &csi.NodeUnstageVolumeRequest{VolumeId: v.GetVolumeId(), StagingTargetPath: s.GetStagingTargetPath()}
	for range 2 {
		_, err := r.NodeUnstageVolume(t.Context(), unstage)
		must.Do(t, err)
	}
	if _, mounted, err := mount.At(s.GetStagingTargetPath()); mounted || err != nil {
		t.Errorf("%t, %v", mounted, err)
	}
}

// TestOwnMountOfOthers: what is mounted already where a volume is to be staged is not taken for it, nor is what was put
// in its place.
//
//safety:6 with csi/mount TestBindRefuses
func TestOwnMountOfOthers(t *testing.T) {
	r := rigged(t)
	r.separately()
	v, w := r.created(volume.Project, "vision", "home", 20*mib), r.created(volume.Project, "audio", "home", 20*mib)
	s := r.staged(w.GetVolumeId())
	_, err := r.NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{VolumeId: v.GetVolumeId(), StagingTargetPath: s.GetStagingTargetPath(), VolumeCapability: writer()})
	r.refused(err, codes.FailedPrecondition)
	q := r.publication(v.GetVolumeId(), "vision", "train")
	q.StagingTargetPath = s.GetStagingTargetPath()
	_, err = r.NodePublishVolume(t.Context(), q)
	r.refused(err, codes.FailedPrecondition)

	link := filepath.Join(r.pods, "link")
	must.Do(t, os.Symlink(r.root, link))
	q.StagingTargetPath = link
	if _, err = r.NodePublishVolume(t.Context(), q); err == nil {
		t.Error("a link was mounted")
	}
	foreign := filepath.Join(r.pods, "foreign")
	must.Do(t, os.Mkdir(foreign, 0o755))
	must.Do(t, unix.Mount("none", foreign, "tmpfs", 0, ""))
	_, err = r.NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{VolumeId: v.GetVolumeId(), StagingTargetPath: foreign, VolumeCapability: writer()})
	r.refused(err, codes.FailedPrecondition)
	for _, label := range []string{`context="a"`, `context="u:r:t:s0",suid`, "context=u:r:t:s0 x", `context="u:r:t:s0""`} {
		_, err := r.NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{VolumeId: v.GetVolumeId(), StagingTargetPath: filepath.Join(r.pods, "label"), VolumeCapability: writer(label)})
		r.refused(err, codes.InvalidArgument)
	}
}
