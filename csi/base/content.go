package base

import (
	"context"
	"path"

	"datamove.dev/csi/volume"
	"datamove.dev/lustre"
)

// fill reports what has to be copied before a volume is whole.
func (b *Base) fill(ctx context.Context, at dir, w Wish, r *Record) error {
	if _, cloned := b.handle.System.Quota.(lustre.ProjectCloner); cloned || w.From == nil || r.Filled {
		return nil
	}
	from, err := b.Find(ctx, *w.From)
	if err != nil {
		return err
	}
	defer from.Close()
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
