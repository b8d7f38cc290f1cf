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
	if err := l.enter(); err != nil {
		return err
	}
	defer l.uses.Done()
	return l.db.View(func(txn *badger.Txn) error { return look(&Tx{txn: txn}) })
}

// Update makes one change, all or nothing. Others wait, so change does nothing that
// takes time, and calls neither Update nor Epoch. An error of change is returned as it
// is, and nothing is changed. When ctx ends before it is this change's turn, nothing is
// changed either; from then on it is not looked at.
//
// A Durable change that writes nothing waits until everything that it saw is durable.
func (l *Ledger) Update(ctx context.Context, d Durability, change func(*Tx) error) error {
	if err := l.enter(); err != nil {
		return err
	}
	defer l.uses.Done()
	begun := time.Now()
	upTo, wrote, err := l.turn(ctx, change)
	if err != nil || d != Durable {
		return err
	}
	err = l.flush.upTo(upTo)
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
func (l *Ledger) turn(ctx context.Context, change func(*Tx) error) (upTo uint64, wrote bool, err error) {
	select {
	case l.writer <- struct{}{}:
	case <-ctx.Done():
		return 0, false, l.failed("change", context.Cause(ctx))
	}
	defer func() { <-l.writer }()
	if err := l.mayChange(); err != nil {
		l.committed(0, err)
		return 0, false, l.failed("change", err)
	}
	txn := l.db.NewTransaction(true)
	defer txn.Discard()
	tx := &Tx{txn: txn, record: &ledgerv1.Record{Sequence: l.sequence.Load() + 1}}
	if err := change(tx); err != nil || len(tx.record.Changes) == 0 {
		return l.sequence.Load(), false, err
	}
	l.drafted = *tx
	defer func() { l.drafted = Tx{} }()
	if err := l.through.Append(context.WithoutCancel(ctx), tx.record); err != nil {
		l.committed(0, err)
		return 0, false, l.failed("change", err)
	}
	return l.sequence.Load(), true, nil
}

func (l *Ledger) mayChange() error {
	if l.follows {
		return fmt.Errorf("%w: it follows another", mover.ErrUsage)
	}
	return l.flush.failed()
}
