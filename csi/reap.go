package csi

import (
	"context"
	"maps"
	"slices"
	"time"

	"datamove.dev/csi/volume"
)

// keeps reports whether the volumes of a file system are this driver's to count and to reap: scratch is its node's, the others
// are the controller's.
func (d *Driver) keeps(name string) bool {
	f := d.Config.FileSystems[name]
	return f.Volumes != "" && (d.Mode == All || (f.Use == volume.Scratch) == (d.Mode == Node))
}

// Reap removes what is due in the trash of the file systems that this driver keeps, until ctx is over.
func (d *Driver) Reap(ctx context.Context, every time.Duration) {
	for ctx.Err() == nil {
		again := false
		for _, name := range slices.Sorted(maps.Keys(d.Config.FileSystems)) {
			if !d.keeps(name) {
				continue
			}
			if _, err := d.archive(ctx, name); err != nil {
				d.Logger.WarnContext(ctx, "a removed volume can not be archived; it stays", "fileSystem", name, "err", err)
			}
			if err := d.forsake(ctx, name, time.Now()); err != nil {
				d.Logger.WarnContext(ctx, "a volume that was never made can not be removed", "fileSystem", name, "err", err)
			}
			gone, left, err := d.Files.Reap(ctx, d.spec(name), time.Now())
			if err != nil {
				d.Logger.WarnContext(ctx, "the trash can not be emptied", "fileSystem", name, "err", err)
			}
			if gone > 0 {
				d.Logger.InfoContext(ctx, "removed from the trash", "fileSystem", name, "volumes", gone, "left", left)
			}
			again = again || err == nil && left > 0
		}
		if again {
			continue // a call has a limit, and there is more to do than one does
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		case <-d.removed:
		}
	}
}

// reapSoon has what was removed just now looked at without waiting.
func (d *Driver) reapSoon() {
	select {
	case d.removed <- struct{}{}:
	default: // it is known
	}
}
