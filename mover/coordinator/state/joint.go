package state

import (
	"context"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
)

// A change of a ledger that leads others takes a message to a majority and back. So the changes that wait meanwhile are stored together next: each is a record of its own,
// and sees what those before it have written.

// Quorum is the members of a cluster, of which a majority stores what one proposes.
type Quorum interface {
	// Append adds records after all others, and returns when a majority has them on stable storage, and the ledger that leads has them by Apply. After
	// an error nothing of them is there, and if it is ErrUnknown, a later leader decides, on all of them.
	Append(context.Context, []*ledgerv1.Record) error
}

// Bounds of what is stored together. A transaction has room for the largest record behind so much.
const (
	joinedBytes   = 32 << 10
	joinedChanges = 200
)

// waiting is a change that waits for its turn.
type waiting struct {
	role     *role
	change   func(*Tx) error
	done     chan struct{} // is closed when the others are set
	upTo     uint64
	wrote    bool
	err      error
	panicked any
}

// joint is turn for a ledger that leads others.
func (l *Ledger) joint(ctx context.Context, s *store, r *role, change func(*Tx) error) (upTo uint64, wrote bool, err error) {
	w := &waiting{role: r, change: change, done: make(chan struct{})}
	l.mu.Lock()
	l.waiting = append(l.waiting, w)
	l.mu.Unlock()
	select {
	case l.writer <- struct{}{}:
		l.storeTogether(ctx, s, r)
		<-l.writer
	case <-w.done:
	case <-ctx.Done():
		if l.withdraw(w) {
			return 0, false, l.failed("change", context.Cause(ctx))
		}
	}
	<-w.done
	if w.panicked != nil {
		panic(w.panicked)
	}
	return w.upTo, w.wrote, w.err
}

// withdraw takes a change back, unless it is its turn.
func (l *Ledger) withdraw(w *waiting) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, other := range l.waiting {
		if other == w {
			l.waiting = append(l.waiting[:i:i], l.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// next takes the first change of a role that waits.
func (l *Ledger) next(r *role) *waiting {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, w := range l.waiting {
		if w.role == r {
			l.waiting = append(l.waiting[:i:i], l.waiting[i+1:]...)
			return w
		}
	}
	return nil
}

// storeTogether does changes that wait, until there is none or they are many. The caller has the token of writer.
func (l *Ledger) storeTogether(ctx context.Context, s *store, r *role) {
	b := &joined{store: s, base: l.sequence.Load(), txn: s.db.NewTransaction(true)}
	defer func() { b.txn.Discard() }()
	err := l.mayChange(r)
	for b.bytes < joinedBytes && b.changes < joinedChanges {
		w := l.next(r)
		if w == nil {
			break
		}
		b.all = append(b.all, w)
		if w.err = err; err == nil {
			b.run(w)
		}
	}
	if err == nil && len(b.records) > 0 {
		err = r.quorum.Append(context.WithoutCancel(ctx), b.records)
	}
	if errors.Is(err, ErrNotLeader) || errors.Is(err, ErrUnknown) {
		l.role.CompareAndSwap(r, &role{})
	}
	for _, w := range b.all {
		if err != nil && (w.wrote || w.err != nil && errors.Is(w.err, err)) {
			l.committed(0, err)
			w.wrote, w.err = false, l.failed("change", err)
		}
		close(w.done)
	}
}

// joined is some changes that are stored together.
type joined struct {
	store   *store
	base    uint64 // the last record before them
	txn     *badger.Txn
	all     []*waiting
	records []*ledgerv1.Record
	bytes   int
	changes int // of records
}

// run runs a change behind the others. One that fails leaves nothing in the transaction.
func (b *joined) run(w *waiting) {
	tx := &Tx{txn: b.txn, record: &ledgerv1.Record{Sequence: b.base + uint64(len(b.records)) + 1}}
	w.err = w.do(tx)
	if w.err == nil && len(tx.record.Changes) > 0 {
		b.records = append(b.records, tx.record)
		b.bytes += tx.bytes
		b.changes += len(tx.record.Changes)
		w.wrote = true
	} else if len(tx.record.Changes) > 0 {
		w.err = errors.Join(w.err, b.again())
	}
	w.upTo = b.base + uint64(len(b.records))
}

// do runs the change. Its panic is one of its caller, and not of the one that runs it.
func (w *waiting) do(tx *Tx) (err error) {
	returned := false
	defer func() {
		if !returned {
			w.panicked = recover()
			err = fmt.Errorf("the change panicked: %v", w.panicked)
		}
	}()
	err = w.change(tx)
	returned = true
	return err
}

// again makes the transaction that of the records.
func (b *joined) again() error {
	b.txn.Discard()
	b.txn = b.store.db.NewTransaction(true)
	for _, r := range b.records {
		for _, c := range r.GetChanges() {
			if err := stage(b.txn, c); err != nil {
				return err
			}
		}
	}
	return nil
}
