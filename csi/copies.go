package csi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"datamove.dev/csi/volume"
	"datamove.dev/csi/volumestore"
	"datamove.dev/mover"
	"datamove.dev/tiering/dataset/datasetclient"
)

// copies has the mover copy what a volume begins with, where its file system can not clone.
func (d *Driver) copies(ctx context.Context, fileSystem string, u *volumestore.Unfilled) error {
	if err := d.canCopy(fileSystem); err != nil {
		return err
	}
	tier := d.Config.FileSystems[fileSystem].Tier
	return d.Staging.Copy(ctx, datasetclient.Order{Key: u.Mark, From: tier + ":" + u.Source, To: tier + ":" + u.Target})
}

// uncopied says why the mover can copy nothing on a file system; "" where it can.
func (d *Driver) uncopied(fileSystem string) string {
	if d.Staging == nil || d.Config.FileSystems[fileSystem].Tier == "" {
		return fmt.Sprintf("the driver's configuration has no service, or no tier for file system %s: nobody can copy what is on it", fileSystem)
	}
	return ""
}

// canCopy is uncopied as an error.
func (d *Driver) canCopy(fileSystem string) error {
	if why := d.uncopied(fileSystem); why != "" {
		return fmt.Errorf("%w: %s", mover.ErrUnsupported, why)
	}
	return nil
}

// archivable reports why volumes with these parameters could not be archived.
func (d *Driver) archivable(fileSystem string, p volume.Parameters) error {
	if p.OnDelete != volume.Archive {
		return nil
	}
	if err := d.canCopy(fileSystem); err != nil {
		return fmt.Errorf("onDelete archive: %w", err)
	}
	return nil
}

// remove takes a volume or a snapshot away. It first stops a copy into one that was only begun. Otherwise
// the copy would write to the path of the next one of its name.
func (d *Driver) remove(ctx context.Context, spec volumestore.Spec, id volume.ID, by string) error {
	if d.canCopy(spec.Name) == nil {
		mark, err := d.Files.Begun(ctx, spec, id)
		if err == nil && mark != "" {
			err = d.Staging.Stop(ctx, mark)
		}
		if err != nil {
			return err
		}
	}
	return d.Files.Remove(ctx, spec, id, by)
}

// forsake ends the copies of volumes that no caller has asked for again, and removes what they have of them.
func (d *Driver) forsake(ctx context.Context, fileSystem string, now time.Time) error {
	spec := d.spec(fileSystem)
	all, err := d.Files.Forsaken(ctx, spec, now)
	errs := []error{err}
	for _, id := range all {
		errs = append(errs, d.remove(ctx, spec, id, "the driver: nobody came back to it"))
	}
	return errors.Join(errs...)
}

// archive copies, or goes on copying, what was removed and has to be archived before it is gone. It reports how much is left.
func (d *Driver) archive(ctx context.Context, fileSystem string) (left int, err error) {
	if d.canCopy(fileSystem) != nil {
		return 0, nil
	}
	spec := d.spec(fileSystem)
	all, err := d.Files.Unarchived(ctx, spec)
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, a := range all {
		err := d.Staging.Copy(ctx, datasetclient.Order{Key: "archive " + a.Record.Mark, From: d.Config.FileSystems[fileSystem].Tier + ":" + a.Source, To: a.Target})
		var u *datasetclient.Underway
		switch {
		case errors.As(err, &u):
			left++
			continue
		case err == nil:
			err = d.Files.Archived(ctx, spec, a.Name, time.Now())
			d.Logger.InfoContext(ctx, "a removed volume is archived", "volume", a.Record.ID, "at", a.Target)
		}
		if err != nil {
			left++
			errs = append(errs, fmt.Errorf("%s to %s: %w", a.Record.ID, a.Target, err))
		}
	}
	return left, errors.Join(errs...)
}
