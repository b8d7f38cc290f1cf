package csi

import (
	"context"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"datamove.dev/csi/volume"
	"datamove.dev/mover"
)

// mountsPerVolume reports whether volumes of some file system are mounted each by itself.
func (c *Config) mountsPerVolume() bool {
	for _, f := range c.FileSystems {
		if f.MountPerVolume {
			return true
		}
	}
	return false
}

// perVolume reports whether a volume is mounted by itself on a node, for all its pods there. What was there before the
// driver is not: the grants for it are checked when a pod comes.
func (d *Driver) perVolume(id volume.ID) bool {
	return id.Kind == volume.Project && d.Config.FileSystems[id.FileSystem].MountPerVolume
}

// NodeStageVolume mounts a volume that has a mount of its own. Of others there is nothing to do before a pod comes.
func (d *Driver) NodeStageVolume(ctx context.Context, q *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	if q.GetStagingTargetPath() == "" || q.GetVolumeCapability() == nil {
		return nil, fmt.Errorf("%w: a staging target path and a volume capability are needed", mover.ErrUsage)
	}
	id, spec, err := d.known(q.GetVolumeId())
	if err == nil {
		err = usable(id.Kind, []*csi.VolumeCapability{q.GetVolumeCapability()})
	}
	if err != nil {
		return nil, err
	}
	if !d.perVolume(id) {
		return &csi.NodeStageVolumeResponse{}, nil
	}
	m, err := volume.ParseMounting(q.GetVolumeCapability().GetMount().GetMountFlags())
	if err != nil {
		return nil, err
	}
	done, err := d.targets.begin(q.GetStagingTargetPath(), "another call")
	if err != nil {
		return nil, err
	}
	defer done()
	whole := d.Config.FileSystems[id.FileSystem].Mount.spec()
	return &csi.NodeStageVolumeResponse{}, d.Files.Stage(ctx, spec, id, whole, m.SELinuxLabel, q.GetStagingTargetPath())
}

// NodeUnstageVolume takes the mount of a volume away. One that is not there is taken away.
func (d *Driver) NodeUnstageVolume(ctx context.Context, q *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	if q.GetVolumeId() == "" || q.GetStagingTargetPath() == "" {
		return nil, fmt.Errorf("%w: a volume ID and a staging target path are needed", mover.ErrUsage)
	}
	_, spec, _ := d.known(q.GetVolumeId()) // as in NodeUnpublishVolume
	done, err := d.targets.begin(q.GetStagingTargetPath(), "another call")
	if err != nil {
		return nil, err
	}
	defer done()
	return &csi.NodeUnstageVolumeResponse{}, d.Files.Unstage(ctx, laneOf(spec.Name), q.GetStagingTargetPath())
}
