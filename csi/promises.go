package csi

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"datamove.dev/csi/volume"
	"datamove.dev/mover"
	"datamove.dev/mover/units"
	"datamove.dev/tiering/dataset/datasetclient"
)

// spacePatience is how long a mover that says nothing is waited for.
const spacePatience = 8 * time.Second

// leavesPromises refuses a dataset that would take what volumes on the same disk of this node were promised, and have not written yet: of that the mover knows
// nothing. What the mover does not answer, it says when it is asked for the dataset.
func (d *Driver) leavesPromises(ctx context.Context, source datasetclient.Source) error {
	var disks []string
	for _, name := range slices.Sorted(maps.Keys(d.Config.FileSystems)) {
		if d.Config.FileSystems[name].Use == volume.Scratch {
			disks = append(disks, name)
		}
	}
	if len(disks) == 0 {
		return nil
	}
	source.Node = d.NodeID
	limit, cancel := context.WithTimeout(ctx, spacePatience)
	defer cancel()
	x, err := d.Staging.Space(limit, source)
	if err != nil || x.There || x.Bytes == 0 || x.Tier == "" {
		return nil //nolint:nilerr // see above
	}
	for _, name := range disks {
		f := d.Config.FileSystems[name]
		if f.Tier != x.Tier && !mover.Within(x.Path, f.Root) {
			continue
		}
		if s, err := d.Files.Space(ctx, d.spec(name)); err == nil && x.Bytes > s.RoomBytes+x.MayGo {
			return fmt.Errorf("%w: %s has %s, and %s of file system %s of this node are neither promised to volumes nor kept free", mover.ErrFull,
				mover.Printable(source.Location), units.Bytes(x.Bytes), units.Bytes(s.RoomBytes+x.MayGo), name)
		}
	}
	return nil
}
