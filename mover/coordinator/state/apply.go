package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dgraph-io/badger/v4"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/kvstore"
)

// Log takes records in order and keeps them. It is the one way by which a ledger
// changes; see Options.Log.
type Log interface {
	// Append adds a record after all others and applies it to the store. When it
	// returns, the record outlives this process. After an error nothing of it is there.
	Append(context.Context, *ledgerv1.Record) error
	// Sync returns when everything that was appended before outlives a power cut too.
	Sync(context.Context) error
}

// local is the log of a ledger that is alone: its own store.
type local struct{ l *Ledger }

func (s local) Append(_ context.Context, r *ledgerv1.Record) error {
	var drafted *badger.Txn
	if s.l.drafted.record == r {
		drafted = s.l.drafted.txn
	}
	return s.l.apply(r, drafted)
}

func (s local) Sync(context.Context) error {
	present, err := s.l.enter()
	if err != nil {
		return kvstore.Sync(s.l.present().dir) // Close syncs when no call begins any more
	}
	defer present.uses.Done()
	return kvstore.Sync(present.dir)
}

// Apply makes the next change of another ledger also one of this one, which was
// opened with Options.Follow. A record that is there already is no error. In a role that leads, the
// log of that role applies its records by it, too.
func (l *Ledger) Apply(_ context.Context, r *ledgerv1.Record) error {
	if !l.follows {
		return l.failed("apply to", fmt.Errorf("%w: it makes its own changes", mover.ErrUsage))
	}
	s, err := l.enter()
	if err != nil {
		return err
	}
	defer s.uses.Done()
	if r.GetSequence() <= l.sequence.Load() {
		return nil
	}
	if err := l.apply(r, nil); err != nil {
		return l.failed("apply to", err)
	}
	return nil
}

// apply writes a record to the store, all or nothing. Nothing else writes there but
// the code that makes a store.
func (l *Ledger) apply(r *ledgerv1.Record, drafted *badger.Txn) error {
	l.applying.Lock()
	defer l.applying.Unlock()
	if want := l.sequence.Load() + 1; r.GetSequence() != want {
		return fmt.Errorf("%w: record %d where %d is next", mover.ErrConflict, r.GetSequence(), want)
	}
	txn := drafted
	if txn == nil {
		var err error
		if txn, err = l.store.restage(r); err != nil {
			return err
		}
		defer txn.Discard()
	}
	counted, err := l.tallied(r)
	if err == nil {
		err = l.commit(l.store, txn, storeEntry(storeSequence, number(r.GetSequence())), indexed(r.GetSequence()))
	}
	if err != nil {
		return err
	}
	counted()
	l.sequence.Store(r.GetSequence())
	return nil
}

// put writes a record that is not one of the sequence.
func (l *Ledger) put(s *store, r *ledgerv1.Record, own ...*badger.Entry) error {
	txn, err := s.restage(r)
	if err != nil {
		return err
	}
	defer txn.Discard()
	return l.commit(s, txn, own...)
}

// restage puts the changes of a record into a new transaction.
func (s *store) restage(r *ledgerv1.Record) (*badger.Txn, error) {
	txn := s.db.NewTransaction(true)
	for _, c := range r.GetChanges() {
		if err := stage(txn, c); err != nil {
			txn.Discard()
			return nil, err
		}
	}
	return txn, nil
}

// commit adds what the store says of itself to a transaction and writes it.
func (l *Ledger) commit(s *store, txn *badger.Txn, own ...*badger.Entry) error {
	if err := l.room(roomBytes); err != nil {
		return err
	}
	for _, e := range own {
		if err := txn.SetEntry(e); err != nil {
			return err
		}
	}
	if err := txn.Commit(); err != nil {
		return err
	}
	s.reserve()
	return nil
}

// stage puts a change and what it does to the indexes into a transaction.
func stage(txn *badger.Txn, c *ledgerv1.Change) error {
	t, known := tables[c.GetTable()]
	if !known {
		return fmt.Errorf("%w: table %q is of a later version", mover.ErrUnsupported, c.GetTable())
	}
	row, value := t.row(c.GetKey()), c.GetValue()
	if c.GetDeleted() {
		value = nil
	}
	var err error
	if t.indexed() {
		err = stageIndexes(txn, t, c.GetKey(), value)
	}
	switch {
	case err != nil:
	case value == nil:
		err = txn.Delete(row)
	default:
		err = txn.Set(row, value)
	}
	if errors.Is(err, badger.ErrTxnTooBig) {
		return errTooLarge
	}
	return err
}

// stageIndexes changes the entries that differ between the row as it is in the
// transaction and its next value.
func stageIndexes(txn *badger.Txn, t rows, key, value []byte) error {
	was, err := getIn(txn, t.row(key))
	if err != nil {
		return err
	}
	gone, err := t.entries(key, was)
	if err != nil {
		return err
	}
	here, err := t.entries(key, value)
	if err != nil {
		return err
	}
	for _, entry := range without(gone, here) {
		err = errors.Join(err, txn.Delete(entry))
	}
	for _, entry := range without(here, gone) {
		err = errors.Join(err, txn.Set(entry, nil))
	}
	return err
}

// without returns the keys of a that are not in b; both are short.
func without(a, b [][]byte) [][]byte {
	return slices.DeleteFunc(slices.Clone(a), func(key []byte) bool {
		return slices.ContainsFunc(b, func(other []byte) bool { return bytes.Equal(key, other) })
	})
}
