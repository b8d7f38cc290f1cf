package csi

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"datamove.dev/csi/volume"
	"datamove.dev/csi/volumestore"
	"datamove.dev/mover"
	"datamove.dev/tiering/dataset/datasetclient"
)

// records returns those of all volumes, or snapshots, of all file systems that this driver has. A file system that does not answer is
// an error: a list without its volumes would say that they are gone.
func (d *Driver) records(ctx context.Context, snapshots bool) (all []volumestore.Record, err error) {
	for _, name := range slices.Sorted(maps.Keys(d.Config.FileSystems)) {
		f := d.Config.FileSystems[name]
		if f.Volumes == "" || !d.has(name) {
			continue
		}
		kind := f.Use
		if snapshots {
			kind = volume.Snapshot
		}
		some, _, err := d.recordsOn(ctx, name, kind)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// recordsOn returns those of a file system, and the IDs of what can not be read.
func (d *Driver) recordsOn(ctx context.Context, name string, kind volume.Kind) (all []volumestore.Record, unread []string, err error) {
	all, bad, err := d.Files.List(ctx, d.spec(name), kind)
	for key, why := range bad {
		d.Logger.WarnContext(ctx, "a volume can not be read", "fileSystem", name, "key", key, "err", why)
		unread = append(unread, volume.ID{Kind: kind, FileSystem: name, Key: key}.String())
	}
	return all, unread, err
}

// page sorts a list by ID, and cuts it behind the ID that a token is.
func page[E any](all []E, idOf func(E) string, token string, most int32) (some []E, next string, err error) {
	if most < 0 {
		return nil, "", fmt.Errorf("%w: max_entries is %d", mover.ErrUsage, most)
	}
	slices.SortFunc(all, func(a, b E) int { return cmp.Compare(idOf(a), idOf(b)) })
	if token != "" {
		if _, err := volume.ParseID(token); err != nil {
			return nil, "", status.Errorf(codes.Aborted, "starting_token %s is none of this driver", mover.Printable(token))
		}
		i, found := slices.BinarySearchFunc(all, token, func(e E, id string) int { return cmp.Compare(idOf(e), id) })
		if found {
			i++
		}
		all = all[i:]
	}
	if most > 0 && len(all) > int(most) {
		return all[:most], idOf(all[most-1]), nil
	}
	return all, "", nil
}

// ListVolumes returns what the driver made, page by page.
func (d *Driver) ListVolumes(ctx context.Context, q *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	records, err := d.records(ctx, false)
	if err != nil {
		return nil, err
	}
	var all []*csi.ListVolumesResponse_Entry
	for i := range records {
		all = append(all, &csi.ListVolumesResponse_Entry{Volume: d.described(&records[i], contentSource(&records[i]))})
	}
	all, err = everywhere(ctx, d, csi.Controller_ListVolumes_FullMethodName, &csi.ListVolumesRequest{}, all, (*csi.ListVolumesResponse).GetEntries)
	if err != nil {
		return nil, err
	}
	some, next, err := page(all, func(e *csi.ListVolumesResponse_Entry) string { return e.GetVolume().GetVolumeId() }, q.GetStartingToken(), q.GetMaxEntries())
	return &csi.ListVolumesResponse{Entries: some, NextToken: next}, err
}

// contentSource is what a volume began with.
func contentSource(r *volumestore.Record) *csi.VolumeContentSource {
	id, err := volume.ParseID(r.Asked.From)
	switch {
	case err != nil:
		return nil
	case id.Kind == volume.Snapshot:
		return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: r.Asked.From}}}
	}
	return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: r.Asked.From}}}
}

// ListSnapshots returns snapshots, all, of a volume, or one.
func (d *Driver) ListSnapshots(ctx context.Context, q *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	records, err := d.records(ctx, true)
	if err != nil {
		return nil, err
	}
	var all []*csi.ListSnapshotsResponse_Entry
	for i := range records {
		all = append(all, &csi.ListSnapshotsResponse_Entry{Snapshot: d.snapshot(&records[i])})
	}
	if subject(q) == "" { // one that is elsewhere was asked for there
		all, err = everywhere(ctx, d, csi.Controller_ListSnapshots_FullMethodName, &csi.ListSnapshotsRequest{}, all, (*csi.ListSnapshotsResponse).GetEntries)
		if err != nil {
			return nil, err
		}
	}
	all = slices.DeleteFunc(all, func(e *csi.ListSnapshotsResponse_Entry) bool {
		s := e.GetSnapshot()
		return q.GetSnapshotId() != "" && s.GetSnapshotId() != q.GetSnapshotId() || q.GetSourceVolumeId() != "" && s.GetSourceVolumeId() != q.GetSourceVolumeId()
	})
	some, next, err := page(all, func(e *csi.ListSnapshotsResponse_Entry) string { return e.GetSnapshot().GetSnapshotId() }, q.GetStartingToken(), q.GetMaxEntries())
	return &csi.ListSnapshotsResponse{Entries: some, NextToken: next}, err
}

// ControllerGetVolume returns one volume.
func (d *Driver) ControllerGetVolume(ctx context.Context, q *csi.ControllerGetVolumeRequest) (*csi.ControllerGetVolumeResponse, error) {
	r, err := d.find(ctx, q.GetVolumeId())
	if err != nil {
		return nil, err
	}
	return &csi.ControllerGetVolumeResponse{Volume: d.described(&r, contentSource(&r)), Status: &csi.ControllerGetVolumeResponse_VolumeStatus{}}, nil
}

// find returns the record of a volume that the driver made.
func (d *Driver) find(ctx context.Context, text string) (volumestore.Record, error) {
	id, spec, err := d.known(text)
	if err == nil && (!id.Ours() || id.Kind == volume.Snapshot) {
		err = fmt.Errorf("%w: %s is no volume that the driver made", mover.ErrNotExist, id)
	}
	if err != nil {
		return volumestore.Record{}, err
	}
	return d.Files.Find(ctx, spec, id)
}

// ValidateVolumeCapabilities says if a volume can be used so.
func (d *Driver) ValidateVolumeCapabilities(ctx context.Context, q *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	id, spec, err := d.known(q.GetVolumeId())
	if err == nil && len(q.GetVolumeCapabilities()) == 0 {
		err = fmt.Errorf("%w: volume capabilities are missing", mover.ErrUsage)
	}
	if err == nil && id.Ours() {
		_, err = d.Files.Find(ctx, spec, id)
	}
	if err != nil {
		return nil, err
	}
	if err := usable(id.Kind, q.GetVolumeCapabilities()); err != nil {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: err.Error()}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext: q.GetVolumeContext(), VolumeCapabilities: q.GetVolumeCapabilities(), Parameters: q.GetParameters()}}, nil
}

// GetCapacity says how much can be promised by volumes of a StorageClass. Where nothing is promised the answer is what
// CreateVolume takes: the scheduler reads it before it chooses a node for a claim that waits for its first pod.
func (d *Driver) GetCapacity(ctx context.Context, q *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	kind, name, err := d.capacityOf(q)
	switch {
	case err != nil:
		return nil, err
	case kind == volume.Dataset:
		return d.capacityForDataset(ctx, q), nil
	case name == "":
		return &csi.GetCapacityResponse{}, nil
	}
	if kind == volume.Project { // its capacity is a limit, and no promise
		s, err := d.Files.Look(ctx, d.spec(name))
		return upTo(s.LeftBytes/unit*unit, mostBytes), err
	}
	s, err := d.Files.Space(ctx, d.spec(name))
	room := s.RoomBytes / unit * unit
	return upTo(room, room), err
}

// capacityForDataset is how much a tier takes where pods would be: nothing where the dataset is larger than that. A volume takes nothing before a pod wants
// it, so it may have any size. Where the service does not answer, the mount for a pod finds out.
func (d *Driver) capacityForDataset(ctx context.Context, q *csi.GetCapacityRequest) *csi.GetCapacityResponse {
	p, err := volume.ParseParameters(q.GetParameters())
	if err != nil || d.Staging == nil {
		return upTo(mostBytes, mostBytes)
	}
	s, err := d.Staging.Space(ctx, datasetclient.Source{Location: p.Source.Location, Tier: p.Source.Tier, Node: q.GetAccessibleTopology().GetSegments()[NodeTopology]})
	switch {
	case err != nil:
		d.Logger.WarnContext(ctx, "the room for a dataset is not known", "dataset", p.Source.Location, "err", err)
	case s.There, s.Room < 0:
	case s.Bytes > s.Room:
		return &csi.GetCapacityResponse{}
	default:
		return upTo(s.Room/unit*unit, mostBytes)
	}
	return upTo(mostBytes, mostBytes)
}

// upTo is room for volumes of at most so many bytes each.
func upTo(room, largest int64) *csi.GetCapacityResponse {
	return &csi.GetCapacityResponse{AvailableCapacity: room, MaximumVolumeSize: wrapperspb.Int64(largest), MinimumVolumeSize: wrapperspb.Int64(unit)}
}

// capacityOf says of which kind of volumes and of which file system the capacity is asked for; no file system is one
// that is not here. Without parameters it is that of the only file system there is.
func (d *Driver) capacityOf(q *csi.GetCapacityRequest) (kind volume.Kind, name string, err error) {
	if len(q.GetParameters()) == 0 {
		if len(d.Config.FileSystems) == 1 {
			for name, f := range d.Config.FileSystems {
				return f.Use, name, nil
			}
		}
		return "", "", nil
	}
	p, err := volume.ParseParameters(q.GetParameters())
	if err != nil || p.Kind == volume.Dataset {
		return p.Kind, "", err
	}
	if name, err = d.Config.pick(p); err != nil {
		return p.Kind, "", err
	}
	node, said := q.GetAccessibleTopology().GetSegments()[NodeTopology]
	if p.Kind == volume.Scratch && said && node != d.NodeID {
		name = ""
	}
	return p.Kind, name, nil
}
