package base

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/mover"
)

// project makes data in at, if it is not there, as a project of its own, and says in r which.
func (b *Base) project(ctx context.Context, at dir, w Wish, r *Record) (dir, error) {
	data, err := at.data()
	if errors.Is(err, mover.ErrNotExist) {
		if err = b.makeData(ctx, at, w); err == nil {
			data, err = at.data()
		}
	}
	if err != nil {
		return -1, err
	}
	if r.Project, err = b.projectOf(ctx, data, r.Mark); err != nil {
		data.close()
		return -1, err
	}
	return data, nil
}

// makeData makes the directory that pods see: empty, or with what the wish begins with, where the file
// system can do that at once.
func (b *Base) makeData(ctx context.Context, at dir, w Wish) error {
	if cloner, ok := b.handle.System.Quota.(lustre.ProjectCloner); ok && w.From != nil {
		from, err := b.Find(ctx, *w.From)
		if err != nil {
			return err
		}
		defer from.Close()
		_, err = cloner.CloneProject(ctx, from.Data(), int(at), dataDir)
		return full(err)
	}
	if maker, ok := b.handle.System.Quota.(lustre.ProjectMaker); ok {
		_, err := maker.MakeProject(ctx, int(at), dataDir, 0o700)
		return full(err)
	}
	data, err := at.make(dataDir, 0o700)
	if err == nil {
		data.close()
	}
	return err
}

// projectOf says which project data is, and gives it an ID where there are IDs. A directory of CephFS is a project by
// itself, wherever it is renamed to: nil, as where there are no quotas.
func (b *Base) projectOf(ctx context.Context, data dir, mark string) (*lustre.Project, error) {
	quotas := b.handle.System.Quota
	if quotas == nil || b.spec.Kind == lustre.IsCephFS {
		return nil, nil
	}
	if _, ok := quotas.(lustre.ProjectMaker); !ok {
		id, err := b.claim(mark)
		if err != nil {
			return nil, err
		}
		if err := quotas.SetProject(ctx, int(data), lustre.Project{ID: id, Inherit: true}); err != nil {
			return nil, err
		}
	}
	p, err := quotas.Project(ctx, int(data))
	return &p, err
}

// claim gives a volume a project ID of the range that no other one has. A claim is a file, made
// by who comes first; a volume that has one keeps it. It holds the mark and not the key: one
// in the trash, whose bytes are counted still, is not the one that was made anew under its name.
func (b *Base) claim(mark string) (uint32, error) {
	claims, err := b.in(projectsDir)
	if err != nil {
		return 0, err
	}
	defer claims.close()
	n := uint64(b.spec.IDs.Last) - uint64(b.spec.IDs.First) + 1
	if b.spec.IDs.First == 0 || b.spec.IDs.Last < b.spec.IDs.First || b.spec.IDs.Last == math.MaxUint32 {
		return 0, fmt.Errorf("%w: file system %s needs projectIDs: FIRST-LAST, which nobody else gives to directories", mover.ErrUsage, b.spec.Name)
	}
	sum, err := hex.DecodeString(mark)
	if err != nil || len(sum) < 8 {
		return 0, fmt.Errorf("%w: mark %s", mover.ErrUsage, mover.Printable(mark))
	}
	start := binary.BigEndian.Uint64(sum) % n
	for i := range n {
		id := b.spec.IDs.First + uint32((start+i)%n)
		mine, err := claims.claimed(id, mark)
		if err != nil {
			return 0, err
		}
		if mine {
			return id, nil
		}
	}
	return 0, fmt.Errorf("%w: all project IDs from %d to %d are given", mover.ErrFull, b.spec.IDs.First, b.spec.IDs.Last)
}

// claimed claims an ID for a volume, and reports whether it has it now. The claim is a link whose target is
// the mark: made and readable in one call.
func (d dir) claimed(id uint32, mark string) (bool, error) {
	name := strconv.FormatUint(uint64(id), 10)
	err := unix.Symlinkat(mark, int(d), name)
	if err == nil {
		return true, d.sync()
	}
	if err != unix.EEXIST {
		return false, &mover.Error{Op: "claim", Place: d.name(), Name: name, Err: full(err)}
	}
	got := make([]byte, 64)
	n, err := unix.Readlinkat(int(d), name, got)
	if err != nil {
		return false, &mover.Error{Op: "read", Place: d.name(), Name: name, Err: err}
	}
	return string(got[:n]) == mark, nil
}

// giveBack lets others have the project ID of a volume whose data is gone.
func (b *Base) giveBack(r *Record) error {
	if _, ok := b.handle.System.Quota.(lustre.ProjectMaker); ok || r.Project == nil || r.Project.ID == 0 {
		return nil
	}
	claims, err := b.in(projectsDir)
	if err != nil {
		return err
	}
	defer claims.close()
	name := strconv.FormatUint(uint64(r.Project.ID), 10)
	got := make([]byte, 64)
	n, err := unix.Readlinkat(int(claims), name, got)
	if err == unix.ENOENT || err == nil && string(got[:n]) != r.Mark {
		return nil
	}
	if err == nil {
		err = unix.Unlinkat(int(claims), name, 0)
	}
	if err != nil && err != unix.ENOENT {
		return &mover.Error{Op: "give back", Place: claims.name(), Name: name, Err: err}
	}
	return claims.sync()
}
