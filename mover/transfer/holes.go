package transfer

import "datamove.dev/mover"

// maxSegments bounds what is remembered of the holes of one file (1 MiB). Holes
// behind them are kept as zeros.
const maxSegments = 1 << 16

// sparse says whether the content of e may have holes.
func sparse(e *mover.Entry) bool {
	return e.Stored < e.Size || e.Known.Has(mover.FactHoles)
}

// holes notes in e where its content has data, for the manifest of a target that
// has no holes of its own.
func (r *run) holes(c mover.Content, e *mover.Entry) error {
	if !r.to.NeedsManifest || r.to.Keeps.Has(mover.FactHoles) || !r.preserve.Has(mover.FactHoles) ||
		e.Known.Has(mover.FactHoles) || e.Stored >= e.Size || !r.from.Keeps.Has(mover.FactHoles) {
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
