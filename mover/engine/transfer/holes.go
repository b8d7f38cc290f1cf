package transfer

import (
	"context"

	"datamove.dev/mover"
)

// maxSegments bounds what is remembered of the holes of one file (1 MiB). Holes
// behind them are kept as zeros.
const maxSegments = 1 << 16

// sparse says whether the content of e may have holes.
func sparse(e *mover.Entry) bool {
	return e.Stored < e.Size || e.Known.Has(mover.FactHoles)
}

// describes says whether the manifest of the target has to tell where the content
// of e has data, and does not know it yet.
func (r *run) describes(e *mover.Entry) bool {
	return r.to.NeedsManifest && !r.to.Keeps.Has(mover.FactHoles) && r.preserve.Has(mover.FactHoles) &&
		e.Kind == mover.File && !e.Known.Has(mover.FactHoles) && e.Stored < e.Size && r.from.Keeps.Has(mover.FactHoles)
}

// findHoles is holes for a content that is not open.
func (r *run) findHoles(ctx context.Context, source mover.Entry, e *mover.Entry) error {
	if !r.describes(e) {
		return nil
	}
	c, err := r.source.Open(ctx, source)
	if err != nil {
		return err
	}
	defer c.Close()
	return r.holes(c, e)
}

// holes notes in e where its content has data, for the manifest of a target that
// has no holes of its own.
func (r *run) holes(c mover.Content, e *mover.Entry) error {
	if !r.describes(e) {
		return nil
	}
	e.Data = nil
	for off := int64(0); off < e.Size; {
		s, err := c.Segment(off)
		if err != nil {
			return err
		}
		if s.Start >= e.Size {
			break
		}
		if len(e.Data) == maxSegments {
			s.End = e.Size
		}
		e.Data = append(e.Data, s)
		off = s.End
	}
	e.Known |= mover.FactHoles
	return nil
}
