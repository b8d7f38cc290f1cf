package transfer

import (
	"context"
	"errors"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/spool"
)

// later has an entry moved once more when everything else has been moved, unless
// it was tried often enough. err is why.
func (r *run) later(ctx context.Context, it *item, err error) error {
	if it.Tries++; it.Tries >= triesMost {
		r.failed(it, err)
		return nil
	}
	r.log.InfoContext(ctx, "will be moved once more", "name", it.Source.Name, "err", err)
	now, gone := r.source.Stat(ctx, it.Source.Name)
	switch {
	case gone != nil && r.fatal(ctx, gone):
		return gone
	case gone != nil:
		r.failed(it, gone)
		return nil
	case now.Kind != it.Source.Kind:
		r.failed(it, err)
		return nil
	}
	if now.Identity() != it.Source.Identity() { // else what else is known of it stays known
		r.unlikely(&it.Source)
		it.Source = now
	}
	return r.redo.Add(*it)
}

// moveLater moves what waits for another try, until nothing does.
func (r *run) moveLater(ctx context.Context) error {
	for r.redo.Len() > 0 || r.recalls.some() {
		if err := r.moveAgain(ctx); err != nil {
			return err
		}
		if err := r.moveRecalled(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) moveAgain(ctx context.Context) error {
	for r.redo.Len() > 0 {
		round := r.redo
		r.redo = spool.New[item](r.o.SpoolDir)
		err := r.moveSpooled(ctx, round)
		_ = round.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// moveSpooled moves every entry of a spool by itself.
func (r *run) moveSpooled(ctx context.Context, s *spool.Of[item]) error {
	if s.Len() == 0 {
		return nil
	}
	return r.work(ctx, func(context.Context) error {
		return s.Each(false, func(items []item) error {
			for _, it := range items {
				if err := r.put(unitOf(it, r.inParts(&it))); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// passing says whether what failed may go well at another time.
func passing(it *item, err error) bool {
	return it.Source.Kind == mover.File && it.Op != plan.Link && !errors.Is(err, errDirectory) &&
		(errors.Is(err, mover.ErrCorrupt) || errors.Is(err, mover.ErrTransient))
}
