package catalog

import (
	"fmt"
	"strings"

	"datamove.dev/mover"
)

// resume enters the directories that a name is in, and passes by what is known up to it. One that ends in a slash is a directory, and entered, too.
func (s *scan) resume(after string) error {
	switch {
	case after != s.state.Rolled:
		return fmt.Errorf("%w: the part before it has ended elsewhere", mover.ErrConflict)
	case s.state.Scanned.IsZero():
		return fmt.Errorf("%w: it was never scanned as a whole", mover.ErrConflict)
	}
	for name, dir := strings.CutSuffix(after, "/"); name != ""; {
		f := s.stack[len(s.stack)-1]
		base, rest, above := strings.Cut(name, "/")
		kind := mover.File
		if above || dir {
			kind = mover.Dir
		}
		if err := f.skip(sorting(base, kind)); err != nil || kind != mover.Dir {
			return err
		}
		n, err := s.from.child(f.n, base)
		if err != nil || n == 0 { // it is gone since
			return err
		}
		r, err := s.from.record(n)
		if err != nil {
			return err
		}
		if err := s.enter(mover.Join(f.name, base), n, false); err != nil {
			return err
		}
		if r.unread {
			r.unread = false
			s.stack[len(s.stack)-1].record = r
		}
		name = rest
	}
	return nil
}

// enough says, when one more entry comes, whether a part has all that it is to have. It ends where no directory is new, of which all has to be known.
func (s *scan) enough(e *mover.Entry) (bool, error) {
	if s.o.Part == 0 {
		return false, nil
	}
	if s.taken >= s.o.Part {
		f, err := s.within(e.Name)
		if err != nil || !f.fresh {
			return err == nil, err
		}
	}
	s.taken++
	if s.last = e.Name; e.Kind == mover.Dir {
		s.last += "/"
	}
	return false, nil
}

// rolled notes where a part has ended, and whether there is more. A part behind everything that finds nothing takes nothing away: an unmounted tree is not an empty one.
func (s *scan) rolled(more bool) {
	first, none := s.state.Rolled == "", s.taken == 0
	if first {
		s.state.Rolling = s.o.Now
	}
	if more || none && !first {
		for _, f := range s.stack { // what did not come by now stays
			f.unread = true
		}
	}
	if s.state.Rolled = s.last; !more {
		s.state.Rolled, s.state.Verified = "", s.state.Rolling
	}
	s.state.Parted = s.o.Now
}

// skip leaves what is known up to a name as it is, and that name, too.
func (m *merge) skip(name string) error {
	m.part = true
	was, err := m.pass(name)
	if was.Kind != 0 {
		m.new = append(m.new, was)
	}
	m.part = false
	return err
}
