package state

import (
	"bytes"
	"errors"
	"slices"

	"github.com/dgraph-io/badger/v4"
)

// indexes numbers the keys of all indexes. A new index, and other keys of one, take the next number: then Open makes the indexes of a store anew. TestIndexesOfAnOlderVersion
// shows it, and TestKeysOfIndexes says when it is due.
const indexes = 1

// reindexBytes is how much of the indexes goes into one transaction.
const reindexBytes = 16 << 10

// indexed is what the store says beside its last record: which keys its indexes have, and of which records. A version without them, that changes the ledger in between, leaves it behind.
func indexed(sequence uint64) *badger.Entry {
	return storeEntry(storeIndexed, append(number(indexes), number(sequence)...))
}

// reindex makes the indexes what the rows are, where another version has written last. Interrupted, it begins anew.
func (l *Ledger) reindex() error {
	txn := l.store.db.NewTransaction(false)
	defer txn.Discard()
	said, err := getIn(txn, []byte{keyStore, storeIndexed})
	want := indexed(l.sequence.Load())
	if err != nil || bytes.Equal(said, want.Value) {
		return err
	}
	w := &indexWriter{l: l, txn: l.store.db.NewTransaction(true)}
	defer func() { w.txn.Discard() }()
	if err := w.dropStale(txn); err != nil {
		return err
	}
	if err := w.addMissing(txn); err != nil {
		return err
	}
	if err := l.commit(l.store, w.txn, want); err != nil {
		return err
	}
	if w.changed > 0 {
		l.log.Info("another version has written the ledger: its indexes are made anew", "ledger", l.dir, "entries", w.changed)
	}
	return nil
}

// indexWriter changes entries of indexes, some in each transaction.
type indexWriter struct {
	l       *Ledger
	txn     *badger.Txn
	bytes   int // of the transaction
	changed int
}

// dropStale removes the entries that no row has.
func (w *indexWriter) dropStale(txn *badger.Txn) error {
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{keyIndex}})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		entry := it.Item().KeyCopy(nil)
		current, err := isCurrent(txn, entry)
		if err == nil && !current {
			err = w.does(len(entry), w.txn.Delete(entry))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isCurrent says whether a row has this entry.
func isCurrent(txn *badger.Txn, entry []byte) (bool, error) {
	for _, t := range tables {
		key, is := t.rowOf(entry)
		if !is {
			continue
		}
		value, err := getIn(txn, t.row(key))
		if err != nil || value == nil {
			return false, err
		}
		all, err := t.entries(key, value)
		return slices.ContainsFunc(all, func(one []byte) bool { return bytes.Equal(one, entry) }), err
	}
	return false, nil
}

// addMissing adds the entries that rows have, and the indexes have not.
func (w *indexWriter) addMissing(txn *badger.Txn) error {
	for _, t := range tables {
		if t.indexed() {
			if err := w.addOf(txn, t); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *indexWriter) addOf(txn *badger.Txn, t rows) error {
	prefix := t.row(nil)
	it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix, PrefetchValues: true, PrefetchSize: 10})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		value, err := it.Item().ValueCopy(nil)
		if err != nil {
			return err
		}
		all, err := t.entries(it.Item().KeyCopy(nil)[len(prefix):], value)
		if err != nil {
			return err
		}
		for _, entry := range all {
			_, err := txn.Get(entry)
			if errors.Is(err, badger.ErrKeyNotFound) {
				err = w.does(len(entry), w.txn.Set(entry, nil))
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// does counts a change, and writes those so far where they are many.
func (w *indexWriter) does(bytes int, err error) error {
	w.changed++
	if w.bytes += bytes; err != nil || w.bytes < reindexBytes {
		return err
	}
	if err := w.l.commit(w.l.store, w.txn); err != nil {
		return err
	}
	w.txn, w.bytes = w.l.store.db.NewTransaction(true), 0
	return nil
}
