package base

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/csi/volume"
	"datamove.dev/lustre"
	"datamove.dev/mover"
)

// patience is for how long somebody may come back to a volume that was begun.
const patience = 24 * time.Hour

// giveUp moves to the trash what was begun long ago and never made. What the mover copies into is left to who has it copy.
func (b *Base) giveUp(now time.Time) error {
	making, err := b.in(makingDir)
	if err != nil {
		return err
	}
	defer making.close()
	keys, err := making.names()
	if err != nil {
		return err
	}
	var errs []error
	for _, key := range keys {
		errs = append(errs, b.giveUpOne(making, key, now))
	}
	return errors.Join(errs...)
}

func (b *Base) giveUpOne(making dir, key string, now time.Time) error {
	at, err := making.sub(key)
	if errors.Is(err, mover.ErrNotExist) { // it is made by now
		return nil
	}
	if err != nil {
		return err
	}
	defer at.close()
	var r Record
	switch err := at.read(recordFile, &r); {
	case errors.Is(err, mover.ErrNotExist): // only the directory was made; it is empty, or stays
		var st unix.Stat_t
		if err := unix.Fstat(int(at), &st); err != nil || now.Sub(time.Unix(st.Mtim.Unix())) < patience {
			return err
		}
		if err := unix.Unlinkat(int(making), key, unix.AT_REMOVEDIR); err != unix.ENOENT {
			return failed("remove", making, key, err)
		}
		return nil
	case err != nil:
		return err
	case r.Filling || now.Sub(r.Created) < patience:
		return nil
	}
	id, err := volume.ParseID(r.ID)
	if err == nil && id.Key == key {
		_, err = b.abandon(id, r.Mark, "nobody came back to it")
	}
	return err
}

// tend looks after projects where a file system does not do so: what somebody made in a volume, outside of its limits, is put
// under them, and what was left of the projects of volumes that are gone is removed.
func (b *Base) tend(ctx context.Context) error {
	tender, ok := b.handle.System.Quota.(lustre.ProjectTender)
	if !ok {
		return nil
	}
	home, err := b.in(volumesDir)
	if err != nil {
		return err
	}
	defer home.close()
	keys, err := home.names()
	if err != nil {
		return err
	}
	var errs []error
	for _, key := range keys {
		var r Record
		at, err := home.sub(key)
		if err == nil {
			err = at.read(recordFile, &r)
			at.close()
		}
		if err == nil && r.Project != nil {
			errs = append(errs, tender.Gather(ctx, b.handle.FD(), *r.Project))
		} // what can not be read is told where it is listed
	}
	errs = append(errs, b.claims(func(claims dir, name string, p lustre.Project) error {
		gone, err := tender.Forget(ctx, b.handle.FD(), p)
		if err == nil && gone {
			err = failed("give back", claims, name, unix.Unlinkat(int(claims), name, 0))
		}
		return err
	}))
	if ctx.Err() != nil { // the next one goes on
		return nil
	}
	return errors.Join(errs...)
}
