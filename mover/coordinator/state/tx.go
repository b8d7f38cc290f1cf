package state

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/dgraph-io/badger/v4"
	"google.golang.org/protobuf/proto"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	"datamove.dev/mover"
)

// RecordBytes is the most that one Update may write: keys and messages together.
// What is larger is no single change; do it in steps.
const RecordBytes = 1_000_000

// Tx is one look at the ledger, and in an Update the change in progress: it sees
// what it has written. It is for one goroutine, and over when its function returns.
type Tx struct {
	txn    *badger.Txn
	record *ledgerv1.Record // what an Update changes; nil in a View
	bytes  int              // of record
}

// get returns a value of the store, nil for none.
func (tx *Tx) get(key []byte) ([]byte, error) { return getIn(tx.txn, key) }

func getIn(txn *badger.Txn, key []byte) ([]byte, error) {
	item, err := txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", mover.ErrCorrupt, err)
	}
	return item.ValueCopy(nil)
}

// change notes a change and lets this Tx see it.
func (tx *Tx) change(c *ledgerv1.Change) error {
	if tx.record == nil {
		return fmt.Errorf("%w: a View changes nothing", mover.ErrUsage)
	}
	tx.bytes += proto.Size(c)
	if tx.bytes > RecordBytes {
		return errTooLarge
	}
	tx.record.Changes = append(tx.record.Changes, c)
	return stage(tx.txn, c)
}

var errTooLarge = fmt.Errorf("%w: more than %d bytes, or too many rows, in one change of the ledger", mover.ErrUsage, RecordBytes)

// found is a key below a prefix, without it, and its value where that was asked for.
type found struct{ key, value []byte }

// Pages grow while they are read, so that a caller that wants one row reads few.
const (
	firstPage = 8
	lastPage  = 512
	pageBytes = 1 << 20
)

// scan yields what is in a range of the keys below base; see Table.All.
func (tx *Tx) scan(base []byte, r Range, values bool) iter.Seq2[found, error] {
	return func(yield func(found, error) bool) {
		prefix := appendKey(nil, r.Prefix...)
		s := span{base: base, prefix: slices.Concat(base, prefix), reverse: r.Reverse, values: values, beyond: true}
		if r.After != "" {
			var err error
			if s.from, err = parseToken(r.After, prefix); err != nil {
				yield(found{}, err)
				return
			}
		}
		for n, more := firstPage, true; more; n = min(2*n, lastPage) {
			var page []found
			var err error
			if page, more, err = tx.page(s, n); err != nil {
				yield(found{}, err)
				return
			}
			for _, f := range page {
				if !yield(f, nil) {
					return
				}
				s.from = f.key
			}
		}
	}
}

// span is what a page is read from: keys below prefix, which is base or below it.
type span struct {
	base, prefix []byte
	from         []byte // a key without base; nil is the beginning
	beyond       bool   // not from itself
	reverse      bool
	values       bool // are wanted too
}

// page reads up to n keys, and says whether there are more. An update transaction
// can have one iterator at a time, so none stays open.
func (tx *Tx) page(s span, n int) (page []found, more bool, err error) {
	it := tx.txn.NewIterator(badger.IteratorOptions{Prefix: s.prefix, Reverse: s.reverse})
	defer it.Close()
	size := 0
	for it.Seek(s.start()); it.Valid(); it.Next() {
		f := found{key: it.Item().KeyCopy(nil)[len(s.base):]}
		if s.beyond && bytes.Equal(f.key, s.from) {
			continue
		}
		if len(page) == n || size > pageBytes {
			return page, true, nil
		}
		if s.values {
			if f.value, err = it.Item().ValueCopy(nil); err != nil {
				return nil, false, fmt.Errorf("%w: %w", mover.ErrCorrupt, err)
			}
		}
		size += len(f.key) + len(f.value)
		page = append(page, f)
	}
	return page, false, nil
}

// start is where an iterator begins. From the end that is the first key after all that
// begin with prefix; no such key is there, because a prefix ends with a letter or with
// the end of a part.
func (s span) start() []byte {
	switch {
	case s.from != nil:
		return slices.Concat(s.base, s.from)
	case s.reverse:
		end := bytes.Clone(s.prefix)
		end[len(end)-1]++
		return end
	}
	return s.prefix
}
