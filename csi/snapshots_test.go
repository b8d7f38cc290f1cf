package csi

import (
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"datamove.dev/csi/volume"
	"datamove.dev/test/must"
)

// ofSnapshot is what a volume begins with.
func ofSnapshot(id string) *csi.VolumeContentSource {
	return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: id}}}
}

// TestSnapshotSize: a snapshot says how much room a volume of it needs, also when its own is gone, and no volume has less.
//
//safety:8 with csi/volumestore TestSmallRestore
func TestSnapshotSize(t *testing.T) {
	r := rigged(t)
	v := r.created(volume.Project, "vision", "home", 40*mib)
	s, err := r.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: "snap", SourceVolumeId: v.GetVolumeId()})
	must.Do(t, err)
	_, err = r.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: v.GetVolumeId()})
	must.Do(t, err)
	id := s.GetSnapshot().GetSnapshotId()
	got, err := r.GetSnapshot(t.Context(), &csi.GetSnapshotRequest{SnapshotId: id})
	must.Do(t, err)
	for _, size := range []int64{s.GetSnapshot().GetSizeBytes(), got.GetSnapshot().GetSizeBytes()} {
		if size != 40*mib {
			t.Errorf("it needs %d", size)
		}
	}
	restore := creation(volume.Project, "vision", "again", 20*mib)
	restore.VolumeContentSource = ofSnapshot(id)
	_, err = r.CreateVolume(t.Context(), restore)
	r.refused(err, codes.OutOfRange)
	restore.CapacityRange.RequiredBytes = 40 * mib
	_, err = r.CreateVolume(t.Context(), restore)
	must.Do(t, err)
}

// TestAskedAgain: who has lost an answer and asks again gets it, though what the volume was made of is gone by now.
//
//safety:5/volumes with csi/volumestore TestMadeIsFound
func TestAskedAgain(t *testing.T) {
	r := rigged(t)
	v := r.created(volume.Scratch, "vision", "tmp", 40*mib)
	snap := &csi.CreateSnapshotRequest{Name: "snap", SourceVolumeId: v.GetVolumeId()}
	s, err := r.CreateSnapshot(t.Context(), snap)
	must.Do(t, err)
	restore := creation(volume.Scratch, "vision", "again", 40*mib)
	restore.VolumeContentSource = ofSnapshot(s.GetSnapshot().GetSnapshotId())
	made, err := r.CreateVolume(t.Context(), restore)
	must.Do(t, err)
	_, err = r.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: v.GetVolumeId()})
	must.Do(t, err)
	if again, err := r.CreateSnapshot(t.Context(), snap); err != nil || again.GetSnapshot().GetSnapshotId() != s.GetSnapshot().GetSnapshotId() {
		t.Errorf("%v, %v", again, err)
	}
	_, err = r.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: s.GetSnapshot().GetSnapshotId()})
	must.Do(t, err)
	if again, err := r.CreateVolume(t.Context(), restore); err != nil || again.GetVolume().GetVolumeId() != made.GetVolume().GetVolumeId() {
		t.Errorf("%v, %v", again, err)
	}
}

// TestSnapshotWhere: a snapshot of scratch is on the node of its volume, and is refused where it has to be on another one; one of a
// file system that all nodes have is everywhere.
func TestSnapshotWhere(t *testing.T) {
	r := rigged(t)
	for kind, want := range map[volume.Kind]codes.Code{volume.Scratch: codes.ResourceExhausted, volume.Project: codes.OK} {
		v := r.created(kind, "vision", string(kind), 20*mib)
		q := &csi.CreateSnapshotRequest{Name: "snap of " + string(kind), SourceVolumeId: v.GetVolumeId()}
		q.AccessibilityRequirements = onNodes("n2")
		_, err := r.CreateSnapshot(t.Context(), q)
		r.refused(err, want)
		q.AccessibilityRequirements = onNodes("n2", "n1")
		s, err := r.CreateSnapshot(t.Context(), q)
		must.Do(t, err)
		if got := s.GetSnapshot().GetAccessibleTopology(); len(got) == 1 != (kind == volume.Scratch) {
			t.Errorf("%v", got)
		}
	}
}

// TestSnapshotParameters: what the sidecar says of whom a snapshot is for is taken, and all else is refused by its name.
func TestSnapshotParameters(t *testing.T) {
	r := rigged(t)
	v := r.created(volume.Project, "vision", "home", 20*mib)
	q := &csi.CreateSnapshotRequest{Name: "snap", SourceVolumeId: v.GetVolumeId(), Parameters: map[string]string{
		"csi.storage.k8s.io/volumesnapshot/name": "snap", "csi.storage.k8s.io/volumesnapshot/namespace": "vision", "csi.storage.k8s.io/volumesnapshotcontent/name": "content"}}
	_, err := r.CreateSnapshot(t.Context(), q)
	must.Do(t, err)
	q.Parameters["compress"] = "true"
	_, err = r.CreateSnapshot(t.Context(), q)
	r.refused(err, codes.InvalidArgument)
}
