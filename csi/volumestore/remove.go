package volumestore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/csi/volume"
	"datamove.dev/lustre"
	"datamove.dev/mover"
	"datamove.dev/mover/trash"
)

// Remove takes a volume away: from its return on it is found no more, and it lies in the trash
// for as long as its parameters say. One that is not there is removed. What is not
// ours, and what does not carry our mark, is refused.
func (b *Base) Remove(ctx context.Context, id volume.ID, by string) error {
	f, err := b.Find(ctx, id)
	if errors.Is(err, mover.ErrNotExist) {
		_, err := b.abandon(id, "", by)
		return err
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if f.Record.Parameters.OnDelete == volume.Retain {
		return nil // no claim leads to it any more, and its directory stays as it is
	}
	home, err := b.in(homeOf(id.Kind))
	if err != nil {
		return err
	}
	defer home.close()
	_, err = b.discard(home, f.at, id, &f.Record, by)
	return err
}

// abandon removes what is left of a volume that was begun and never made, and returns its name in the trash; "" is of nothing.
// With a mark, only the one that has it is meant.
func (b *Base) abandon(id volume.ID, mark, by string) (name string, err error) {
	making, err := b.in(makingDir)
	if err != nil {
		return "", err
	}
	defer making.close()
	at, err := making.sub(id.Key)
	if errors.Is(err, mover.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer at.close()
	var r Record
	if err := at.read(recordFile, &r); err != nil && !errors.Is(err, mover.ErrNotExist) {
		return "", err
	}
	if mark != "" && r.Mark != mark {
		return "", nil
	}
	return b.discard(making, at, id, &Record{Bytes: r.Bytes, Parameters: volume.Parameters{OnDelete: volume.Remove}}, by)
}

// discard writes a tombstone, and moves a directory to the trash, where it has another name. The tombstone is first: what lies in the
// trash without one is what is left of something removed.
func (b *Base) discard(home, at dir, id volume.ID, r *Record, by string) (name string, err error) {
	now := time.Now().UTC()
	t := Tombstone{Schema: tombstoneSchema, ID: id.String(), Removed: now, Keep: now.Add(r.Parameters.Trash), By: by, Bytes: r.Bytes}
	if r.Parameters.OnDelete == volume.Archive {
		t.ArchiveTo = r.Parameters.ArchiveTo
	}
	if err := at.write(stoneFile, t, true); err != nil {
		return "", err
	}
	bin, err := b.in(trashDir)
	if err != nil {
		return "", err
	}
	defer bin.close()
	name = id.Key + "." + strconv.FormatInt(now.UnixNano(), 10)
	return name, home.move(id.Key, bin, name)
}

// Reap removes what lay in the trash for long enough, as far as it gets until ctx is over, and
// says how many volumes are gone, and how many are left to remove. What has to be archived
// first and was not, stays. What was begun a day ago and never made, goes the same way, and projects are
// looked after.
func (b *Base) Reap(ctx context.Context, now time.Time) (gone, left int, err error) {
	late := b.giveUp(now)
	gone, left, err = b.empty(ctx, now)
	return gone, left, errors.Join(late, err, b.tend(ctx))
}

// empty removes what is due in the trash.
func (b *Base) empty(ctx context.Context, now time.Time) (gone, left int, err error) {
	bin, err := b.in(trashDir)
	if err != nil {
		return 0, 0, err
	}
	defer bin.close()
	names, err := bin.names()
	if err != nil {
		return 0, 0, err
	}
	var errs []error
	for _, name := range names {
		due, err := b.reapOne(ctx, bin, name, now)
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

func (b *Base) reapOne(ctx context.Context, bin dir, name string, now time.Time) (due bool, err error) {
	at, err := bin.sub(name)
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
		if err := bin.move(name, bin, name+going); err != nil {
			return false, err
		}
		name += going
	}
	if err := b.destroy(ctx, at, &r); err != nil {
		return false, err
	}
	// The tombstone goes last: without it, Reap would not know the rest.
	for _, file := range []string{recordFile, stoneFile} {
		if err := unix.Unlinkat(int(at), file, 0); err != nil && err != unix.ENOENT {
			return false, &mover.Error{Op: "remove", Location: at.name(), Name: file, Err: err}
		}
	}
	if err := trash.Clear(ctx, int(at), trash.Rate{}); err != nil { // drafts of killed ones
		return false, err
	}
	if err := unix.Unlinkat(int(bin), name, unix.AT_REMOVEDIR); err != nil && err != unix.ENOENT {
		return false, &mover.Error{Op: "remove", Location: bin.name(), Name: name, Err: err}
	}
	return true, nil
}

// destroy removes what pods saw of a volume, and then its project.
func (b *Base) destroy(ctx context.Context, at dir, r *Record) error {
	maker, makes := b.handle.System.Quota.(lustre.ProjectMaker)
	data, err := at.data()
	switch {
	case errors.Is(err, mover.ErrNotExist):
	case err != nil:
		return err
	default:
		if err = r.mayGo(data); err == nil && makes {
			err = b.account(ctx, at, data, r) // an older driver may not have said which it is
		} else if err == nil {
			err = trash.Clear(ctx, int(data), trash.Rate{})
		}
		data.close() // what is open holds a fileset
		if err != nil {
			return err
		}
	}
	if makes {
		return b.unmake(ctx, maker, at, r)
	}
	if err := unix.Unlinkat(int(at), dataDir, unix.AT_REMOVEDIR); err != nil && err != unix.ENOENT {
		return &mover.Error{Op: "remove", Location: at.name(), Name: dataDir, Err: err}
	}
	if b.handle.System.Quota != nil && r.Project != nil {
		if err := b.handle.System.Quota.SetQuota(ctx, int(at), *r.Project, lustre.Limits{}); err != nil {
			return err
		}
	}
	return b.giveBack(r)
}

// unmake removes data together with its project, also what a killed one has left of that. Where something may be left
// for longer, that is claimed, for tend.
func (b *Base) unmake(ctx context.Context, maker lustre.ProjectMaker, at dir, r *Record) error {
	if r.Project == nil {
		return nil
	}
	if _, ok := maker.(lustre.ProjectTender); ok {
		book, done, err := b.book()
		if err != nil {
			return err
		}
		defer done()
		if _, err := book.Claim(r.Project.ID, r.Mark); err != nil {
			return full(err)
		}
	}
	if err := maker.RemoveProject(ctx, int(at), dataDir, *r.Project); err != nil && !errors.Is(err, mover.ErrNotExist) {
		return err
	}
	return nil
}

// mayGo reports why data is not to be removed with the record r. One that was never made may have no mark yet, or that of
// what it is a clone of.
func (r *Record) mayGo(data dir) error {
	switch {
	case r.Mark == "":
		return fmt.Errorf("%w: %s has no record; it is left alone", mover.ErrConflict, mover.Printable(data.name()))
	case r.Inode != 0:
		return r.marks(data)
	case r.Asked.From != "":
		return nil
	}
	_, err := unix.Fgetxattr(int(data), markName, nil)
	if err == unix.ENODATA || err == unix.EOPNOTSUPP {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(data), &st); err != nil {
		return err
	}
	unmade := *r
	unmade.Inode = st.Ino
	return unmade.marks(data)
}
