package lifecycle

import (
	"context"
	"errors"
	"fmt"

	"datamove.dev/mover"
	"datamove.dev/mover/units"
	"datamove.dev/tiering/burst"
	"datamove.dev/tiering/burst/aws"
)

// joined makes the file system, has it be the bucket, and reads the names of the data into it.
func (w *work) joined(ctx context.Context) error {
	if w.record.State == burst.Staging {
		if err := w.enter(burst.Creating); err != nil {
			return err
		}
	}
	if w.record.State == burst.Creating {
		if err := w.create(ctx); err != nil {
			return err
		}
		if err := w.associate(ctx); err != nil {
			return err
		}
		if err := w.enter(burst.Importing); err != nil {
			return err
		}
	}
	return w.imports(ctx)
}

// create makes the file system, or finds the one that was asked for before an answer was lost.
func (w *work) create(ctx context.Context) error {
	if w.record.FileSystem == nil {
		gibs, err := w.burst.Capacity(w.record.Held())
		if err != nil {
			return err
		}
		w.record.FileSystem = &burst.Made{Token: w.record.Token("fs", 1), GiB: gibs}
		if err := w.keep(); err != nil {
			return err
		}
	}
	f := w.record.FileSystem
	if f.ID == "" {
		made, err := w.made(ctx)
		if err != nil {
			return err
		}
		f.ID, f.Since, f.DNS, f.Mount = made.ID, made.Since.UTC(), made.DNS, made.Mount
		if err := errors.Join(w.running(ctx, f.ID, w.burst.FileSystemRate(), f.GiB<<30, f.Since), w.keep()); err != nil {
			return err
		}
		w.tell("file system %s is being made: %s", f.ID, units.Bytes(f.GiB<<30))
	}
	return w.available(ctx)
}

// made is the file system of the record: one that has its tag, or a new one.
func (w *work) made(ctx context.Context) (aws.FileSystem, error) {
	all, err := w.Cloud.FileSystems(ctx)
	if err != nil {
		return aws.FileSystem{}, err
	}
	for _, fs := range all {
		if fs.Tags[burst.TagBurst] == w.record.ID && fs.State != "DELETING" {
			return fs, nil
		}
	}
	c := w.burst.Spec.Cloud
	return w.Cloud.Create(ctx, aws.Want{FileSystem: *c.FileSystem, Token: w.record.FileSystem.Token, GiB: w.record.FileSystem.GiB, KMSKey: c.KMSKey, Tags: w.record.Tags})
}

// available waits until the file system can be mounted.
func (w *work) available(ctx context.Context) error {
	f := w.record.FileSystem
	err := w.Cloud.Await(ctx, func(ctx context.Context) (bool, error) {
		fs, err := w.Cloud.FileSystem(ctx, f.ID)
		switch {
		case err != nil:
			return false, err
		case fs.State == "CREATING":
			return false, nil
		case fs.State != "AVAILABLE" && fs.State != "UPDATING":
			return false, fmt.Errorf("%w: file system %s is %s: %s; datamove burst down takes it away", mover.ErrConflict, f.ID, fs.State, fs.Why)
		}
		f.DNS, f.Mount = fs.DNS, fs.Mount
		return true, nil
	})
	return errors.Join(err, w.keep())
}

// associate has the root of the file system be the prefix of the burst.
func (w *work) associate(ctx context.Context) error {
	if w.record.Link == nil {
		w.record.Link = &burst.Made{Token: w.record.Token("link", 1), Since: w.now()}
		if err := w.keep(); err != nil {
			return err
		}
	}
	if w.record.Link.ID == "" {
		a, err := w.associated(ctx)
		if err != nil {
			return err
		}
		w.record.Link.ID = a.ID
		if err := w.keep(); err != nil {
			return err
		}
	}
	return w.Cloud.Await(ctx, func(ctx context.Context) (bool, error) {
		all, err := w.Cloud.Associations(ctx, w.record.FileSystem.ID)
		if err != nil {
			return false, err
		}
		for _, a := range all {
			switch {
			case a.ID != w.record.Link.ID:
			case a.State == "AVAILABLE":
				return true, nil
			case a.State == "CREATING" || a.State == "UPDATING":
				return false, nil
			default:
				return false, fmt.Errorf("%w: the association %s of file system %s with %s is %s: %s", mover.ErrConflict, a.ID, w.record.FileSystem.ID, w.repository(), a.State, a.Why)
			}
		}
		return false, fmt.Errorf("%w: AWS does not know the association %s any more", mover.ErrConflict, w.record.Link.ID)
	})
}

func (w *work) associated(ctx context.Context) (aws.Association, error) {
	all, err := w.Cloud.Associations(ctx, w.record.FileSystem.ID)
	if err != nil {
		return aws.Association{}, err
	}
	for _, a := range all {
		if a.Repository == w.repository() || a.Repository+"/" == w.repository() {
			return a, nil
		}
	}
	return w.Cloud.Associate(ctx, w.record.FileSystem.ID, w.record.Link.Token, w.repository(), w.record.Tags)
}

// imports has the file system read the names of all that is in the bucket.
func (w *work) imports(ctx context.Context) error {
	if w.record.Imported() {
		return nil
	}
	_, err := w.task(ctx, burst.ImportWork, []string{w.repository()})
	if err == nil {
		w.tell("file system %s has the names of the bucket: mount -t lustre %s@tcp:/%s", w.record.FileSystem.ID, w.record.FileSystem.DNS, w.record.FileSystem.Mount)
	}
	return err
}
