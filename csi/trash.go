package csi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"datamove.dev/csi/volumestore"
	"datamove.dev/mover"
)

// Removed is something that was removed and is not gone.
type Removed = volumestore.Removed

// Trash lists what was removed on the file systems that this driver has, and is not gone. One that does not answer keeps
// the others from nothing.
func (d *Driver) Trash(ctx context.Context) (all []Removed, err error) {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(d.Config.FileSystems)) {
		if d.Config.FileSystems[name].Volumes == "" || !d.has(name) {
			continue
		}
		some, err := d.Files.Trash(ctx, d.spec(name))
		all, errs = append(all, some...), append(errs, err)
	}
	return all, errors.Join(errs...)
}

// Restore brings back what was removed last under an ID.
func (d *Driver) Restore(ctx context.Context, text string) (volumestore.Record, error) {
	id, spec, err := d.known(text)
	if err == nil && !id.Ours() {
		err = fmt.Errorf("%w: %s was not made by this driver, which never removes it", mover.ErrUsage, id)
	}
	if err != nil {
		return volumestore.Record{}, err
	}
	return d.Files.Restore(ctx, spec, id)
}
