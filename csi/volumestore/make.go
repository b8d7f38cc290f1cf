package volumestore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/csi/volume"
	"datamove.dev/mover"
)

// Make makes a volume or a snapshot, or finds it made, whatever became since of what it began with. One of that ID and
// other wishes is mover.ErrConflict; where there is no room, or the quota can not be set, nothing is left
// of it. Where the file system can not copy by itself what the wish begins with, the error is an
// *Unfilled; where that is larger than what is wished for, a *TooSmall.
func (b *Base) Make(ctx context.Context, w Wish) (Record, error) { return b.make(ctx, w, false) }

// Filled makes a volume after its target was filled.
func (b *Base) Filled(ctx context.Context, w Wish) (Record, error) { return b.make(ctx, w, true) }

func (b *Base) make(ctx context.Context, w Wish, filled bool) (Record, error) {
	f, err := b.Find(ctx, w.ID)
	switch {
	case err == nil:
		defer f.Close()
		return f.Record, f.Record.fits(w)
	case !errors.Is(err, mover.ErrNotExist):
		return Record{}, err
	}
	r, err := b.begin(ctx, w)
	if err != nil {
		return Record{}, err
	}
	r.Filled = r.Filled || filled
	made, err := b.finish(ctx, w, r)
	if final(err) {
		return Record{}, errors.Join(err, b.undo(ctx, w.ID, r.Mark))
	}
	return made, err
}

// final reports whether the same call would fail again, or its caller may turn to another node: then nothing that was begun
// stays. What could not be reached, or is being copied, is gone on with.
func final(err error) bool {
	var u *Unfilled
	return (errors.Is(err, mover.ErrUsage) || errors.Is(err, mover.ErrUnsupported) || errors.Is(err, mover.ErrFull)) && !errors.As(err, &u)
}

// undo removes what was begun, unless it is of another mark by now. What it does not get done, the next Reap does.
func (b *Base) undo(ctx context.Context, id volume.ID, mark string) error {
	name, err := b.abandon(id, mark, "a creation that failed")
	if err != nil || name == "" {
		return err
	}
	trash, err := b.in(trashDir)
	if err != nil {
		return err
	}
	defer trash.close()
	_, err = b.reapOne(ctx, trash, name, time.Now())
	return err
}

// TooSmall is the error of Make where a volume would be smaller than what it begins with.
type TooSmall struct {
	Source string
	Bytes  int64 // what it has to have
}

func (t *TooSmall) Error() string {
	return fmt.Sprintf("%s has a capacity of %d bytes, and what is made of it can not have less", t.Source, t.Bytes)
}

// Unfilled is the error of Make where the caller has to copy Source into Target, both below the Root of the
// file system. When that is done, Filled goes on. Mark is of this volume, and of none that had its name before.
type Unfilled struct{ Mark, Source, Target string }

func (u *Unfilled) Error() string {
	return "the content of " + u.Source + " has to be copied to " + u.Target + " first"
}

// Unwrap makes it an error of a file system.
func (u *Unfilled) Unwrap() error { return mover.ErrUnsupported }

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

// begin writes the record of a volume to come, or finds it begun.
func (b *Base) begin(ctx context.Context, w Wish) (Record, error) {
	making, err := b.in(makingDir)
	if err != nil {
		return Record{}, err
	}
	defer making.close()
	r := Record{Schema: recordSchema, ID: w.ID.String(), Mark: random(), Asked: w.asked(), Bytes: w.Bytes, Parameters: w.Parameters, Created: time.Now().UTC()}
	if err := b.source(ctx, w, &r); err != nil {
		return Record{}, err
	}
	at, err := making.make(w.ID.Key, 0o711)
	if err != nil {
		return Record{}, err
	}
	defer at.close()
	err = b.promise(ctx, r.Bytes, func() error { return at.write(recordFile, r, false) })
	if !errors.Is(err, mover.ErrConflict) && !errors.Is(err, mover.ErrFull) {
		return r, err
	}
	var begun Record // before: its mark stays, and its promise
	switch readErr := at.read(recordFile, &begun); {
	case errors.Is(readErr, mover.ErrNotExist):
		return Record{}, errors.Join(err, failed("remove", making, w.ID.Key, unix.Unlinkat(int(making), w.ID.Key, unix.AT_REMOVEDIR)))
	case readErr != nil:
		return Record{}, readErr
	}
	return begun, errors.Join(begun.fits(w), at.touch())
}

// source looks at what a volume begins with: a snapshot has what its source may hold, and a volume may not have less.
func (b *Base) source(ctx context.Context, w Wish, r *Record) error {
	if w.From == nil {
		return nil
	}
	from, err := b.Find(ctx, *w.From)
	if err != nil {
		return err
	}
	defer from.Close()
	switch {
	case r.snapshot():
		r.Bytes = from.Record.Bytes
	case w.Bytes < from.Record.Bytes:
		return &TooSmall{Source: w.From.String(), Bytes: from.Record.Bytes}
	}
	if !b.clones() && w.Uncopied != "" {
		return fmt.Errorf("%w: %s, and it can not clone by itself", mover.ErrUnsupported, w.Uncopied)
	}
	return nil
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

// publish makes a volume one that can be found. A volume that another call published meanwhile is returned, too.
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

// own gives data its owner and mode. What begins with the content of another volume keeps those of it that its class does not say, and a
// snapshot all of them.
func own(data dir, w Wish) error {
	uid, gid, said := int(w.Parameters.UID), int(w.Parameters.GID), Said{UID: true, GID: true, Mode: true}
	if w.From != nil {
		said = w.Said
	}
	if !said.UID {
		uid = -1
	}
	if !said.GID {
		gid = -1
	}
	var err error
	if said.UID || said.GID {
		err = unix.Fchown(int(data), uid, gid)
	}
	if err == nil && said.Mode {
		err = unix.Fchmod(int(data), w.Parameters.Mode)
	}
	if err != nil {
		return &mover.Error{Op: "set owner and mode of", Location: data.name(), Err: err}
	}
	return nil
}
