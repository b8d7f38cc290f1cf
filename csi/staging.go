package csi

import (
	"context"
	"slices"
	"strings"
	"time"

	"datamove.dev/csi/fsclient"
	"datamove.dev/csi/mount"
	"datamove.dev/csi/volume"
	"datamove.dev/tiering/dataset/datasetclient"
)

// Staging brings datasets to this node, and keeps them there: *datasetclient.Mover does, and *datasetclient.Away, which gives pods what a node had before while the coordinator is away.
type Staging interface {
	// Stage asks for what a source holds, for a holder, which keeps it until Drop. While it is on its way the
	// error is a *datasetclient.Underway; a call that comes again asks for the same.
	Stage(ctx context.Context, source datasetclient.Source, holder string) (datasetclient.Staged, error)
	// Newest is the digest of the newest version of a dataset.
	Newest(ctx context.Context, dataset string) (digest string, err error)
	// Version is the digest of a dataset that holders which begin with a prefix have on any node; "" is none.
	Version(ctx context.Context, dataset, prefix string) (digest string, err error)
	// Space says whether there is room for a source on its node.
	Space(ctx context.Context, source datasetclient.Source) (datasetclient.Space, error)
	// Drop says that a holder does not need it any more. Nothing held is dropped.
	Drop(ctx context.Context, holder string) error
	// Holders are those that begin with a prefix and have something here.
	Holders(ctx context.Context, prefix string) ([]string, error)
	// Elsewhere is where, beside this node, another holder that begins with a prefix has something, and is alive; "" is nowhere.
	Elsewhere(ctx context.Context, prefix, holder string) (where string, err error)
	// Copy copies what is at one location to another, once for each key: nil when it is done, a *datasetclient.Underway before.
	Copy(ctx context.Context, o datasetclient.Order) error
	// Stop ends the copy of a key.
	Stop(ctx context.Context, key string) error
	// Look says what is staged, and what is on its way.
	Look(ctx context.Context) (*datasetclient.View, error)
	// Keep renews, until ctx is over, what holders that begin with a prefix and are alive have, and drops the rest.
	Keep(ctx context.Context, prefix string, alive func(holder string) bool, told func(error))
}

// lane is the one of a tier, for mounts and notes of its replicas.
func lane(root string) string { return "tier:" + root }

// Noting keeps a replica on this node from being removed until a time, as *datasetclient.Away needs it.
func Noting(f *fsclient.Files) func(ctx context.Context, at datasetclient.Staged, until time.Time) error {
	return func(ctx context.Context, at datasetclient.Staged, until time.Time) error {
		return f.Note(ctx, lane(at.Root), at.Root, at.Path, until)
	}
}

// pin gives the volume of a claim the newest version of its dataset, for all its pods: they would read different ones when the dataset is added
// anew. One that says its version has that.
func (d *Driver) pin(ctx context.Context, name string, p *volume.Parameters) error {
	dataset, digest := p.Source.Dataset()
	if dataset == "" {
		d.tellUnversioned(ctx, p, name)
	}
	if d.Staging == nil || dataset == "" || digest != "" || p.Source.Latest {
		return nil
	}
	digest, err := d.Staging.Newest(ctx, dataset)
	if err != nil {
		return err
	}
	p.Source = p.Source.At(digest)
	d.tellPinned(ctx, p, name)
	return nil
}

// sourceOf is what a pod asks the mover for. A volume that an administrator wrote, or an earlier version of the driver made, may have no version:
// its pods have the one that others of it have now.
func (d *Driver) sourceOf(ctx context.Context, p publication) (volume.Source, error) {
	s := p.about.Source
	dataset, digest := s.Dataset()
	if p.id.Kind != volume.Dataset || dataset == "" || digest != "" || s.Latest {
		return s, nil
	}
	digest, err := d.Staging.Version(ctx, dataset, ofVolume(p.id))
	if digest != "" {
		s = s.At(digest)
	}
	return s, err
}

// holders begin with it.
const holders = "csi:"

// ofVolume begins the holders that are mounts of one volume.
func ofVolume(id volume.ID) string {
	return holders + volume.KeyOf("", volume.Dataset, id.String()) + ":"
}

// holder is the holder of the lease for a mount: which volume, and where.
func holder(id volume.ID, target string) string {
	return ofVolume(id) + volume.KeyOf("", volume.Dataset, target)
}

// KeepLeases keeps datasets on this node as long as they are mounted, until ctx is over. What is mounted the kernel says:
// a driver that was killed remembers nothing, and has to.
func (d *Driver) KeepLeases(ctx context.Context) {
	d.Staging.Keep(ctx, holders, d.mounted, func(err error) {
		d.Logger.WarnContext(ctx, "leases of datasets can not be renewed", "err", err)
	})
}

// mounted reports if something is mounted where a holder has it. When that can not be known, it is.
func (d *Driver) mounted(who string) bool {
	table, err := d.Mounts("")
	return err != nil || slices.ContainsFunc(table, func(m mount.Mount) bool {
		return strings.HasSuffix(who, ":"+volume.KeyOf("", volume.Dataset, m.Point))
	})
}
