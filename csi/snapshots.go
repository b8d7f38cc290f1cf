package csi

import (
	"context"
	"errors"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/timestamppb"

	"datamove.dev/csi/volume"
	"datamove.dev/csi/volumestore"
	"datamove.dev/mover"
)

// CreateSnapshot makes a snapshot of a volume, or finds it made.
func (d *Driver) CreateSnapshot(ctx context.Context, q *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	if q.GetName() == "" || q.GetSourceVolumeId() == "" {
		return nil, fmt.Errorf("%w: a snapshot needs a name and a source volume", mover.ErrUsage)
	}
	for name := range q.GetParameters() {
		if volume.FromKubernetes(name) {
			continue
		}
		return nil, fmt.Errorf("%w: a VolumeSnapshotClass of this driver has no parameters, and one is %s", mover.ErrUsage, mover.Printable(name))
	}
	id, _, err := d.known(q.GetSourceVolumeId())
	switch {
	case err != nil:
		return nil, err
	case id.Kind != volume.Project && id.Kind != volume.Scratch:
		return nil, fmt.Errorf("%w: of %s no snapshot can be made: the driver did not make it", mover.ErrUsage, id)
	}
	if err := d.here(id.FileSystem, q.GetAccessibilityRequirements()); err != nil {
		return nil, err
	}
	w := volumestore.Wish{ID: volume.ID{Kind: volume.Snapshot, FileSystem: id.FileSystem}, Name: q.GetName(), From: &id}
	done, err := d.volumes.begin("snapshot:"+q.GetName(), "another creation")
	if err != nil {
		return nil, err
	}
	defer done()
	r, err := d.make(ctx, w)
	if err != nil {
		return nil, err
	}
	return &csi.CreateSnapshotResponse{Snapshot: d.snapshot(&r)}, nil
}

// snapshot is one as Kubernetes hears of it.
func (d *Driver) snapshot(r *volumestore.Record) *csi.Snapshot {
	s := &csi.Snapshot{SnapshotId: r.ID, SourceVolumeId: r.Asked.From, SizeBytes: r.Bytes, CreationTime: timestamppb.New(r.Created), ReadyToUse: true}
	if id, err := volume.ParseID(r.ID); err == nil && d.Config.FileSystems[id.FileSystem].Use == volume.Scratch {
		s.AccessibleTopology = d.topology()
	}
	return s
}

// DeleteSnapshot removes a snapshot.
func (d *Driver) DeleteSnapshot(ctx context.Context, q *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	id, spec, err := d.known(q.GetSnapshotId())
	switch {
	case q.GetSnapshotId() == "":
		return nil, err
	case errors.Is(err, mover.ErrNotExist), err == nil && id.Kind != volume.Snapshot:
		return &csi.DeleteSnapshotResponse{}, nil
	case err != nil:
		return nil, err
	}
	done, err := d.volumes.begin(id.String(), "another call")
	if err != nil {
		return nil, err
	}
	defer done()
	defer d.reapSoon()
	return &csi.DeleteSnapshotResponse{}, d.remove(ctx, spec, id, "DeleteSnapshot")
}

// GetSnapshot returns one.
func (d *Driver) GetSnapshot(ctx context.Context, q *csi.GetSnapshotRequest) (*csi.GetSnapshotResponse, error) {
	id, spec, err := d.known(q.GetSnapshotId())
	if err == nil && id.Kind != volume.Snapshot {
		err = fmt.Errorf("%w: %s is no snapshot", mover.ErrNotExist, id)
	}
	if err != nil {
		return nil, err
	}
	r, err := d.Files.Find(ctx, spec, id)
	if err != nil {
		return nil, err
	}
	return &csi.GetSnapshotResponse{Snapshot: d.snapshot(&r)}, nil
}
