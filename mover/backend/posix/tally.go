package posix

import (
	"sync/atomic"

	"datamove.dev/mover"
)

// asked is what was done with a content and that the tally does not know yet. Contents
// tell it at their end, or when there is this much to tell.
type asked struct{ ranges, checks, bytes atomic.Int64 }

const (
	tellBytes = 1 << 20
	tellCalls = 16
)

var _ mover.Teller = (*Backend)(nil)

// Tell implements mover.Teller.
func (p *Backend) Tell(t mover.Tally) { p.tally = t }

// told tells the tally of an error, and returns it.
func (p *Backend) told(err error) error {
	if err != nil && p.tally != nil {
		p.tally.Failed(err)
	}
	return err
}

// count notes ranges, checks and bytes.
func (c *content) count(ranges, checks, bytes int64) {
	if c.place.tally == nil {
		return
	}
	much := ranges > 0 && c.asked.ranges.Add(ranges) >= tellCalls
	much = checks > 0 && c.asked.checks.Add(checks) >= tellCalls || much
	much = bytes > 0 && c.asked.bytes.Add(bytes) >= tellBytes || much
	if much {
		c.tell(0)
	}
}

// tell tells the tally what was noted.
func (c *content) tell(opens int64) {
	if t := c.place.tally; t != nil {
		t.Content(opens, taken(&c.asked.ranges), taken(&c.asked.checks), taken(&c.asked.bytes))
	}
}

// taken takes away what n is.
func taken(n *atomic.Int64) int64 {
	if n.Load() == 0 {
		return 0
	}
	return n.Swap(0)
}

// wrote tells the tally of parts and bytes of a draft.
func (p *Backend) wrote(parts, bytes int64) {
	if p.tally != nil {
		p.tally.Draft(parts, bytes)
	}
}
