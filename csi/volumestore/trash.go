package volumestore

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/csi/volume"
	"datamove.dev/mover"
)

// Removed is something in the trash.
type Removed struct {
	Name   string // of its directory there
	Stone  Tombstone
	Record Record // without an ID for what was never made
}

// contentOf is where its content is, below the Root of the file system.
func (b *Base) contentOf(r *Removed) string {
	return path.Join(b.spec.Volumes, trashDir, r.Name, dataDir)
}

// Archival is something removed that has to be copied before it goes.
type Archival struct {
	Removed
	Source string // below the Root of the file system
	Target string // TIER:path
}

// Trash lists what was removed and is not gone, the oldest first.
func (b *Base) Trash(ctx context.Context) ([]Removed, error) {
	trash, err := b.in(trashDir)
	if err != nil {
		return nil, err
	}
	defer trash.close()
	names, err := trash.names()
	if err != nil {
		return nil, err
	}
	var all []Removed
	for _, name := range names {
		if strings.HasSuffix(name, going) {
			continue
		}
		r := Removed{Name: name}
		at, err := trash.sub(name)
		if err == nil {
			err = errors.Join(at.read(stoneFile, &r.Stone), at.read(recordFile, &r.Record))
			at.close()
		}
		if err == nil && r.Record.Inode != 0 {
			all = append(all, r)
		} // what can not be read is being removed, or was never made
	}
	slices.SortFunc(all, func(a, b Removed) int { return a.Stone.Removed.Compare(b.Stone.Removed) })
	return all, ctx.Err()
}

// Unarchived lists what has to be copied elsewhere before it may go.
func (b *Base) Unarchived(ctx context.Context) ([]Archival, error) {
	removed, err := b.Trash(ctx)
	if err != nil {
		return nil, err
	}
	var all []Archival
	for _, r := range removed {
		if to := r.Stone.ArchiveTo; to != "" && r.Stone.Archived == nil {
			all = append(all, Archival{r, b.contentOf(&r), to + "/" + archiveName(&r)})
		}
	}
	return all, nil
}

// archiveName tells the copies of volumes apart: by the claim for people, and by what no other volume has.
func archiveName(r *Removed) string {
	claim := r.Record.Parameters.For
	return path.Join(claim.Namespace, claim.Name, r.Name)
}

// Archived says that something removed was copied: from now on it may go.
func (b *Base) Archived(_ context.Context, name string, now time.Time) error {
	trash, err := b.in(trashDir)
	if err != nil {
		return err
	}
	defer trash.close()
	at, err := trash.sub(name)
	if err != nil {
		return err
	}
	defer at.close()
	var t Tombstone
	if err := at.read(stoneFile, &t); err != nil {
		return err
	}
	now = now.UTC()
	t.Archived = &now
	return at.write(stoneFile, t, true)
}

// Restore brings back what was removed: it is a volume again, of the same ID. Where there is one of that ID
// meanwhile it is mover.ErrConflict.
func (b *Base) Restore(ctx context.Context, id volume.ID) (Record, error) {
	removed, err := b.Trash(ctx)
	if err != nil {
		return Record{}, err
	}
	removed = slices.DeleteFunc(removed, func(r Removed) bool { return r.Stone.ID != id.String() })
	if len(removed) == 0 {
		return Record{}, fmt.Errorf("%w: the trash of file system %s has no %s", mover.ErrNotExist, b.spec.Name, id)
	}
	last := removed[len(removed)-1]
	trash, err := b.in(trashDir)
	if err != nil {
		return Record{}, err
	}
	defer trash.close()
	home, err := b.in(homeOf(id.Kind))
	if err != nil {
		return Record{}, err
	}
	defer home.close()
	if err := trash.move(last.Name, home, id.Key); err != nil {
		return Record{}, err
	}
	f, err := b.Find(ctx, id)
	if err != nil {
		return Record{}, err
	}
	defer f.Close()
	if err := unix.Unlinkat(int(f.at), stoneFile, 0); err != nil && err != unix.ENOENT {
		return Record{}, failed("remove", f.at, stoneFile, err)
	}
	return f.Record, nil
}
