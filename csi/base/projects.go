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

// project makes data in at, if it is not there, as a project of its own, and says in the record which: who is killed then
// leaves nothing that nobody knows the project of.
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
	if err := b.account(ctx, at, data, r); err != nil {
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

// account puts data under a project, and that into the record: an ID of the claims where there are IDs, else what it is by
// itself. A directory of CephFS is a project wherever it is renamed to: none, as where there are no quotas.
func (b *Base) account(ctx context.Context, at, data dir, r *Record) error {
	quotas := b.handle.System.Quota
	if quotas == nil || b.spec.Kind == lustre.IsCephFS {
		return nil
	}
	var p lustre.Project
	var err error
	_, maker := quotas.(lustre.ProjectMaker)
	if maker {
		p, err = quotas.Project(ctx, int(data))
	} else {
		p.Inherit = true
		p.ID, err = b.claim(r.Mark)
	}
	if err != nil {
		return err
	}
	if r.Project == nil || *r.Project != p {
		r.Project = &p
		if err := at.write(recordFile, r, true); err != nil {
			return err
		}
	}
	if maker {
		return nil
	}
	return quotas.SetProject(ctx, int(data), p)
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
	name := claimName(id)
	err := unix.Symlinkat(mark, int(d), name)
	if err == nil {
		return true, d.sync()
	}
	if err != unix.EEXIST {
		return false, &mover.Error{Op: "claim", Place: d.name(), Name: name, Err: full(err)}
	}
	has, err := d.claimant(name)
	if err != nil {
		return false, &mover.Error{Op: "read", Place: d.name(), Name: name, Err: err}
	}
	return has == mark, nil
}

// giveBack lets others have the project ID of a volume whose data is gone. One whose record does not say which
// it was may have claimed one all the same.
func (b *Base) giveBack(r *Record) error {
	claims, err := b.in(projectsDir)
	if err != nil {
		return err
	}
	defer claims.close()
	var names []string
	if r.Project != nil {
		names = []string{claimName(r.Project.ID)}
	} else if names, err = claims.names(); err != nil {
		return err
	}
	for _, name := range names {
		mark, err := claims.claimant(name)
		if err == nil && mark == r.Mark && mark != "" {
			err = unix.Unlinkat(int(claims), name, 0)
		}
		if err != nil && err != unix.ENOENT {
			return &mover.Error{Op: "give back", Place: claims.name(), Name: name, Err: err}
		}
	}
	return claims.sync()
}

func claimName(id uint32) string { return strconv.FormatUint(uint64(id), 10) }

// claimant is the mark of who has a claim.
func (d dir) claimant(name string) (string, error) {
	got := make([]byte, 64)
	n, err := unix.Readlinkat(int(d), name, got)
	if err != nil {
		return "", err
	}
	return string(got[:n]), nil
}
