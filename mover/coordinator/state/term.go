package state

import (
	"context"
	"errors"
	"fmt"
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
	turn     turnstile // guards all below
	last     uint64    // returned, or reserved by an earlier run
	reserved uint64    // up to which this run may return
}

// role is what a ledger may do at present. Another one takes its place as a whole.
type role struct {
	through Log    // where changes of a ledger that is alone go
	quorum  Quorum // where those of a leader go; one that follows has neither
	term    uint64
	epochs  epochs
}

func (r *role) leads() bool { return r.through != nil || r.quorum != nil }

// Term is the number of times that this ledger was opened, or has begun to lead, and more than that after
// a restore: each has a greater one. A ledger that follows has none.
func (l *Ledger) Term() uint64 { return l.role.Load().term }

// Lead lets a ledger that was opened with Options.Follow change by itself: changes go to the quorum, and come back
// by Apply. Everything that an earlier leader has stored must have been applied. The term is above that
// of every earlier leader, and so are epochs: what an earlier leader has reserved is stored.
// It ends by Follow, by a quorum that says so (ErrNotLeader, ErrUnknown), or by an error of Lead.
func (l *Ledger) Lead(ctx context.Context, quorum Quorum) error {
	if !l.follows {
		return l.failed("lead", fmt.Errorf("%w: it is alone and leads already", mover.ErrUsage))
	}
	if err := l.lead(ctx, &role{quorum: quorum}); err != nil {
		return l.failed("lead", err)
	}
	return nil
}

func (l *Ledger) lead(ctx context.Context, r *role) error {
	before := l.role.Load()
	r.epochs.turn = make(turnstile, 1)
	if err := l.beginTerm(ctx, r); err != nil {
		return err
	}
	if !l.role.CompareAndSwap(before, r) {
		return ErrNotLeader
	}
	return nil
}

// Follow ends the role of a leader. It does not wait: a change that has not got to the log yet fails, and the log decides on
// one that has. What counts rows for the leader (Count, Sum) counts no further.
func (l *Ledger) Follow() {
	l.role.Store(&role{})
	l.applying.Lock()
	defer l.applying.Unlock()
	l.tallies = nil
}

// SetMember notes, on stable storage, that the ledger is or is no longer one of a cluster. One that is can not be opened alone.
func (l *Ledger) SetMember(is bool) error {
	if err := l.rewrite(func(id *identity) { id.Member = is }); err != nil {
		return l.failed("note the cluster of the", err)
	}
	return nil
}

// ID is the identity of the ledger, which members of a cluster share.
func (l *Ledger) ID() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.id.Ledger
}

// Member says whether the ledger is one of a cluster.
func (l *Ledger) Member() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.id.Member
}

// Epoch returns an epoch that is greater than every one that was ever returned, also
// before a crash, a power cut, or while the clock was wrong, and not below the
// present time in milliseconds since 1970. After a Restore that holds as long as
// the clock is right and fewer than 1,000 a second were taken. Epochs are not
// consecutive. Not to be called within an Update.
func (l *Ledger) Epoch(ctx context.Context) (uint64, error) {
	r := l.role.Load()
	e := &r.epochs
	if !r.leads() {
		return 0, l.failed("take an epoch from the", ErrNotLeader)
	}
	e.turn.Lock()
	defer e.turn.Unlock()
	next := max(e.last+1, uint64(max(time.Now().UnixMilli(), 0)))
	if next > e.reserved {
		upTo := next + epochChunk
		if err := l.update(ctx, r, Durable, func(tx *Tx) error { return setCounter(tx, counterEpoch, upTo) }); err != nil {
			return 0, err
		}
		e.reserved = upTo
	}
	e.last = next
	return next, nil
}

// beginTerm durably begins a term that none had before.
func (l *Ledger) beginTerm(ctx context.Context, r *role) error {
	return l.update(ctx, r, Durable, func(tx *Tx) (err error) {
		term, err1 := counter(tx, counterTerm)
		epoch, err2 := counter(tx, counterEpoch)
		r.term, r.epochs.last = term+1, epoch
		return errors.Join(err1, err2, setCounter(tx, counterTerm, r.term))
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
