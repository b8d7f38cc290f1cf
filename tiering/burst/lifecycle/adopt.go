package lifecycle

import (
	"context"
	"errors"
	"fmt"

	"datamove.dev/mover"
	"datamove.dev/tiering/burst"
	"datamove.dev/tiering/burst/aws"
)

// Adopt begins the record of a burst that is in AWS, and of which none is here: it is known by the mark below its prefix, and by the tags of its file system. r is the record of its name that is here, nil where
// there is none. Nothing is made, and nothing goes. Money is reserved for what is there; where there is none, the burst is adopted all the same, and the error says so.
func (l *Manager) Adopt(ctx context.Context, b *burst.Burst, r *burst.Record, id string) (*burst.Record, error) {
	known := r != nil && !r.State.Ended()
	switch {
	case known && r.ID == id && (r.Reserved > 0 || !r.Adopted):
		return r, nil
	case known && r.ID != id:
		return r, fmt.Errorf("%w: burst %s is here already, and is %s: datamove burst down %s ends that first", mover.ErrConflict, b.Metadata.Name, r.ID, b.Metadata.Name)
	}
	w := &work{l, r, b}
	fs, err := w.left(ctx, id)
	if err != nil {
		return r, err
	}
	if known { // and has no money, or was not told of it
		return r, w.ended(w.adopted(ctx, fs))
	}
	since := w.now()
	if fs != nil {
		since = fs.Since.UTC()
	}
	w.record = burst.Adopt(b, id, l.Owner, burst.Admitted{By: "adopted"}, since, w.now())
	if fs != nil {
		w.record.FileSystem = &burst.Made{ID: fs.ID, Since: since, DNS: fs.DNS, Mount: fs.Mount, GiB: fs.GiB}
	}
	if err := w.keep(); err != nil {
		return nil, err
	}
	return w.record, w.ended(w.adopted(ctx, fs))
}

// left is the file system that AWS has of a burst; nil is none. It is mover.ErrNotExist where its bucket has nothing either, and mover.ErrConflict where what is there is that of another burst.
func (w *work) left(ctx context.Context, id string) (*aws.FileSystem, error) {
	all, err := w.Cloud.FileSystems(ctx)
	if err != nil {
		return nil, err
	}
	owner, err := w.markAt(ctx, w.burst.Prefix())
	switch {
	case err != nil:
		return nil, err
	case owner != "" && owner != id:
		return nil, fmt.Errorf("%w: %s is the prefix of burst %s, and not of %s", mover.ErrConflict, w.burst.Location(""), owner, id)
	}
	for _, fs := range all {
		switch {
		case fs.Tags[burst.TagBurst] != id || fs.State == "DELETING":
		case fs.Tags[burst.TagName] != string(w.burst.Metadata.Name) || fs.Tags[burst.TagTeam] != string(w.burst.Spec.Team):
			return nil, fmt.Errorf("%w: file system %s is of burst %s of team %s, by its tags, and not of %s of team %s", mover.ErrConflict, fs.ID,
				mover.Printable(fs.Tags[burst.TagName]), mover.Printable(fs.Tags[burst.TagTeam]), w.burst.Metadata.Name, w.burst.Spec.Team)
		case w.burst.Spec.Cloud.FileSystem == nil:
			return nil, fmt.Errorf("%w: burst %s has file system %s, and its declaration has none (spec.cloud.fileSystem)", mover.ErrConflict, w.burst.Metadata.Name, fs.ID)
		default:
			return &fs, nil
		}
	}
	if owner == "" {
		return nil, fmt.Errorf("%w: AWS has nothing of burst %s: no file system in %s has the tag %s=%s, and below %s is no mark of it", mover.ErrNotExist, w.burst.Metadata.Name, w.burst.Spec.Cloud.Region,
			burst.TagBurst, id, w.burst.Location(""))
	}
	return nil, nil
}

// adopted reserves money for what is there, and notes what costs by the hour, and how far the burst is.
func (w *work) adopted(ctx context.Context, fs *aws.FileSystem) error {
	if fs != nil {
		if err := errors.Join(w.running(ctx, fs.ID, w.burst.FileSystemRate(), fs.GiB<<30, w.record.FileSystem.Since), w.keep()); err != nil {
			return err
		}
		w.tell("file system %s of burst %s is adopted: it is %s", fs.ID, w.burst.Metadata.Name, fs.State)
	}
	w.tell("nothing of burst %s is taken to be home: datamove burst sync-back %s brings it, and datamove burst down %s ends it", w.burst.Metadata.Name, w.burst.Metadata.Name, w.burst.Metadata.Name)
	estimate, err := w.burst.Estimate(nil, w.Book, nil, w.now())
	if err != nil {
		return err
	}
	if err := w.reserve(ctx, estimate.Bill.Total, "estimate of "+string(w.burst.Metadata.Name)); err != nil {
		return err
	}
	if declared := w.burst.Spec.Cloud.FileSystem != nil; declared != (fs != nil) || declared && fs.State != "AVAILABLE" && fs.State != "UPDATING" {
		return nil
	}
	return errors.Join(w.enter(burst.Staging), w.enter(burst.Ready))
}
