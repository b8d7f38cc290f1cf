package ledger

import (
	"bytes"
	"context"
	"maps"
	"sync"

	"github.com/dgraph-io/badger/v4"
	"google.golang.org/protobuf/proto"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
)

// Tally counts the rows of a table by what they are, and goes on counting as they
// change, so that whoever asks reads no rows.
type Tally[K comparable] struct {
	table string
	kind  func(value []byte) (K, error)

	mu     sync.Mutex // guards all below
	counts map[K]int64
}

// Count begins to count the rows of a table. It reads the table once, as it is now,
// while others change it. A table is counted by one tally at most.
func Count[M proto.Message, K comparable](ctx context.Context, l *Ledger, t *Table[M], by func(M) K) (*Tally[K], error) {
	if err := l.enter(); err != nil {
		return nil, err
	}
	defer l.uses.Done()
	y := &Tally[K]{table: t.name, counts: map[K]int64{}, kind: func(value []byte) (k K, err error) {
		m, err := t.decode(value)
		if err != nil {
			return k, err
		}
		return by(m), nil
	}}
	l.writer <- struct{}{} // between two changes: what the reading sees, and what comes behind it
	txn := l.db.NewTransaction(false)
	l.tallies = append(l.tallies, y)
	<-l.writer
	defer txn.Discard()
	for found, err := range (&Tx{txn: txn}).scan(t.row(nil), Range{}, true) {
		if err == nil {
			err = ctx.Err()
		}
		var k K
		if err == nil {
			k, err = y.kind(found.value)
		}
		if err != nil {
			return nil, err
		}
		y.add(map[K]int64{k: 1})
	}
	return y, nil
}

// Counts are the counts of this moment.
func (y *Tally[K]) Counts() map[K]int64 {
	y.mu.Lock()
	defer y.mu.Unlock()
	return maps.Clone(y.counts)
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

// tally is a Tally without its type. Calls are made by whoever changes the store.
type tally interface {
	// change returns what has to be called when a record is in the store.
	change(l *Ledger, r *ledgerv1.Record) (done func(), err error)
}

// change compares rows as they are in the store with those of a record.
func (y *Tally[K]) change(l *Ledger, r *ledgerv1.Record) (done func(), err error) {
	by := map[K]int64{}
	var txn *badger.Txn
	count := func(value []byte, n int64) error {
		if value == nil {
			return nil
		}
		k, err := y.kind(value)
		by[k] += n
		return err
	}
	for i, c := range r.GetChanges() {
		if c.GetTable() != y.table {
			continue
		}
		if txn == nil {
			txn = l.db.NewTransaction(false)
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
