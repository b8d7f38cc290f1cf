package state

import (
	"context"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	"datamove.dev/mover"
)

// Durability is what an Update has outlived when it returns.
type Durability int

const (
	// Soon has outlived a kill, and within Options.SyncEvery a power cut too.
	Soon Durability = iota
	// Durable has outlived a power cut.
	Durable
)

// View looks at the ledger as it is at one moment. An error of look is returned as it
// is. While a look lasts, nothing that it could see is removed from the disk.
func (l *Ledger) View(look func(*Tx) error) error {
	s, err := l.enter()
	if err != nil {
		return err
	}
	defer s.uses.Done()
	return s.db.View(func(txn *badger.Txn) error { return look(&Tx{txn: txn}) })
}

// Update makes one change, all or nothing. Others wait, so change does nothing that
// takes time, and calls neither Update nor Epoch. An error of change is returned as it
// is, and nothing is changed. When ctx ends before it is this change's turn, nothing is
// changed either; from then on it is not looked at.
//
// A Durable change that writes nothing waits until everything that it saw is durable.
//
// Where the ledger leads others, a change is stored by a majority of them when Update returns, of either durability. ErrNotLeader: it follows,
// and nothing is changed. ErrUnknown: another leader decides whether the change is there, all or nothing; this one follows.
func (l *Ledger) Update(ctx context.Context, d Durability, change func(*Tx) error) error {
	return l.update(ctx, l.role.Load(), d, change)
}

func (l *Ledger) update(ctx context.Context, r *role, d Durability, change func(*Tx) error) error {
	s, err := l.enter()
	if err != nil {
		return err
	}
	defer s.uses.Done()
	begun := time.Now()
	turn := l.turn
	if r.quorum != nil {
		turn = l.joint
	}
	upTo, wrote, err := turn(ctx, s, r, change)
	if err != nil || d != Durable {
		return err
	}
	if r.quorum == nil {
		err = l.flush.upTo(upTo)
	}
	if wrote {
		l.committed(time.Since(begun), err)
	}
	if err != nil {
		return l.failed("change", err)
	}
	return nil
}

// turn runs change while no other change runs. It returns the last record of the ledger
// then, and whether that is one of this change.
func (l *Ledger) turn(ctx context.Context, s *store, r *role, change func(*Tx) error) (upTo uint64, wrote bool, err error) {
	select {
	case l.writer <- struct{}{}:
	case <-ctx.Done():
		return 0, false, l.failed("change", context.Cause(ctx))
	}
	defer func() { <-l.writer }()
	if err := l.mayChange(r); err != nil {
		l.committed(0, err)
		return 0, false, l.failed("change", err)
	}
	txn := s.db.NewTransaction(true)
	defer txn.Discard()
	tx := &Tx{txn: txn, record: &ledgerv1.Record{Sequence: l.sequence.Load() + 1}}
	if err := change(tx); err != nil || len(tx.record.Changes) == 0 {
		return l.sequence.Load(), false, err
	}
	l.drafted = *tx
	defer func() { l.drafted = Tx{} }()
	if err := r.through.Append(context.WithoutCancel(ctx), tx.record); err != nil {
		l.committed(0, err)
		return 0, false, l.failed("change", err)
	}
	return l.sequence.Load(), true, nil
}

func (l *Ledger) mayChange(r *role) error {
	if !r.leads() {
		return ErrNotLeader
	}
	if r.quorum != nil { // what a majority has stored must find room here
		if err := l.room(roomBytes); err != nil {
			return err
		}
	}
	return l.flush.failed()
}

// Errors of a ledger that is one of several.
var (
	// ErrNotLeader is an error of a change that was not made: another ledger leads, or none.
	ErrNotLeader = fmt.Errorf("%w: this member of the cluster does not lead", mover.ErrTransient)
	// ErrUnknown is an error of a change that a later leader may find stored, all of it, or not at all.
	ErrUnknown = fmt.Errorf("%w: the leader was lost in the middle of a change, which may be made or not", mover.ErrTransient)
)
