package volumestore

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/csi/volume"
	"datamove.dev/lustre"
	"datamove.dev/mover"
)

// patience is how long a volume that was begun waits for its caller to come back.
const patience = 24 * time.Hour

// giveUp moves to the trash what was begun and forsaken. A volume that is being filled is left to the driver that has it copied.
func (b *Base) giveUp(now time.Time) error {
	making, err := b.in(makingDir)
	if err != nil {
		return err
	}
	defer making.close()
	forsaken, err := making.forsaken(now)
	errs := []error{err}
	for key, r := range forsaken {
		switch id, err := volume.ParseID(r.ID); {
		case r.Schema == "": // only the directory was made; it is empty, or stays
			if err := unix.Unlinkat(int(making), key, unix.AT_REMOVEDIR); err != unix.ENOENT {
				errs = append(errs, failed("remove", making, key, err))
			}
		case err == nil && id.Key == key && !r.Filling:
			_, err = b.abandon(id, r.Mark, forsakenBy)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// forsakenBy is the cause in the tombstone of a forsaken volume.
const forsakenBy = "the driver: nobody came back to it"

// Forsaken lists volumes into which something is copied, or was, and which no call has asked for again for a day.
func (b *Base) Forsaken(ctx context.Context, now time.Time) (all []volume.ID, err error) {
	making, err := b.in(makingDir)
	if err != nil {
		return nil, err
	}
	defer making.close()
	forsaken, err := making.forsaken(now)
	for key, r := range forsaken {
		if id, err := volume.ParseID(r.ID); err == nil && id.Key == key && r.Filling {
			all = append(all, id)
		}
	}
	return all, errors.Join(err, ctx.Err())
}

// forsaken lists the records in a directory of what is made which no call has asked for again for a day, by their keys. The
// record may be the zero one: it is the second step.
func (d dir) forsaken(now time.Time) (map[string]Record, error) {
	keys, err := d.names()
	all, errs := map[string]Record{}, []error{err}
	for _, key := range keys {
		at, err := d.sub(key)
		if errors.Is(err, mover.ErrNotExist) { // it is made by now
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		var r Record
		var st unix.Stat_t
		err = errors.Join(unix.Fstat(int(at), &st), missing(at.read(recordFile, &r)))
		at.close()
		if errs = append(errs, err); err == nil && now.Sub(time.Unix(st.Mtim.Unix())) >= patience {
			all[key] = r
		}
	}
	return all, errors.Join(errs...)
}

// missing has what is not there be no error.
func missing(err error) error {
	if errors.Is(err, mover.ErrNotExist) {
		return nil
	}
	return err
}

// tend looks after projects where a file system does not do so. It puts what a pod made in a volume, outside of its limits,
// under them. It removes what was left of the projects of volumes that are gone.
func (b *Base) tend(ctx context.Context) error {
	tender, ok := b.handle.System.Quota.(lustre.ProjectTender)
	if !ok {
		return nil
	}
	var errs []error
	unread := b.each(volumesDir, func(r *Record) {
		if r.Project != nil {
			errs = append(errs, tender.Gather(ctx, b.handle.FD(), *r.Project))
		}
	})
	book, done, err := b.book()
	if err == nil {
		err = book.Each(func(id uint32) error {
			errs = append(errs, book.Forget(ctx, tender, b.handle.FD(), id)) // the others all the same
			return nil
		})
		done()
	}
	errs = append(errs, unread, err)
	if ctx.Err() != nil { // the next one goes on
		return nil
	}
	return errors.Join(errs...)
}
