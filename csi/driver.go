package csi

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"

	"datamove.dev/csi/fsclient"
	"datamove.dev/csi/metrics"
	"datamove.dev/csi/mount"
	"datamove.dev/csi/nodeproxy"
	"datamove.dev/csi/volume"
	"datamove.dev/csi/volumestore"
	"datamove.dev/mover"
)

// Name is the driver's, as StorageClasses have it.
const Name = "csi.datamove.dev"

// NodeTopology is the key of the topology: a node has its own scratch.
const NodeTopology = "topology.csi.datamove.dev/node"

// Mode is which services a process of the driver has.
type Mode string

// The modes.
const (
	All        Mode = "all"
	Controller Mode = "controller"
	Node       Mode = "node"
)

// Options are what a driver is made of.
type Options struct {
	Config  *Config
	Files   *fsclient.Files
	Mode    Mode
	NodeID  string
	Version string
	Logger  *slog.Logger
	// Staging brings datasets; nil has none.
	Staging Staging
	// Patience is how long a call waits for a dataset, beyond what Staging does; less than the two minutes of the kubelet.
	Patience time.Duration
	// Metrics count; nil is made by New.
	Metrics *metrics.Metrics
	// Cluster is told what becomes of volumes; nil tells nothing.
	Cluster Cluster
	// Fleet reaches the drivers of nodes, for a controller that has no scratch of its own; nil is for one that has.
	Fleet *nodeproxy.Clients
	// Mounts are those below a path ("" is all), as the kernel has them; nil is mount.Table.
	Mounts func(below string) ([]mount.Mount, error)
}

// Driver answers the calls of Kubernetes.
type Driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer
	Options

	volumes *busy         // by ID or name
	targets *busy         // by path
	stats   kept          // of volumes on this node
	beats   heartbeats    // of other nodes
	removed chan struct{} // that there is something to reap
	freed   chan struct{} // that there is something to let go
	ready   atomic.Bool   // of a controller: its file systems were seen
	late    atomic.Bool   // of a controller: others have had the time to go first
}

// New makes a driver.
func New(o Options) *Driver {
	d := &Driver{Options: o, volumes: &busy{}, targets: &busy{}, removed: make(chan struct{}, 1), freed: make(chan struct{}, 1)}
	if d.Mounts == nil {
		d.Mounts = mount.Table
	}
	if d.Metrics == nil {
		d.Metrics = metrics.New(metrics.Now{Busy: d.Busy, Hanging: d.Files.Hanging})
	}
	return d
}

// Busy is how many calls are under way, and for how long the oldest has been.
func (d *Driver) Busy() (n int, oldest time.Duration) {
	for _, b := range []*busy{d.volumes, d.targets} {
		age, some := b.oldest()
		n, oldest = n+some, max(oldest, age)
	}
	return n, oldest
}

// Register adds the services of the driver's mode.
func (d *Driver) Register(s grpc.ServiceRegistrar) {
	csi.RegisterIdentityServer(s, d)
	if d.Mode != Node {
		csi.RegisterControllerServer(s, d)
	}
	if d.Mode != Controller {
		csi.RegisterNodeServer(s, d)
	}
}

// Unary is around every call: it is counted, errors get their codes, and are logged once.
func (d *Driver) Unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	return d.Metrics.Unary(ctx, request, info, func(ctx context.Context, request any) (any, error) {
		return d.answer(ctx, request, info, handle)
	})
}

func (d *Driver) answer(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	var reply any
	there, answered, err := d.elsewhere(ctx, request, info.FullMethod)
	if reply = there; !answered {
		reply, err = handle(ctx, request)
	}
	if err != nil {
		err = toStatus(err)
		d.Logger.WarnContext(ctx, "a call failed", "call", info.FullMethod, "err", err)
	}
	return reply, err
}

// GetPluginInfo returns the name and the version of the driver.
func (d *Driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: Name, VendorVersion: d.Version}, nil
}

// GetPluginCapabilities says what kinds of services there are.
func (d *Driver) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	var all []*csi.PluginCapability
	for _, t := range []csi.PluginCapability_Service_Type{
		csi.PluginCapability_Service_CONTROLLER_SERVICE,
		csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS,
		csi.PluginCapability_Service_SNAPSHOT_ACCESSIBILITY_CONSTRAINTS,
	} {
		all = append(all, &csi.PluginCapability{Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: t}}})
	}
	online := &csi.PluginCapability_VolumeExpansion{Type: csi.PluginCapability_VolumeExpansion_ONLINE}
	all = append(all, &csi.PluginCapability{Type: &csi.PluginCapability_VolumeExpansion_{VolumeExpansion: online}})
	return &csi.GetPluginCapabilitiesResponse{Capabilities: all}, nil
}

// spec is a file system as package volumestore has it.
func (d *Driver) spec(name string) volumestore.Spec { return d.Config.spec(name, d.NodeID) }

// known reads the ID of a volume on a file system of the configuration. It returns mover.ErrNotExist for what no volume has as its ID,
// mover.ErrConflict for one of another file system.
func (d *Driver) known(text string) (volume.ID, volumestore.Spec, error) {
	if text == "" {
		return volume.ID{}, volumestore.Spec{}, fmt.Errorf("%w: the volume ID is missing", mover.ErrUsage)
	}
	id, err := volume.ParseID(text)
	if err != nil {
		// No volume has an ID that can not be parsed.
		return id, volumestore.Spec{}, fmt.Errorf("%w: %s", mover.ErrNotExist, err.Error())
	}
	if id.FileSystem == "" {
		return id, volumestore.Spec{}, nil
	}
	if _, ok := d.Config.FileSystems[id.FileSystem]; !ok {
		// The volume may exist: after NotFound, Kubernetes would delete its PersistentVolume, and leave the rest for ever.
		return id, volumestore.Spec{}, fmt.Errorf("%w: %s: the driver's configuration has no file system %s", mover.ErrConflict, id, id.FileSystem)
	}
	return id, d.spec(id.FileSystem), nil
}
