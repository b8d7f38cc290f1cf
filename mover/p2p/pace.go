package p2p

import "time"

// Many pieces that are read side by side over one link all come late, and until then no member has anything to give. One home that
// reads many takes the source from the others, and all wait for those.
const (
	readsOfAll = 32 // at a time, by all homes together, where a read takes as long as one alone
	readsLeast = 2  // by each home in that case
	readsMost  = 64
	readQuick  = 100 * time.Millisecond // a read that takes less leaves the source with nothing to do
	readLong   = 200 * time.Millisecond // one that takes less is not waited for
)

// pace is how many pieces one home reads at a time. It begins with one, and has more as long as a read takes no longer for that: up to its part of
// what all homes read together, and beyond it from a source that is quick. Its queue guards it.
type pace struct {
	more  int           // than one
	usual time.Duration // that the quickest reads take
	alike int           // reads that took about that, since there was one more
}

func (p *pace) at() int { return 1 + p.more }

// took notes how long a read took, where so many are this home's part. waited says that others wait for their turn.
func (p *pace) took(d time.Duration, part int, waited bool) {
	if p.usual == 0 || d < p.usual {
		p.usual = d
	} else {
		p.usual += (d - p.usual) / 64 // what was once so quick may never be again
	}
	crowded := d > p.usual*5/4
	if p.alike++; crowded {
		p.alike = 0
	}
	switch {
	case d > readLong && (crowded || p.at() > part):
		p.more, p.alike = max(p.more-1, 0), 0
	case waited && (d < readQuick || p.alike >= p.at() && p.at() < part):
		p.more, p.alike = min(p.more+1, readsMost-1), 0
	}
}
