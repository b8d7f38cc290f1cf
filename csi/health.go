package csi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"datamove.dev/csi/mount"
	"datamove.dev/csi/volume"
	"datamove.dev/csi/volumestore"
	"datamove.dev/mover"
)

// NodeGetVolumeStats says how full a volume is, by its quota. For a file system that does not answer it says what that answered
// last, for some minutes: that it does not, the calls of health say.
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
	var s volumestore.Stats
	if id.Ours() {
		s, err = d.Files.Stats(ctx, spec, id)
	} else {
		s, err = d.Files.Usage(ctx, spec.Name, q.GetVolumePath())
	}
	if err == nil {
		d.stats.put(q.GetVolumeId(), s)
	} else if last, ok := d.stats.get(q.GetVolumeId()); ok && silent(err) {
		s, err = last, nil
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

// Reasons for which a volume is INACCESSIBLE.
const (
	silentSystem = "FileSystemDoesNotAnswer"
	silentNode   = "NodeDoesNotAnswer"
	notMounted   = "NotMounted"
)

// ailment is one thing that is wrong with a volume.
func ailment(s csi.VolumeHealthErrorType, reason string, err error) []*csi.VolumeHealth_VolumeHealthEntry {
	return []*csi.VolumeHealth_VolumeHealthEntry{{Status: s, Reason: reason, Message: err.Error()}}
}

// silent reports whether an error is of a file system that does not answer.
func silent(err error) bool {
	return errors.Is(err, mover.ErrTimeout) || errors.Is(err, mover.ErrUnreachable) || errors.Is(err, mover.ErrTransient)
}

// ailments says what is wrong with a volume that was asked for how full it is.
func ailments(err error) []*csi.VolumeHealth_VolumeHealthEntry {
	switch {
	case err == nil:
		return nil
	case silent(err):
		return ailment(csi.VolumeHealthErrorType_INACCESSIBLE, silentSystem, err)
	case errors.Is(err, mover.ErrConflict):
		return ailment(csi.VolumeHealthErrorType_DATA_LOSS, "DirectoryReplaced", err)
	}
	return ailment(csi.VolumeHealthErrorType_DEGRADED, "QuotaUnknown", err)
}

// health says how a volume is: a NotFound when there is none.
func (d *Driver) health(ctx context.Context, text string) (*csi.VolumeHealth, error) {
	id, spec, err := d.known(text)
	if err != nil {
		return nil, err
	}
	switch {
	case id.Ours():
		if _, err = d.Files.Stats(ctx, spec, id); errors.Is(err, mover.ErrNotExist) {
			return nil, err
		}
	case id.FileSystem != "":
		_, err = d.Files.Look(ctx, spec)
	}
	return &csi.VolumeHealth{VolumeId: text, HealthStatuses: ailments(err)}, nil
}

// ControllerGetVolumeHealth says how a volume is.
func (d *Driver) ControllerGetVolumeHealth(ctx context.Context, q *csi.ControllerGetVolumeHealthRequest) (*csi.ControllerGetVolumeHealthResponse, error) {
	h, err := d.health(ctx, q.GetVolumeId())
	return &csi.ControllerGetVolumeHealthResponse{VolumeHealth: h}, err
}

// NodeGetVolumeHealth says how a volume is, as seen from this node: where it was mounted, it has to be mounted and to answer.
func (d *Driver) NodeGetVolumeHealth(ctx context.Context, q *csi.NodeGetVolumeHealthRequest) (*csi.NodeGetVolumeHealthResponse, error) {
	h, err := d.health(ctx, q.GetVolumeId())
	if err != nil {
		return nil, err
	}
	id, spec, err := d.known(q.GetVolumeId())
	if err != nil {
		return nil, err
	}
	paths := []string{q.GetVolumePublishPath()}
	if d.perVolume(id) {
		paths = append(paths, q.GetStagingTargetPath())
	}
	for _, path := range paths {
		if path == "" || len(h.HealthStatuses) > 0 {
			continue
		}
		if h.HealthStatuses, err = d.mountHealth(ctx, laneOf(spec.Name), path); err != nil {
			return nil, err
		}
	}
	return &csi.NodeGetVolumeHealthResponse{VolumeHealth: h}, nil
}

// mountHealth says what is wrong with a mount.
func (d *Driver) mountHealth(ctx context.Context, lane, path string) ([]*csi.VolumeHealth_VolumeHealthEntry, error) {
	_, mounted, err := mount.At(path)
	if err != nil {
		return nil, err
	}
	if !mounted {
		return ailment(csi.VolumeHealthErrorType_INACCESSIBLE, notMounted, fmt.Errorf("nothing is mounted at %s", mover.Printable(path))), nil
	}
	_, err = d.Files.Usage(ctx, lane, path)
	return ailments(err), nil
}

// ControllerListVolumeHealth lists the volumes that something is wrong with. What is on a file system, or on a node, that does not
// answer is not accessible: Kubernetes says which volumes that are.
func (d *Driver) ControllerListVolumeHealth(ctx context.Context, q *csi.ControllerListVolumeHealthRequest) (*csi.ControllerListVolumeHealthResponse, error) {
	ill, systems := d.illHere(ctx)
	there, nodes, err := askNodes(ctx, d, csi.Controller_ControllerListVolumeHealth_FullMethodName, &csi.ControllerListVolumeHealthRequest{}, (*csi.ControllerListVolumeHealthResponse).GetEntries)
	if err != nil {
		return nil, err
	}
	out, err := d.inaccessible(ctx, systems, nodes)
	if err != nil {
		return nil, err
	}
	some, next, err := page(slices.Concat(ill, there, out), (*csi.VolumeHealth).GetVolumeId, q.GetStartingToken(), q.GetMaxEntries())
	return &csi.ControllerListVolumeHealthResponse{Entries: some, NextToken: next}, err
}

// illHere are the volumes that something is wrong with on the file systems of this driver, which are asked all at once; and why
// those do not answer that do not.
func (d *Driver) illHere(ctx context.Context) (ill []*csi.VolumeHealth, systems map[string]error) {
	systems = map[string]error{}
	var mu sync.Mutex // of ill and systems
	var asked sync.WaitGroup
	for name := range d.Config.FileSystems {
		if !d.has(name) {
			continue
		}
		asked.Go(func() {
			some, err := d.illOn(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			ill = append(ill, some...)
			if err != nil {
				systems[name] = err
			}
		})
	}
	asked.Wait()
	return ill, systems
}

func (d *Driver) illOn(ctx context.Context, name string) (ill []*csi.VolumeHealth, err error) {
	f := d.Config.FileSystems[name]
	if f.Volumes == "" {
		_, err := d.Files.Look(ctx, d.spec(name))
		return nil, err
	}
	records, unread, err := d.recordsOn(ctx, name, f.Use)
	if err != nil {
		return nil, err
	}
	for i := range records {
		unread = append(unread, records[i].ID)
	}
	for _, id := range unread {
		h, err := d.health(ctx, id)
		if err == nil && len(h.HealthStatuses) > 0 {
			ill = append(ill, h)
		}
	}
	return ill, nil
}

// inaccessible are the volumes of claims on a file system, or as scratch on a node, that does not answer. Without
// Kubernetes the claims are not known, and silence is an error.
func (d *Driver) inaccessible(ctx context.Context, systems, nodes map[string]error) (all []*csi.VolumeHealth, err error) {
	if len(systems)+len(nodes) == 0 {
		return nil, nil
	}
	if d.Cluster == nil {
		return nil, errors.Join(slices.Concat(slices.Collect(maps.Values(systems)), slices.Collect(maps.Values(nodes)))...)
	}
	claims, err := d.Cluster.Claims(ctx, Name, "")
	if err != nil {
		return nil, fmt.Errorf("claims: %w", err)
	}
	ofTag := map[string]error{}
	for name, err := range nodes {
		ofTag[volume.TagOf(name)] = err
	}
	for _, c := range claims {
		id, err := volume.ParseID(c.Volume)
		if err != nil {
			continue // the driver mounts no volume with such an ID
		}
		reason, why := silentSystem, systems[id.FileSystem]
		if !d.has(id.FileSystem) {
			reason, why = silentNode, ofTag[id.Tag()]
		}
		if why != nil {
			all = append(all, &csi.VolumeHealth{VolumeId: c.Volume, HealthStatuses: ailment(csi.VolumeHealthErrorType_INACCESSIBLE, reason, why)})
		}
	}
	return all, nil
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
