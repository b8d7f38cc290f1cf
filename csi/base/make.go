package base

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/csi/volume"
	"datamove.dev/lustre"
	"datamove.dev/mover"
)

// Make makes a volume or a snapshot, or finds it made. One of that ID and other wishes is
// mover.ErrConflict; where there is no room, or the quota can not be set, nothing is left that
// could be found. Where the file system can not copy by itself what the wish begins with,
// the error is an *Unfilled.
func (b *Base) Make(ctx context.Context, w Wish) (Record, error) {
	r, err := b.begin(ctx, w)
	if err != nil || r.Inode != 0 {
		return r, err
	}
	return b.finish(ctx, w, r)
}

// Unfilled is the error of Make where somebody has to copy Source into Target, both below the Root of the
// file system. When that is done, Filled goes on. Mark is of this volume, and of none that had its name before.
type Unfilled struct{ Mark, Source, Target string }

func (u *Unfilled) Error() string {
	return "the content of " + u.Source + " has to be copied to " + u.Target + " first"
}

// Unwrap makes it an error of a file system.
func (u *Unfilled) Unwrap() error { return mover.ErrUnsupported }

// Filled makes a volume whose target was filled.
func (b *Base) Filled(ctx context.Context, w Wish) (Record, error) {
	r, err := b.begin(ctx, w)
	if err != nil || r.Inode != 0 {
		return r, err
	}
	r.Filled = true
	return b.finish(ctx, w, r)
}

// Begun is the mark of a volume that was begun, and is not made yet; "" is none.
func (b *Base) Begun(_ context.Context, id volume.ID) (mark string, err error) {
	making, err := b.in(makingDir)
	if err != nil {
		return "", err
	}
	defer making.close()
	at, err := making.sub(id.Key)
	var r Record
	if err == nil {
		defer at.close()
		err = at.read(recordFile, &r)
	}
	if errors.Is(err, mover.ErrNotExist) {
		return "", nil
	}
	return r.Mark, err
}

// begin returns the record of a volume that is there, or writes one of a volume to come: that has no inode.
func (b *Base) begin(ctx context.Context, w Wish) (Record, error) {
	f, err := b.Find(ctx, w.ID)
	switch {
	case err == nil:
		defer f.Close()
		return f.Record, f.Record.fits(w)
	case !errors.Is(err, mover.ErrNotExist):
		return Record{}, err
	}
	making, err := b.in(makingDir)
	if err != nil {
		return Record{}, err
	}
	defer making.close()
	at, err := making.make(w.ID.Key, 0o711)
	if err != nil {
		return Record{}, err
	}
	defer at.close()
	r := Record{Schema: recordSchema, ID: w.ID.String(), Mark: random(), Asked: w.asked(), Bytes: w.Bytes, Parameters: w.Parameters, Created: time.Now().UTC()}
	err = b.promise(ctx, at, r)
	if errors.Is(err, mover.ErrConflict) { // begun before: its mark stays
		r = Record{}
		if err = at.read(recordFile, &r); err == nil {
			err = r.fits(w)
		}
	}
	r.Inode = 0
	return r, err
}

// promising is held while room is counted and a record written: two who look at once would both see it.
var promising sync.Mutex

// promise writes the first record of a volume, if there is room for it.
func (b *Base) promise(ctx context.Context, at dir, r Record) error {
	if b.spec.Promise == nil {
		return at.write(recordFile, r, false)
	}
	promising.Lock()
	defer promising.Unlock()
	if begun, err := at.has(recordFile); err != nil || begun {
		return errors.Join(err, mover.ErrConflict)
	}
	s, err := b.Space(ctx)
	if err != nil {
		return err
	}
	if r.Bytes > s.RoomBytes {
		return errors.Join(fmt.Errorf("%w: file system %s can promise %d bytes more, and not %d", mover.ErrFull, b.spec.Name, s.RoomBytes, r.Bytes), b.forget(r))
	}
	return at.write(recordFile, r, false)
}

// forget removes the directory of a volume that was not even begun.
func (b *Base) forget(r Record) error {
	id, err := volume.ParseID(r.ID)
	if err != nil {
		return err
	}
	making, err := b.in(makingDir)
	if err != nil {
		return err
	}
	defer making.close()
	return failed("remove", making, id.Key, unix.Unlinkat(int(making), id.Key, unix.AT_REMOVEDIR))
}

// finish makes what has been begun, step by step: each finds what it has done before.
func (b *Base) finish(ctx context.Context, w Wish, r Record) (Record, error) {
	making, err := b.in(makingDir)
	if err != nil {
		return Record{}, err
	}
	defer making.close()
	at, err := making.sub(w.ID.Key)
	if err != nil {
		return Record{}, err
	}
	defer at.close()
	data, err := b.project(ctx, at, w, &r)
	if err != nil {
		return Record{}, err
	}
	defer data.close()
	for _, step := range []func() error{
		func() error { return b.limit(ctx, data, &r) },
		func() error { return b.lay(ctx, data, r.Parameters.Place) },
		func() error { return b.fill(ctx, at, w, &r) },
		func() error { return own(data, w) },
		func() error { return r.mark(data) },
		func() error { return b.freeze(ctx, data, w.ID) },
		data.sync,
		func() error { return at.write(recordFile, r, true) },
		ctx.Err,
	} {
		if err := step(); err != nil {
			return Record{}, err
		}
	}
	return b.publish(ctx, making, w, r)
}

// publish makes a volume one that can be found. Who finds it published meanwhile has it, too.
func (b *Base) publish(ctx context.Context, making dir, w Wish, r Record) (Record, error) {
	home, err := b.in(homeOf(w.ID.Kind))
	if err != nil {
		return Record{}, err
	}
	defer home.close()
	err = making.move(w.ID.Key, home, w.ID.Key)
	if err == nil {
		return r, nil
	}
	f, findErr := b.Find(ctx, w.ID)
	if findErr != nil {
		return Record{}, err
	}
	defer f.Close()
	return f.Record, f.Record.fits(w)
}

// own gives data its owner and mode. One that begins with the content of another has those of that.
func own(data dir, w Wish) error {
	if w.From != nil {
		return nil
	}
	err := unix.Fchown(int(data), int(w.Parameters.UID), int(w.Parameters.GID))
	if err == nil {
		err = unix.Fchmod(int(data), w.Parameters.Mode)
	}
	if err != nil {
		return &mover.Error{Op: "set owner and mode of", Place: data.name(), Err: err}
	}
	return nil
}

// limit gives a project its quota, and looks if it holds.
func (b *Base) limit(ctx context.Context, data dir, r *Record) error {
	quotas := b.handle.System.Quota
	if quotas == nil && r.Bytes == 0 {
		return nil
	}
	if quotas == nil {
		if r.Unenforced = b.handle.System.Lacks[lustre.AskQuota]; b.spec.Unenforced {
			return nil
		}
		return fmt.Errorf("%w: nothing would hold a volume to its capacity: %w; set unenforced: true for it to make volumes all the same", mover.ErrUnsupported, b.handle.System.Lack(lustre.AskQuota))
	}
	p := r.project()
	q, err := quotas.Quota(ctx, int(data), p)
	if err != nil {
		return err
	}
	l, err := r.limits(&q)
	if err != nil {
		return err
	}
	if err := quotas.SetQuota(ctx, int(data), p, l); err != nil {
		return err
	}
	if q, err = quotas.Quota(ctx, int(data), p); err != nil {
		return err
	}
	if r.Enforced = q.Enforced || r.Bytes == 0; r.Enforced || b.spec.Unenforced {
		if !r.Enforced {
			r.Unenforced = "the file system counts, and refuses nothing"
		}
		return nil
	}
	return fmt.Errorf("%w: the quotas of %s are counted and not enforced; switch enforcement on, or set unenforced: true", mover.ErrUnsupported, mover.Printable(b.spec.Root))
}

// project is what quotas are asked about: where a directory is its own project, the zero one, so
// that it may be renamed.
func (r *Record) project() lustre.Project {
	if r.Project == nil {
		return lustre.Project{}
	}
	return *r.Project
}

// limits are those of r on a file system that can do what q says.
func (r *Record) limits(q *lustre.Quota) (lustre.Limits, error) {
	l := lustre.Limits{HardBytes: r.Bytes, SoftBytes: r.Bytes / 100 * int64(r.Parameters.Quota.SoftPercent), HardFiles: r.Parameters.Quota.Files}
	switch {
	case l.SoftBytes > 0 && !q.HasSoft:
		return l, fmt.Errorf("%w: parameter softPercent: this file system has no soft limits", mover.ErrUnsupported)
	case l.HardFiles > 0 && !q.CountsFiles:
		return l, fmt.Errorf("%w: parameter files: this file system does not count the files of a project", mover.ErrUnsupported)
	}
	return l, nil
}

// lay sets how new files in data lie on a Lustre.
func (b *Base) lay(ctx context.Context, data dir, p volume.Layout) error {
	layouts := b.handle.System.Layout
	if p.IsZero() {
		return nil
	}
	if layouts == nil {
		return b.handle.System.Lack(lustre.AskLayout)
	}
	cluster, err := layouts.Cluster(ctx, int(data))
	if err != nil {
		return err
	}
	l := lustre.Advise(lustre.Request{Use: p.Use, Pool: p.OSTPool}, cluster).Layout
	if p.StripeCount != 0 || p.StripeBytes != 0 {
		l = plainLayout(p)
	}
	return layouts.SetDefault(ctx, int(data), l)
}

func plainLayout(p volume.Layout) lustre.Layout {
	return lustre.Layout{Components: []lustre.Component{{End: lustre.EOF, Pattern: lustre.RAID0, FirstTarget: lustre.AnyTarget, StripeCount: p.StripeCount, StripeBytes: p.StripeBytes, Pool: p.OSTPool}}}
}
