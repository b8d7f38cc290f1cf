package csi

import (
	"context"
	"errors"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"datamove.dev/csi/fsclient"
	"datamove.dev/csi/volume"
	"datamove.dev/csi/volumestore"
	"datamove.dev/mover"
)

// Capacities are whole mebibytes: every file system can hold a volume to that.
const (
	unit         = 1 << 20
	defaultBytes = 1 << 30
	mostBytes    = 1 << 60
)

// ControllerGetCapabilities says what the controller can do.
func (d *Driver) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	var all []*csi.ControllerServiceCapability
	for _, t := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES,
		csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
		csi.ControllerServiceCapability_RPC_GET_VOLUME,
		csi.ControllerServiceCapability_RPC_GET_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_GET_CAPACITY,
		csi.ControllerServiceCapability_RPC_CLONE_VOLUME,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
		csi.ControllerServiceCapability_RPC_MODIFY_VOLUME,
		csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
		csi.ControllerServiceCapability_RPC_GET_VOLUME_HEALTH,
		csi.ControllerServiceCapability_RPC_LIST_VOLUME_HEALTH,
	} {
		all = append(all, &csi.ControllerServiceCapability{Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: t}}})
	}
	return &csi.ControllerGetCapabilitiesResponse{Capabilities: all}, nil
}

// CreateVolume makes a volume, or finds it made.
func (d *Driver) CreateVolume(ctx context.Context, q *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if q.GetName() == "" {
		return nil, fmt.Errorf("%w: the name of the volume is missing", mover.ErrUsage)
	}
	p, err := volume.ParseParameters(q.GetParameters())
	if err == nil && len(q.GetMutableParameters()) > 0 {
		p, err = p.Modified(q.GetMutableParameters())
	}
	if err != nil {
		return nil, err
	}
	if err := usable(p.Kind, q.GetVolumeCapabilities()); err != nil {
		return nil, err
	}
	bytes, err := capacity(q.GetCapacityRange())
	if err != nil {
		return nil, err
	}
	if p.Kind == volume.Dataset {
		return d.describeDataset(ctx, q, p)
	}
	name, err := d.Config.pick(p)
	if err != nil {
		return nil, err
	}
	if err := d.here(name, q.GetAccessibilityRequirements()); err != nil {
		return nil, err
	}
	if err := d.archivable(name, p); err != nil {
		return nil, err
	}
	w := volumestore.Wish{ID: volume.ID{Kind: p.Kind, FileSystem: name}, Name: q.GetName(), Bytes: bytes, Parameters: p, Said: saidIn(q.GetParameters())}
	if w.From, err = d.source(name, q.GetVolumeContentSource()); err != nil {
		return nil, err
	}
	done, err := d.volumes.begin("name:"+q.GetName(), "another creation")
	if err != nil {
		return nil, err
	}
	defer done()
	r, err := d.make(ctx, w)
	if err != nil {
		return nil, err
	}
	return &csi.CreateVolumeResponse{Volume: d.described(&r, q.GetVolumeContentSource())}, nil
}

// saidIn is what parameters say of the owner and mode of a volume.
func saidIn(parameters map[string]string) (s volumestore.Said) {
	_, s.UID = parameters["uid"]
	_, s.GID = parameters["gid"]
	_, s.Mode = parameters["mode"]
	return s
}

// make makes what is wished for, or finds it made.
func (d *Driver) make(ctx context.Context, w volumestore.Wish) (volumestore.Record, error) {
	spec := d.spec(w.ID.FileSystem)
	w.Uncopied = d.uncopied(w.ID.FileSystem)
	r, unfilled, err := d.Files.Make(ctx, spec, w)
	if unfilled != nil {
		if err := d.copies(ctx, w.ID.FileSystem, unfilled); err != nil {
			return volumestore.Record{}, err
		}
		r, err = d.Files.Filled(ctx, spec, w)
	}
	var small *volumestore.TooSmall
	switch {
	case errors.As(err, &small):
		return r, status.Error(codes.OutOfRange, err.Error())
	case errors.Is(err, mover.ErrNotExist) && w.From != nil && w.ID.Kind == volume.Scratch:
		// Said so, the scheduler tries another node; NotFound is for good.
		return r, status.Errorf(codes.ResourceExhausted, "%s is not on node %s, and what is made of it has to be where it is", w.From, d.NodeID)
	case errors.Is(err, mover.ErrConflict):
		return r, status.Error(codes.AlreadyExists, err.Error())
	}
	return r, err
}

// capacity is how much a volume gets for what is asked.
func capacity(r *csi.CapacityRange) (int64, error) {
	least, most := r.GetRequiredBytes(), r.GetLimitBytes()
	if least < 0 || most < 0 || least > mostBytes {
		return 0, status.Errorf(codes.OutOfRange, "a capacity from %d to %d bytes", least, most)
	}
	bytes := (least + unit - 1) / unit * unit
	if least == 0 {
		bytes = defaultBytes
		if most > 0 {
			bytes = min(bytes, most/unit*unit)
		}
	}
	if most > 0 && bytes > most || bytes == 0 {
		return 0, status.Errorf(codes.OutOfRange, "a capacity from %d to %d bytes: no whole MiB lies between", least, most)
	}
	return bytes, nil
}

// here reports why a volume or a snapshot on a file system can not be where a topology wants it.
func (d *Driver) here(name string, t *csi.TopologyRequirement) error {
	if d.Config.FileSystems[name].Use != volume.Scratch || t == nil {
		return nil
	}
	for _, one := range append(t.GetPreferred(), t.GetRequisite()...) {
		if node, said := one.GetSegments()[NodeTopology]; !said || node == d.NodeID {
			return nil
		}
	}
	return fmt.Errorf("%w: scratch of node %s is not where it has to be", mover.ErrFull, d.NodeID)
}

// source reads what a volume begins with.
func (d *Driver) source(name string, s *csi.VolumeContentSource) (*volume.ID, error) {
	var text string
	switch {
	case s.GetSnapshot() != nil:
		text = s.GetSnapshot().GetSnapshotId()
	case s.GetVolume() != nil:
		text = s.GetVolume().GetVolumeId()
	default:
		return nil, nil
	}
	id, _, err := d.known(text)
	switch {
	case err != nil:
		return nil, err
	case !id.Ours():
		return nil, fmt.Errorf("%w: %s can not be cloned: the driver did not make it", mover.ErrUsage, id)
	case s.GetSnapshot() != nil != (id.Kind == volume.Snapshot):
		return nil, fmt.Errorf("%w: %s is not of the kind that it is named as", mover.ErrNotExist, id)
	case id.FileSystem != name:
		return nil, fmt.Errorf("%w: %s is on file system %s, and can not be the beginning of a volume on %s: a StorageClass of file system %s can", mover.ErrUsage, id, id.FileSystem, name, id.FileSystem)
	}
	return &id, nil
}

// described is a volume as Kubernetes hears of it.
func (d *Driver) described(r *volumestore.Record, from *csi.VolumeContentSource) *csi.Volume {
	v := &csi.Volume{VolumeId: r.ID, CapacityBytes: r.Bytes, ContentSource: from}
	if r.Parameters.Kind == volume.Scratch {
		v.AccessibleTopology = d.topology()
	}
	return v
}

func (d *Driver) topology() []*csi.Topology {
	return []*csi.Topology{{Segments: map[string]string{NodeTopology: d.NodeID}}}
}

// describeDataset makes a volume of a version of a dataset: nothing is brought before a pod needs it.
func (d *Driver) describeDataset(ctx context.Context, q *csi.CreateVolumeRequest, p volume.Parameters) (*csi.CreateVolumeResponse, error) {
	if q.GetVolumeContentSource() != nil {
		return nil, fmt.Errorf("%w: a dataset can not begin with a snapshot or another volume", mover.ErrUsage)
	}
	if err := d.pin(ctx, q.GetName(), &p); err != nil {
		return nil, err
	}
	id := volume.ID{Kind: volume.Dataset, Key: volume.KeyOf("", volume.Dataset, q.GetName())}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: id.String(), CapacityBytes: q.GetCapacityRange().GetRequiredBytes(), VolumeContext: p.Context()}}, nil
}

// DeleteVolume moves a volume to the trash. What the driver did not make, it leaves alone.
func (d *Driver) DeleteVolume(ctx context.Context, q *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	id, spec, err := d.known(q.GetVolumeId())
	switch {
	case q.GetVolumeId() == "":
		return nil, err
	case errors.Is(err, mover.ErrNotExist), err == nil && !id.Ours():
		return &csi.DeleteVolumeResponse{}, nil
	case err != nil:
		return nil, err
	}
	done, err := d.volumes.begin(id.String(), "another call")
	if err != nil {
		return nil, err
	}
	defer done()
	if err := d.unused(ctx, spec, id); err != nil {
		return nil, err
	}
	defer d.reapSoon()
	return &csi.DeleteVolumeResponse{}, d.remove(ctx, spec, id, "DeleteVolume")
}

// unused reports if scratch is mounted still: all its pods are on its node, which is this one. Only Kubernetes knows which pods have
// a volume of a shared file system.
func (d *Driver) unused(ctx context.Context, spec volumestore.Spec, id volume.ID) error {
	if id.Kind != volume.Scratch {
		return nil
	}
	switch all, err := d.Files.Mounts(ctx, fsclient.Attachment{Spec: spec, ID: id}); {
	case errors.Is(err, mover.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(all) > 0:
		return fmt.Errorf("%w: %s is mounted at %s on node %s", mover.ErrConflict, id, mover.Printable(all[0].Point), d.NodeID)
	}
	return nil
}
