package state

import (
	"bytes"
	"context"
	"maps"
	"sync"

	"github.com/dgraph-io/badger/v4"
	"google.golang.org/protobuf/proto"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
)

// Tally sums the rows of a table by what they are, and goes on as they change, so that
// a caller reads no rows.
type Tally[K comparable] struct {
	table string
	sum   func(value []byte, by map[K]int64, sign int64) error

	mu     sync.Mutex // guards all below
	counts map[K]int64
}

// Count begins to count the rows of a table.
func Count[M proto.Message, K comparable](ctx context.Context, l *Ledger, t *Table[M], by func(M) K) (*Tally[K], error) {
	return Sum(ctx, l, t, func(m M, _ int, add func(K, int64)) { add(by(m), 1) })
}

// Sum begins to sum what each row of a table adds, which has so many bytes. It reads the table once, as it is now,
// while others change it.
func Sum[M proto.Message, K comparable](ctx context.Context, l *Ledger, t *Table[M], of func(m M, bytes int, add func(K, int64))) (*Tally[K], error) {
	s, err := l.enter()
	if err != nil {
		return nil, err
	}
	defer s.uses.Done()
	y := &Tally[K]{table: t.name, counts: map[K]int64{}, sum: func(value []byte, by map[K]int64, sign int64) error {
		m, err := t.decode(value)
		if err == nil {
			of(m, len(value), func(k K, n int64) { by[k] += sign * n })
		}
		return err
	}}
	l.applying.Lock() // between two changes: what the reading sees, and what comes behind it
	txn := s.db.NewTransaction(false)
	l.tallies = append(l.tallies, y)
	l.applying.Unlock()
	defer txn.Discard()
	for found, err := range (&Tx{txn: txn}).scan(t.row(nil), Range{}, true) {
		if err == nil {
			err = ctx.Err()
		}
		by := map[K]int64{}
		if err == nil {
			err = y.sum(found.value, by, 1)
		}
		if err != nil {
			return nil, err
		}
		y.add(by)
	}
	return y, nil
}

// Counts are the counts of this moment.
func (y *Tally[K]) Counts() map[K]int64 {
	y.mu.Lock()
	defer y.mu.Unlock()
	return maps.Clone(y.counts)
}

// Of is the sum of one kind at this moment.
func (y *Tally[K]) Of(k K) int64 {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.counts[k]
}

func (y *Tally[K]) add(by map[K]int64) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for k, n := range by {
		if y.counts[k] += n; y.counts[k] == 0 {
			delete(y.counts, k)
		}
	}
}

// tally is a Tally without its type. Its methods are called only while a record is applied.
type tally interface {
	// change returns what has to be called when a record is in the store.
	change(l *Ledger, r *ledgerv1.Record) (done func(), err error)
}

// change compares rows as they are in the store with those of a record.
func (y *Tally[K]) change(l *Ledger, r *ledgerv1.Record) (done func(), err error) {
	by := map[K]int64{}
	var txn *badger.Txn
	count := func(value []byte, sign int64) error {
		if value == nil {
			return nil
		}
		return y.sum(value, by, sign)
	}
	for i, c := range r.GetChanges() {
		if c.GetTable() != y.table {
			continue
		}
		if txn == nil {
			txn = l.store.db.NewTransaction(false)
			defer txn.Discard()
		}
		was, err := before(txn, r.GetChanges()[:i], c)
		if err == nil {
			err = count(was, -1)
		}
		if err == nil && !c.GetDeleted() {
			err = count(c.GetValue(), 1)
		}
		if err != nil {
			return nil, err
		}
	}
	return func() { y.add(by) }, nil
}

// before returns a row as it is before a change, of which earlier ones of the same
// record are not yet in the store.
func before(txn *badger.Txn, earlier []*ledgerv1.Change, c *ledgerv1.Change) ([]byte, error) {
	for i := len(earlier) - 1; i >= 0; i-- {
		if e := earlier[i]; e.GetTable() == c.GetTable() && bytes.Equal(e.GetKey(), c.GetKey()) {
			if e.GetDeleted() {
				return nil, nil
			}
			return e.GetValue(), nil
		}
	}
	return getIn(txn, tables[c.GetTable()].row(c.GetKey()))
}

// tallied prepares every tally for a record, and returns what counts it.
func (l *Ledger) tallied(r *ledgerv1.Record) (done func(), err error) {
	var all []func()
	for _, t := range l.tallies {
		one, err := t.change(l, r)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return func() {
		for _, one := range all {
			one()
		}
	}, nil
}
