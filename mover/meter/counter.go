package meter

import (
	"errors"
	"sync/atomic"

	"datamove.dev/mover"
)

// Op is something that is asked of a place.
type Op uint8

// The operations.
const (
	List    Op = iota // entries that a walk yielded
	Stat              // names that were looked up, and contents that were checked
	Open              // entries that were opened, and drafts that were taken up again
	Get               // ranges that were read
	Create            // drafts of files and special files
	Mkdir             // directories, and drafts of them
	Link              // drafts of symbolic and hard links
	Part              // parts that were written
	Copy              // contents that the place took over by itself
	Publish           // drafts that were published
	Setattr           // entries whose facts were set
	Remove            // entries that were removed, and drafts that were dropped
	Sync              // waits for stable storage
	ops
)

var names = [ops]string{"list", "stat", "open", "get", "create", "mkdir", "link", "part", "copy", "publish", "setattr", "remove", "sync"}

func (o Op) String() string { return names[min(o, ops-1)] }

// Counter is what was asked of the places of one tier.
type Counter struct {
	Read    atomic.Int64 // bytes
	Written atomic.Int64 // bytes
	Passing atomic.Int64 // calls that failed for a reason that passes
	ops     [ops]atomic.Int64
}

// Operations gives how often each operation was asked for that was asked for at all.
func (c *Counter) Operations() map[string]int64 {
	all := map[string]int64{}
	for o := range ops {
		if n := c.ops[o].Load(); n > 0 {
			all[o.String()] = n
		}
	}
	return all
}

// did counts an operation, and its error if that passes. It returns the error.
func (c *Counter) did(o Op, err error) error {
	c.ops[o].Add(1)
	return c.failed(err)
}

func (c *Counter) failed(err error) error {
	if errors.Is(err, mover.ErrTransient) || errors.Is(err, mover.ErrUnreachable) || errors.Is(err, mover.ErrTimeout) {
		c.Passing.Add(1)
	}
	return err
}

// drafting is the operation that a draft is.
func drafting(e *mover.Entry, h *mover.Hints) Op {
	switch {
	case h.Link != "" || e.Kind == mover.Symlink:
		return Link
	case e.Kind == mover.Dir:
		return Mkdir
	}
	return Create
}
