package base

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/csi/volume"
	"datamove.dev/lustre"
	"datamove.dev/mover"
)

// Remove takes a volume away: from its return on it is found no more, and it lies in the trash
// for as long as its parameters say. One that is not there is removed. What is not
// ours, and what does not carry our mark, is refused.
func (b *Base) Remove(ctx context.Context, id volume.ID, by string) error {
	f, err := b.Find(ctx, id)
	if errors.Is(err, mover.ErrNotExist) {
		return b.abandon(id, by)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if f.Record.Parameters.OnDelete == volume.Retain {
		return nil // nobody finds it by a claim any more, and its directory stays as it is
	}
	home, err := b.in(homeOf(id.Kind))
	if err != nil {
		return err
	}
	defer home.close()
	return b.discard(home, f.at, id, &f.Record, by)
}

// abandon removes what is left of a volume that was begun and never made.
func (b *Base) abandon(id volume.ID, by string) error {
	making, err := b.in(makingDir)
	if err != nil {
		return err
	}
	defer making.close()
	at, err := making.sub(id.Key)
	if errors.Is(err, mover.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer at.close()
	return b.discard(making, at, id, &Record{Parameters: volume.Parameters{OnDelete: volume.Remove}}, by)
}

// discard writes a tombstone, and moves a directory to the trash. The tombstone is first: what lies in the trash without one
// is what is left of something removed.
func (b *Base) discard(home, at dir, id volume.ID, r *Record, by string) error {
	now := time.Now().UTC()
	t := Tombstone{Schema: tombstoneSchema, ID: id.String(), Removed: now, Keep: now.Add(r.Parameters.Trash), By: by}
	if r.Parameters.OnDelete == volume.Archive {
		t.ArchiveTo = r.Parameters.ArchiveTo
	}
	if err := at.write(stoneFile, t, true); err != nil {
		return err
	}
	trash, err := b.in(trashDir)
	if err != nil {
		return err
	}
	defer trash.close()
	return home.move(id.Key, trash, id.Key+"."+strconv.FormatInt(now.UnixNano(), 10))
}

// Reap removes what lay in the trash for long enough, as far as it gets until ctx is over, and
// says how many volumes are gone, and how many are left to remove. What has to be archived
// first and was not, stays.
func (b *Base) Reap(ctx context.Context, now time.Time) (gone, left int, err error) {
	trash, err := b.in(trashDir)
	if err != nil {
		return 0, 0, err
	}
	defer trash.close()
	names, err := trash.names()
	if err != nil {
		return 0, 0, err
	}
	var errs []error
	for _, name := range names {
		due, err := b.reapOne(ctx, trash, name, now)
		switch {
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
			left++
		case err != nil:
			errs = append(errs, err)
			left++
		case due:
			gone++
		}
	}
	return gone, left, errors.Join(errs...)
}

// going ends the names of what is being destroyed: from then on it can not be brought back.
const going = ".going"

func (b *Base) reapOne(ctx context.Context, trash dir, name string, now time.Time) (due bool, err error) {
	at, err := trash.sub(name)
	if err != nil {
		return false, err
	}
	defer at.close()
	begun := strings.HasSuffix(name, going)
	var t Tombstone
	switch err := at.read(stoneFile, &t); {
	case errors.Is(err, mover.ErrNotExist): // all but the directory itself is gone
	case err != nil:
		return false, err
	case !begun && (t.Keep.After(now) || t.ArchiveTo != "" && t.Archived == nil):
		return false, nil
	}
	var r Record
	if err := at.read(recordFile, &r); err != nil && !errors.Is(err, mover.ErrNotExist) {
		return false, err
	}
	if !begun {
		if err := trash.move(name, trash, name+going); err != nil {
			return false, err
		}
		name += going
	}
	if err := b.destroy(ctx, at, &r); err != nil {
		return false, err
	}
	// The tombstone goes last: without it, the rest would be nobody's.
	for _, file := range []string{recordFile, stoneFile} {
		if err := unix.Unlinkat(int(at), file, 0); err != nil && err != unix.ENOENT {
			return false, &mover.Error{Op: "remove", Place: at.name(), Name: file, Err: err}
		}
	}
	if err := empty(ctx, at); err != nil { // drafts of killed ones
		return false, err
	}
	if err := unix.Unlinkat(int(trash), name, unix.AT_REMOVEDIR); err != nil && err != unix.ENOENT {
		return false, &mover.Error{Op: "remove", Place: trash.name(), Name: name, Err: err}
	}
	return true, nil
}

// destroy removes what pods saw of a volume, and then its project.
func (b *Base) destroy(ctx context.Context, at dir, r *Record) error {
	data, err := at.data()
	if errors.Is(err, mover.ErrNotExist) {
		return b.giveBack(r)
	}
	if err != nil {
		return err
	}
	defer data.close()
	if maker, ok := b.handle.System.Quota.(lustre.ProjectMaker); ok {
		p, err := b.handle.System.Quota.Project(ctx, int(data))
		if err != nil {
			return err
		}
		err = maker.RemoveProject(ctx, int(at), dataDir, p)
		if !errors.Is(err, unix.ENOTEMPTY) {
			return err
		}
		// There are projects in it: anybody can make a subvolume on a btrfs.
		return errors.Join(empty(ctx, data), maker.RemoveProject(ctx, int(at), dataDir, p))
	}
	if err := empty(ctx, data); err != nil {
		return err
	}
	if err := unix.Unlinkat(int(at), dataDir, unix.AT_REMOVEDIR); err != nil && err != unix.ENOENT {
		return &mover.Error{Op: "remove", Place: at.name(), Name: dataDir, Err: err}
	}
	if b.handle.System.Quota != nil && r.Project != nil {
		if err := b.handle.System.Quota.SetQuota(ctx, int(at), *r.Project, lustre.Limits{}); err != nil {
			return err
		}
	}
	return b.giveBack(r)
}
