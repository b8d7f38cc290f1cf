package volumestore

import (
	"context"
	"errors"
	"fmt"

	"datamove.dev/lustre"
	"datamove.dev/lustre/claim"
	"datamove.dev/mover"
)

// project makes data in at, if it is not there, as a project of its own, and says in the record which. A kill then
// leaves no data with a project that is not known.
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
		p.ID, err = b.claim(ctx, r)
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

// claim gives a volume a project ID of the range that no other one has; a volume that has one keeps it. The claim holds the mark and not the key.
// A volume in the trash, with bytes that are counted still, is not the one that was made anew under its name.
func (b *Base) claim(ctx context.Context, r *Record) (uint32, error) {
	if b.spec.IDs == (Range{}) {
		return 0, fmt.Errorf("%w: file system %s needs projectIDs: FIRST-LAST, which nobody else gives to directories", mover.ErrUsage, b.spec.Name)
	}
	book, done, err := b.book()
	if err != nil {
		return 0, err
	}
	defer done()
	var fresh func(uint32) (bool, error)
	if b.spec.Kind == lustre.IsExt4 || b.spec.Kind == lustre.IsXFS { // others on this machine may have books of their own
		unlock, err := claim.Lock(b.handle.FD())
		if err != nil {
			return 0, err
		}
		defer unlock()
		fresh = claim.Fresh(ctx, b.handle.System.Quota, b.handle.FD(), lustre.Limits{HardBytes: r.hardBytes()})
	}
	id, err := book.Take(r.Mark, fresh)
	return id, full(err)
}

// book has the claims of the base. It is to be let go of.
func (b *Base) book() (book claim.Book, done func(), err error) {
	at, err := b.in(projectsDir)
	if err != nil {
		return book, nil, err
	}
	return claim.Book{Dir: int(at), IDs: b.spec.IDs}, at.close, nil
}

// giveBack lets other volumes have the project ID of a volume after its data is gone. One without a project in its record
// may have claimed one all the same.
func (b *Base) giveBack(r *Record) error {
	book, done, err := b.book()
	if err != nil {
		return err
	}
	defer done()
	return book.GiveBack(r.Mark, r.Project)
}
