package plan

import (
	"strings"

	"datamove.dev/mover"
)

// links remembers the groups of names that share one content in the source, from
// their first name to their last one. A group of which some names are outside of
// the walk is remembered until the end.
type links struct {
	limit int
	open  map[inode]group
}

type inode struct{ dev, ino uint64 }

// group is what the other names of an inode need to know of the first one.
type group struct {
	leader string
	target inode // the target's inode that the leader has already, if stays
	stays  bool  // as far as is known, the leader's inode in the target stays
	left   uint32
}

const maxLinks = 1 << 20

// apply makes a Link of an action on a further name of a group, where the target keeps links, and else marks it as one that is lost.
func (l *links) apply(a *Action, keeps bool) {
	s := &a.Source
	if s.Nlink < 2 || s.Kind == mover.Dir || !s.Known.Has(mover.FactLinks) || a.Op == Conflict {
		return
	}
	key := inode{s.Dev, s.Ino}
	g, ok := l.open[key]
	if !ok {
		l.lead(key, a)
		return
	}
	if g.left--; g.left == 0 {
		delete(l.open, key)
	} else {
		l.open[key] = g
	}
	if !keeps {
		a.Lost = true
		return
	}
	if g.stays && a.Target.Nlink > 1 && g.target == (inode{a.Target.Dev, a.Target.Ino}) {
		switch a.Op {
		case Keep:
			return
		case Compare:
			a.Link = g.leader // Resolve links it when the leader gets a new content
			return
		}
	}
	a.Op, a.Link, a.Why = Link, g.leader, WhyHardLink
}

// lead begins a group with a, or says that there are too many.
func (l *links) lead(key inode, a *Action) {
	limit := l.limit
	if limit <= 0 {
		limit = maxLinks
	}
	if len(l.open) >= limit {
		if a.Op == Create || a.Op == Replace {
			a.Why = WhyManyLinks
		}
		return
	}
	if l.open == nil {
		l.open = make(map[inode]group)
	}
	l.open[key] = group{
		leader: strings.Clone(a.Source.Name), // the walk's memory is not for us to hold
		target: inode{a.Target.Dev, a.Target.Ino},
		stays:  a.Op == Keep || a.Op == Update || a.Op == Compare,
		left:   a.Source.Nlink - 1,
	}
}
