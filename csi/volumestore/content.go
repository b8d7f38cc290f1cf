package volumestore

import (
	"context"
	"path"

	"datamove.dev/csi/volume"
	"datamove.dev/lustre"
)

// clones reports whether the file system itself can begin one volume with the content of another one.
func (b *Base) clones() bool {
	_, ok := b.handle.System.Quota.(lustre.ProjectCloner)
	return ok
}

// fill reports what has to be copied before a volume is whole.
func (b *Base) fill(ctx context.Context, at dir, w Wish, r *Record) error {
	if b.clones() || w.From == nil {
		return nil
	}
	if r.Filled {
		r.Filling = false
		return nil
	}
	if !r.Filling { // so that Reap, which collects what was left behind, does not remove it
		r.Filling = true
		if err := at.write(recordFile, r, true); err != nil {
			return err
		}
	}
	return &Unfilled{
		Mark:   r.Mark,
		Source: b.Path(*w.From),
		Target: path.Join(b.spec.Volumes, makingDir, w.ID.Key, dataDir),
	}
}

// freeze makes a snapshot read-only where the file system can do that. Everywhere, it is never mounted to
// be written.
func (b *Base) freeze(ctx context.Context, data dir, id volume.ID) error {
	if cloner, ok := b.handle.System.Quota.(lustre.ProjectCloner); ok && id.Kind == volume.Snapshot {
		return cloner.Freeze(ctx, int(data), true)
	}
	return nil
}
