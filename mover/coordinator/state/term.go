package state

import (
	"context"
	"errors"
	"sync"
	"time"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	"datamove.dev/mover"
)

// The counters of a ledger.
const (
	counterTerm  = "term"
	counterEpoch = "epoch" // no epoch above it was ever returned
)

// epochChunk is how many epochs are reserved at a time. It is also how far, in
// milliseconds, epochs may run ahead of the clock after a crash.
const epochChunk = 1000

// epochs gives out epochs that are reserved in the ledger.
type epochs struct {
	mu       sync.Mutex // guards all below
	last     uint64     // returned, or reserved by an earlier run
	reserved uint64     // up to which this run may return
}

// Term is the number of times that this ledger was opened, and more than that after
// a restore: each Open has a greater one. A ledger that follows has none.
func (l *Ledger) Term() uint64 { return l.term }

// Epoch returns an epoch that is greater than every one that was ever returned, also
// before a crash, a power cut, or while the clock was wrong, and not below the
// present time in milliseconds since 1970. After a Restore that holds as long as
// the clock is right and fewer than 1,000 a second were taken. Epochs are not
// consecutive. Not to be called within an Update.
func (l *Ledger) Epoch(ctx context.Context) (uint64, error) {
	e := &l.epochs
	e.mu.Lock()
	defer e.mu.Unlock()
	next := max(e.last+1, uint64(max(time.Now().UnixMilli(), 0)))
	if next > e.reserved {
		upTo := next + epochChunk
		if err := l.Update(ctx, Durable, func(tx *Tx) error { return setCounter(tx, counterEpoch, upTo) }); err != nil {
			return 0, err
		}
		e.reserved = upTo
	}
	e.last = next
	return next, nil
}

// beginTerm durably begins a term that none had before.
func (l *Ledger) beginTerm() error {
	return l.Update(context.Background(), Durable, func(tx *Tx) (err error) {
		term, err1 := counter(tx, counterTerm)
		epoch, err2 := counter(tx, counterEpoch)
		l.term, l.epochs.last = term+1, epoch
		return errors.Join(err1, err2, setCounter(tx, counterTerm, l.term))
	})
}

func counter(tx *Tx, name string) (uint64, error) {
	c, err := counters.Get(tx, name)
	if errors.Is(err, mover.ErrNotExist) {
		return 0, nil
	}
	return c.GetValue(), err
}

func setCounter(tx *Tx, name string, value uint64) error {
	return counters.Put(tx, &ledgerv1.Counter{Name: name, Value: value})
}
