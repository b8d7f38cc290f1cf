package metered

import (
	"errors"
	"sync"
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
	Setattr           // entries that got new facts
	Remove            // entries that were removed, and drafts that were dropped
	Sync              // waits for stable storage
	ops
)

var names = [ops]string{"list", "stat", "open", "get", "create", "mkdir", "link", "part", "copy", "publish", "setattr", "remove", "sync"}

func (o Op) String() string { return names[min(o, ops-1)] }

// Counter is what was asked of the places of one tier. The zero value has counted
// nothing.
//
// Two cores that add to the same memory for every small file wait for each other longer
// than the counting takes, so each core has a shard of its own, nearly always.
type Counter struct {
	shards [shards]shard
	own    sync.Pool    // of the shards: it remembers what a core had
	next   atomic.Int64 // the shard for a core that had none
}

const shards = 16

type shard struct {
	read, written, passing atomic.Int64
	ops                    [ops]atomic.Int64
	_                      [128]byte // what is behind it is another core's
}

// Read is how many bytes came out of ranges.
func (c *Counter) Read() int64 { return c.sum(func(s *shard) int64 { return s.read.Load() }) }

// Written is how many bytes drafts took from their feeds.
func (c *Counter) Written() int64 { return c.sum(func(s *shard) int64 { return s.written.Load() }) }

// Passing is how many calls failed for a reason that passes.
func (c *Counter) Passing() int64 { return c.sum(func(s *shard) int64 { return s.passing.Load() }) }

// Operations gives how often each operation was asked for that was asked for at all.
func (c *Counter) Operations() map[string]int64 {
	all := map[string]int64{}
	for o := range ops {
		if n := c.sum(func(s *shard) int64 { return s.ops[o].Load() }); n > 0 {
			all[o.String()] = n
		}
	}
	return all
}

func (c *Counter) sum(of func(*shard) int64) (n int64) {
	for i := range c.shards {
		n += of(&c.shards[i])
	}
	return n
}

// hear has something counted in the shard of this core.
func (c *Counter) hear(count func(*shard)) {
	s, ok := c.own.Get().(*shard)
	if !ok {
		s = &c.shards[uint64(c.next.Add(1))%shards]
	}
	count(s)
	c.own.Put(s)
}

// add counts an operation n times.
func (c *Counter) add(o Op, n int64) {
	c.hear(func(s *shard) { s.ops[o].Add(n) })
}

// did counts an operation, and its error if that passes. It returns the error.
func (c *Counter) did(o Op, err error) error {
	c.add(o, 1)
	return c.failed(err)
}

func (c *Counter) failed(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, mover.ErrTransient) || errors.Is(err, mover.ErrUnreachable) || errors.Is(err, mover.ErrTimeout) {
		c.hear(func(s *shard) { s.passing.Add(1) })
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
