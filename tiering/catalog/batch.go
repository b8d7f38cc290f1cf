package catalog

import (
	"github.com/dgraph-io/badger/v4"

	"datamove.dev/mover/kvstore"
)

// batch is changes on their way into the store, some of them at a time. What is put together is stored together.
type batch struct {
	c    *Catalog
	txn  *badger.Txn
	size int
	keys int
	done func() // is told when some were stored; nil is told nothing
	ease easing
}

func newBatch(c *Catalog) *batch { return &batch{c: c, ease: easing{c: c}} }

// change is one key that gets a value, or loses it.
type change struct {
	key, value []byte
	gone       bool
}

func put(key, value []byte) change { return change{key: key, value: value} }

func erase(key []byte) change { return change{key: key, gone: true} }

// put adds changes that belong together. They are not the caller's any more.
func (b *batch) put(changes ...change) error {
	size := 0
	for _, ch := range changes {
		size += len(ch.key) + len(ch.value)
	}
	if b.keys+len(changes) > batchKeys || b.size+size > batchBytes {
		if err := b.commit(); err != nil {
			return err
		}
	}
	if b.txn == nil {
		b.txn = b.c.db.NewTransaction(true)
	}
	for _, ch := range changes {
		var err error
		if ch.gone {
			err = b.txn.Delete(ch.key)
		} else {
			err = b.txn.SetEntry(badger.NewEntry(ch.key, ch.value))
		}
		if err != nil {
			return err
		}
	}
	b.keys += len(changes)
	b.size += size
	return nil
}

// commit stores what was put.
func (b *batch) commit() (err error) {
	if b.txn == nil {
		return nil
	}
	defer kvstore.Caught(&err)
	defer b.drop()
	if err := b.c.lock.Room(roomBytes); err != nil {
		return err
	}
	if err := b.txn.Commit(); err != nil {
		return err
	}
	b.ease.moved(b.size)
	if b.done != nil {
		b.done()
	}
	return nil
}

// drop forgets what was not stored.
func (b *batch) drop() {
	if b.txn != nil {
		b.txn.Discard()
	}
	b.txn, b.size, b.keys = nil, 0, 0
}
