package auditlog

import (
	"fmt"

	"datamove.dev/mover"
)

// chain is a log up to some line: what the next one must continue.
type chain struct {
	id       string // in all headers; "" before the first one
	head     Head
	believes bool // the hash before is not known: the next line is believed
}

// number gives e the next place.
func (c *chain) number(e *Entry) {
	e.Sequence, e.Previous = c.head.Sequence+1, c.head.Hash
}

// add makes e, which has its hash, the head.
func (c *chain) add(e *Entry) {
	c.head, c.believes = Head{e.Sequence, e.Hash}, false
	if e.Kind == Header {
		c.id = e.Chain
	}
}

// follow adds e when it continues c, and otherwise says why it does not.
func (c *chain) follow(e *Entry) (why string) {
	next := c.head.Sequence + 1
	switch {
	case e.Kind == Header && c.id != "" && e.Chain != c.id:
		return fmt.Sprintf("the file belongs to another log (%s, and not %s)", mover.Printable(e.Chain), c.id)
	case e.Sequence > next:
		return fmt.Sprintf("record %d stands where %d belongs: records were removed, or their order changed", e.Sequence, next)
	case e.Sequence < next:
		return fmt.Sprintf("record %d stands where %d belongs: it was inserted, or the order changed", e.Sequence, next)
	case e.Previous != c.head.Hash && !c.believes:
		return fmt.Sprintf("record %d does not continue the one before: it was written anew, or what stands before it was", e.Sequence)
	}
	c.add(e)
	return ""
}

// Break is the first place where a log is not whole. It is a kind of
// mover.ErrCorrupt.
type Break struct {
	File string
	Line int64  // of the file, from 1 on
	Why  string // what is wrong there
}

func (b *Break) Error() string { return fmt.Sprintf("%s: line %d: %s", b.File, b.Line, b.Why) }

func (*Break) Unwrap() error { return mover.ErrCorrupt }
