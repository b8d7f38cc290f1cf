package csi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"datamove.dev/csi/base"
	"datamove.dev/csi/mount"
	"datamove.dev/csi/volume"
	"datamove.dev/mover"
)

// NodeGetVolumeStats says how full a volume is, by its quota.
func (d *Driver) NodeGetVolumeStats(ctx context.Context, q *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	if q.GetVolumeId() == "" || q.GetVolumePath() == "" {
		return nil, fmt.Errorf("%w: a volume ID and a volume path are needed", mover.ErrUsage)
	}
	id, spec, err := d.known(q.GetVolumeId())
	if err != nil {
		return nil, err
	}
	switch _, mounted, err := mount.At(q.GetVolumePath()); {
	case err != nil:
		return nil, err
	case !mounted:
		return nil, fmt.Errorf("%w: nothing is mounted at %s", mover.ErrNotExist, mover.Printable(q.GetVolumePath()))
	}
	var s base.Stats
	if id.Ours() {
		s, err = d.Files.Stats(ctx, spec, id)
	} else {
		s, err = d.Files.Usage(ctx, spec.Name, q.GetVolumePath())
	}
	if err != nil {
		return nil, err
	}
	usage := []*csi.VolumeUsage{{Unit: csi.VolumeUsage_BYTES, Total: s.TotalBytes, Used: s.UsedBytes, Available: s.LeftBytes}}
	if s.TotalFiles > 0 {
		usage = append(usage, &csi.VolumeUsage{Unit: csi.VolumeUsage_INODES, Total: s.TotalFiles, Used: s.UsedFiles, Available: s.LeftFiles})
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: usage}, nil
}

// NodeExpandVolume says how large a volume is: what the controller has made larger is so everywhere.
func (d *Driver) NodeExpandVolume(ctx context.Context, q *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	if q.GetVolumeId() == "" || q.GetVolumePath() == "" {
		return nil, fmt.Errorf("%w: a volume ID and a volume path are needed", mover.ErrUsage)
	}
	id, spec, err := d.known(q.GetVolumeId())
	if err != nil || !id.Ours() {
		return &csi.NodeExpandVolumeResponse{}, err
	}
	r, err := d.Files.Find(ctx, spec, id)
	if err != nil {
		return nil, err
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: r.Bytes}, nil
}

// ailments says what is wrong with a volume.
func ailments(err error) []*csi.VolumeHealth_VolumeHealthEntry {
	one := func(s csi.VolumeHealthErrorType, reason string) []*csi.VolumeHealth_VolumeHealthEntry {
		return []*csi.VolumeHealth_VolumeHealthEntry{{Status: s, Reason: reason, Message: err.Error()}}
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, mover.ErrTimeout), errors.Is(err, mover.ErrUnreachable), errors.Is(err, mover.ErrTransient):
		return one(csi.VolumeHealthErrorType_INACCESSIBLE, "FileSystemDoesNotAnswer")
	case errors.Is(err, mover.ErrConflict):
		return one(csi.VolumeHealthErrorType_DATA_LOSS, "DirectoryReplaced")
	}
	return one(csi.VolumeHealthErrorType_DEGRADED, "QuotaUnknown")
}

// health says how a volume is: a NotFound when there is none.
func (d *Driver) health(ctx context.Context, text string) (*csi.VolumeHealth, error) {
	id, spec, err := d.known(text)
	if err != nil {
		return nil, err
	}
	if id.Ours() {
		if _, err = d.Files.Stats(ctx, spec, id); errors.Is(err, mover.ErrNotExist) {
			return nil, err
		}
	}
	return &csi.VolumeHealth{VolumeId: text, HealthStatuses: ailments(err)}, nil
}

// ControllerGetVolumeHealth says how a volume is.
func (d *Driver) ControllerGetVolumeHealth(ctx context.Context, q *csi.ControllerGetVolumeHealthRequest) (*csi.ControllerGetVolumeHealthResponse, error) {
	h, err := d.health(ctx, q.GetVolumeId())
	return &csi.ControllerGetVolumeHealthResponse{VolumeHealth: h}, err
}

// NodeGetVolumeHealth says how a volume is, as seen from this node.
func (d *Driver) NodeGetVolumeHealth(ctx context.Context, q *csi.NodeGetVolumeHealthRequest) (*csi.NodeGetVolumeHealthResponse, error) {
	h, err := d.health(ctx, q.GetVolumeId())
	return &csi.NodeGetVolumeHealthResponse{VolumeHealth: h}, err
}

// ControllerListVolumeHealth lists the volumes that something is wrong with.
func (d *Driver) ControllerListVolumeHealth(ctx context.Context, q *csi.ControllerListVolumeHealthRequest) (*csi.ControllerListVolumeHealthResponse, error) {
	all, unread, err := d.records(ctx, false)
	if err != nil {
		return nil, err
	}
	var ids []string
	for i := range all {
		ids = append(ids, all[i].ID)
	}
	for _, id := range unread {
		ids = append(ids, id.String())
	}
	var ill []*csi.VolumeHealth
	for _, id := range ids {
		h, err := d.health(ctx, id)
		if err == nil && len(h.HealthStatuses) > 0 {
			ill = append(ill, h)
		}
	}
	ill, err = everywhere(ctx, d, csi.Controller_ControllerListVolumeHealth_FullMethodName, &csi.ControllerListVolumeHealthRequest{}, ill, (*csi.ControllerListVolumeHealthResponse).GetEntries)
	if err != nil {
		return nil, err
	}
	some, next, err := page(ill, (*csi.VolumeHealth).GetVolumeId, q.GetStartingToken(), q.GetMaxEntries())
	return &csi.ControllerListVolumeHealthResponse{Entries: some, NextToken: next}, err
}

// NodeGetStorageHealth says which file systems this node can not use, before any volume is on them.
func (d *Driver) NodeGetStorageHealth(ctx context.Context, _ *csi.NodeGetStorageHealthRequest) (*csi.NodeGetStorageHealthResponse, error) {
	reply := &csi.NodeGetStorageHealthResponse{}
	for _, name := range slices.Sorted(maps.Keys(d.Config.FileSystems)) {
		if !d.has(name) {
			continue
		}
		s, err := d.Files.Look(ctx, d.spec(name))
		reason, message := wrongWith(name, s, err)
		if reason == "" {
			continue
		}
		h := &csi.NodeGetStorageHealthResponse_StorageBackendHealth{VolumeCapability: capabilityOf(d.Config.FileSystems[name].Use), Status: csi.StorageHealthErrorType_STORAGE_DEGRADED, Reason: reason, Message: message}
		if err != nil {
			h.Status = csi.StorageHealthErrorType_STORAGE_UNREACHABLE
		}
		reply.BackendHealth = append(reply.BackendHealth, h)
	}
	return reply, nil
}

func capabilityOf(use volume.Kind) *csi.VolumeCapability {
	mode := csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	if use == volume.Scratch {
		mode = csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	}
	return &csi.VolumeCapability{AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}}, AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode}}
}
