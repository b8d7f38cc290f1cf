package metered

import (
	"sync/atomic"

	"datamove.dev/mover"
)

// tally is what places tell that count by themselves. It is a mover.Tally.
type tally struct{ counter *Counter }

var _ mover.Tally = tally{}

// Content implements mover.Tally.
func (t tally) Content(opens, ranges, checks, bytes int64) {
	t.counter.hear(func(s *shard) {
		some(&s.ops[Open], opens)
		some(&s.ops[Get], ranges)
		some(&s.ops[Stat], checks)
		some(&s.read, bytes)
	})
}

// Draft implements mover.Tally.
func (t tally) Draft(parts, bytes int64) {
	t.counter.hear(func(s *shard) {
		some(&s.ops[Part], parts)
		some(&s.written, bytes)
	})
}

// some adds what is not nothing.
func some(to *atomic.Int64, n int64) {
	if n > 0 {
		to.Add(n)
	}
}

// Copied implements mover.Tally.
func (t tally) Copied(err error) { _ = t.counter.did(Copy, err) }

// Failed implements mover.Tally.
func (t tally) Failed(err error) { _ = t.counter.failed(err) }
