package csi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"datamove.dev/csi/fsclient"
	"datamove.dev/csi/mount"
	"datamove.dev/csi/volume"
	"datamove.dev/csi/volumestore"
	"datamove.dev/mover"
	"datamove.dev/tiering/dataset/datasetclient"
)

// NodeGetCapabilities says what a node can do.
func (d *Driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	var all []*csi.NodeServiceCapability
	types := []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		csi.NodeServiceCapability_RPC_EXPAND_VOLUME,
		csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
		csi.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP,
		csi.NodeServiceCapability_RPC_GET_VOLUME_HEALTH,
		csi.NodeServiceCapability_RPC_GET_STORAGE_HEALTH,
	}
	if d.Config.mountsPerVolume() { // else the kubelet need not call
		types = append(types, csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME)
	}
	for _, t := range types {
		all = append(all, &csi.NodeServiceCapability{Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: t}}})
	}
	return &csi.NodeGetCapabilitiesResponse{Capabilities: all}, nil
}

// NodeGetInfo says which node this is.
func (d *Driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.NodeID, MaxVolumesPerNode: d.Config.MaxVolumes, AccessibleTopology: d.topology()[0]}, nil
}

// publication is a volume that a pod is to have, as far as it was read.
type publication struct {
	id     volume.ID
	spec   volumestore.Spec
	about  volume.Attributes
	flags  mount.Flags
	group  *uint32 // fsGroup of the pod
	single bool    // no other pod may have it
	many   bool    // pods on other nodes may have it
	target string
	staged string // where a mount of it alone is; "" for volumes that have none
}

// source is what the mover is asked for.
func (p *publication) source() datasetclient.Source {
	return datasetclient.Source{Location: p.about.Source.Location, Tier: p.about.Source.Tier}
}

// NodePublishVolume mounts a volume for a pod.
func (d *Driver) NodePublishVolume(ctx context.Context, q *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	p, err := d.publication(q)
	if err != nil {
		return nil, err
	}
	done, err := d.targets.begin(p.target, "another call")
	if err != nil {
		return nil, err
	}
	defer done()
	if p.single { // one call at a time looks if another pod has it, and mounts it
		done, err := d.volumes.begin(p.id.String(), "another call")
		if err != nil {
			return nil, err
		}
		defer done()
	}
	a, err := d.allowed(ctx, p)
	if err == nil {
		err = d.alone(ctx, p, a)
	}
	if dataset := p.id.Kind == volume.Dataset || p.id.Kind == volume.Inline; err == nil && dataset {
		a, err = d.staged(ctx, p, a)
	}
	if err == nil {
		err = d.onOneNode(ctx, p)
	}
	if err == nil {
		err = d.Files.Attach(ctx, a)
	}
	if err == nil {
		d.tellClosed(ctx, p, a)
	}
	var otherwise *mount.Otherwise
	switch {
	case errors.As(err, &otherwise):
		return nil, status.Error(codes.AlreadyExists, err.Error())
	case err != nil:
		return nil, err
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// publication reads a request.
func (d *Driver) publication(q *csi.NodePublishVolumeRequest) (p publication, err error) {
	if q.GetTargetPath() == "" || q.GetVolumeCapability() == nil {
		return p, fmt.Errorf("%w: a target path and a volume capability are needed", mover.ErrUsage)
	}
	if p.id, p.spec, err = d.known(q.GetVolumeId()); err != nil {
		return p, err
	}
	if err := usable(p.id.Kind, []*csi.VolumeCapability{q.GetVolumeCapability()}); err != nil {
		return p, err
	}
	if p.about, err = volume.ParseAttributes(p.id.Kind, q.GetVolumeContext()); err != nil {
		return p, err
	}
	m, err := volume.ParseMounting(q.GetVolumeCapability().GetMount().GetMountFlags())
	if err != nil {
		return p, err
	}
	if d.perVolume(p.id) {
		if p.staged = q.GetStagingTargetPath(); p.staged == "" {
			return p, fmt.Errorf("%w: %s is mounted by itself, and the staging target path is missing", mover.ErrConflict, p.id)
		}
	} else if m.SELinuxLabel != "" {
		return p, fmt.Errorf("%w: mount option context: the file system is mounted for many volumes, and has one label for all: set seLinuxChangePolicy: Recursive for the pod", mover.ErrUnsupported)
	}
	mode := q.GetVolumeCapability().GetAccessMode().GetMode()
	p.flags = mount.Flags{ReadOnly: m.ReadOnly || q.GetReadonly() || access[mode].read, NoExec: m.NoExec, NoAtime: m.NoAtime, NoSymFollow: m.NoSymFollow}
	p.many = access[mode].many
	p.single = mode == csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
	p.target = q.GetTargetPath()
	if group := q.GetVolumeCapability().GetMount().GetVolumeMountGroup(); group != "" {
		n, err := strconv.ParseUint(group, 10, 32)
		if err != nil || n == 1<<32-1 {
			return p, fmt.Errorf("%w: volume mount group %s is no ID of a group", mover.ErrUsage, strconv.Quote(group))
		}
		id := uint32(n)
		p.group = &id
	}
	return p, nil
}

// allowed is how a pod may have a volume.
func (d *Driver) allowed(ctx context.Context, p publication) (a fsclient.Attachment, err error) {
	a = fsclient.Attachment{Spec: p.spec, ID: p.id, Target: p.target, Flags: p.flags, Many: p.many, Staged: p.staged}
	if !p.flags.ReadOnly {
		a.Group = p.group
	}
	switch p.id.Kind {
	case volume.Project, volume.Scratch:
		err = d.ofNamespace(ctx, p)
	case volume.Static:
		a.Path, a.Flags, err = d.granted(p)
	case volume.Dataset, volume.Inline:
		err = d.Config.Grants.Source(p.about.Pod, p.about.Source.Location)
	default:
		err = fmt.Errorf("%w: %s can not be mounted", mover.ErrUsage, p.id)
	}
	return a, err
}

// alone reports if another pod on this node has a volume that only one pod may have. The kernel's table of mounts
// tells it of a directory, under whatever name; the mover tells the holders of a dataset.
func (d *Driver) alone(ctx context.Context, p publication, a fsclient.Attachment) error {
	switch {
	case !p.single:
		return nil
	case p.id.FileSystem != "":
		all, err := d.Files.Mounts(ctx, a)
		if err != nil {
			return err
		}
		for _, m := range all {
			if m.Point != p.target && m.Point != p.staged {
				return fmt.Errorf("%w: %s is for one pod (ReadWriteOncePod), and mounted at %s", mover.ErrConflict, p.id, mover.Printable(m.Point))
			}
		}
		return nil
	case d.Staging == nil:
		return nil
	}
	all, err := d.Staging.Holders(ctx, ofVolume(p.id))
	if err != nil {
		return err
	}
	for _, who := range all {
		if who != holder(p.id, p.target) && d.mounted(who) {
			return fmt.Errorf("%w: %s is for one pod (ReadWriteOncePod), and another one has it", mover.ErrConflict, p.id)
		}
	}
	return nil
}

// ofNamespace reports if a volume was made for another namespace than that of the pod. A user with the right to write
// PersistentVolumes may name any volume in one.
func (d *Driver) ofNamespace(ctx context.Context, p publication) error {
	r, err := d.Files.Find(ctx, p.spec, p.id)
	if err != nil {
		return err
	}
	if made := r.Parameters.For.Namespace; made != "" && made != p.about.Pod.Namespace {
		return fmt.Errorf("%w: %s was made for namespace %s, and is not given to %s", mover.ErrPermission, p.id, mover.Printable(made), p.about.Pod)
	}
	return nil
}

// granted is a directory that was there before, as the pod may have it.
func (d *Driver) granted(p publication) (string, mount.Flags, error) {
	readOnly, err := d.Config.Grants.Directory(p.about.Pod, p.spec.Name, p.about.Path)
	p.flags.ReadOnly = p.flags.ReadOnly || readOnly
	return p.about.Path, p.flags, err
}

// staged is a dataset, when it is on this node.
func (d *Driver) staged(ctx context.Context, p publication, a fsclient.Attachment) (fsclient.Attachment, error) {
	if d.Staging == nil {
		return a, fmt.Errorf("%w: datasets need the mover: the driver's configuration has no service", mover.ErrUnsupported)
	}
	source, err := d.sourceOf(ctx, p)
	if err == nil {
		p.about.Source = source
		err = d.leavesPromises(ctx, p.source())
	}
	if err != nil {
		d.tellStaging(ctx, p.about, p.about.Source.Location, false, err)
		return a, err
	}
	s, err := d.await(ctx, p)
	if err == nil && p.single {
		err = d.nowhereElse(ctx, p)
	}
	if err != nil {
		return a, err
	}
	a.Spec, a.Path = volumestore.Spec{Name: lane(s.Root), Root: s.Root}, s.Path
	a.Flags.ReadOnly = true
	return a, nil
}

// await waits for a dataset as long as the driver has patience: between two calls the kubelet waits longer and longer, up to two minutes,
// and so would its pod, for what is there already.
func (d *Driver) await(ctx context.Context, p publication) (datasetclient.Staged, error) {
	limit := time.Now().Add(d.Patience)
	for first := true; ; first = false {
		s, err := d.Staging.Stage(ctx, p.source(), holder(p.id, p.target))
		if _, digest := p.about.Source.Dataset(); digest != "" && p.id.Kind == volume.Dataset && errors.Is(err, mover.ErrNotExist) {
			err = fmt.Errorf("%w; or make a new claim, which has the newest version", err)
		}
		var u *datasetclient.Underway
		underway := errors.As(err, &u)
		if underway && time.Since(u.Since) > p.about.Deadline {
			underway, err = false, fmt.Errorf("%w: after its deadline of %s %s", mover.ErrTimeout, p.about.Deadline, u.Error())
		}
		again := underway && time.Now().Before(limit) && ctx.Err() == nil
		if first || !again {
			d.tellStaging(ctx, p.about, versioned(p.about.Source, s.Digest), s.Away, err)
		}
		if !again {
			return s, err
		}
	}
}

// NodeUnpublishVolume takes a mount away. One that is not there is taken away.
func (d *Driver) NodeUnpublishVolume(ctx context.Context, q *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	if q.GetVolumeId() == "" || q.GetTargetPath() == "" {
		return nil, fmt.Errorf("%w: a volume ID and a target path are needed", mover.ErrUsage)
	}
	done, err := d.targets.begin(q.GetTargetPath(), "another call")
	if err != nil {
		return nil, err
	}
	defer d.freeSoon() // when the call is done
	defer done()
	id, spec, _ := d.known(q.GetVolumeId()) // what is mounted of an unknown volume is taken away, too
	if err := d.Files.Detach(ctx, laneOf(spec.Name), q.GetTargetPath()); err != nil {
		return nil, err
	}
	if dataset := id.Kind == volume.Dataset || id.Kind == volume.Inline; dataset && d.Staging != nil {
		// A pod does not wait for the mover to end: KeepLeases drops what is not mounted any more.
		if err := d.Staging.Drop(ctx, holder(id, q.GetTargetPath())); err != nil {
			d.Logger.WarnContext(ctx, "the lease of a dataset stays for a while", "volume", id, "err", err)
		}
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// laneOf is where mounts of a file system are taken away: of what is not known any more, and of tiers, a lane of its own.
func laneOf(fileSystem string) string { return cmp.Or(fileSystem, "mounts") }
