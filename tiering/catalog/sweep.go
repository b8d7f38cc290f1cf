package catalog

import (
	"context"

	"github.com/dgraph-io/badger/v4"

	"datamove.dev/mover"
)

// sweep removes folders that are in no tree any more, with what is below them.
func (c *Catalog) sweep(ctx context.Context) error {
	for {
		n, err := c.firstGone()
		if n == 0 || err != nil {
			return err
		}
		if err := c.remove(ctx, n); err != nil {
			return err
		}
	}
}

// firstGone finds a folder that has to be removed; 0 is none.
func (c *Catalog) firstGone() (n number, err error) {
	err = c.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{keyGone}})
		defer it.Close()
		if it.Rewind(); it.Valid() {
			n = numberOf(it.Item().Key())
		}
		return nil
	})
	return n, err
}

// remove removes a folder; those in it are gone then, too.
func (c *Catalog) remove(ctx context.Context, n number) error {
	v := c.view()
	defer v.close()
	b := newBatch(c)
	defer b.drop()
	children := v.txn.NewIterator(badger.IteratorOptions{Prefix: numbered(keyChild, n, 0), PrefetchValues: true, PrefetchSize: 100})
	defer children.Close()
	for children.Rewind(); children.Valid(); children.Next() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		item := children.Item()
		value, err := item.ValueCopy(nil)
		if err != nil {
			return err
		}
		child := numberOf(append([]byte{keyChild}, value...))
		if err := b.put(detached(n, child, string(item.Key()[9:]))...); err != nil {
			return err
		}
	}
	prefix := numbered(keyFolder, n, 0)
	for v.it.Seek(prefix); v.it.ValidForPrefix(prefix); v.it.Next() {
		if err := b.put(erase(v.it.Item().KeyCopy(nil))); err != nil {
			return err
		}
	}
	if err := b.put(erase(goneKey(n))); err != nil {
		return err
	}
	return b.commit()
}

// Forget removes all that is known of a tree.
func (c *Catalog) Forget(ctx context.Context, tree Tree) error {
	done, err := c.hold(ctx, tree)
	if err != nil {
		return c.failed("forget in", err)
	}
	defer done()
	if err := c.forget(ctx, tree); err != nil {
		return c.failed("forget in", err)
	}
	return nil
}

func (c *Catalog) forget(ctx context.Context, tree Tree) error {
	v := c.view()
	defer v.close()
	s, err := stateIn(v.txn, tree)
	if err != nil {
		return err
	}
	if s.Root == 0 {
		return &mover.Error{Op: "forget", Location: tree.String(), Err: mover.ErrNotExist}
	}
	root := number(s.Root)
	b := newBatch(c)
	defer b.drop()
	if err := b.put(erase(treeKey(tree)), put(recordKey(root), record{}.bytes()), put(goneKey(root), nil)); err != nil {
		return err
	}
	marks := v.txn.NewIterator(badger.IteratorOptions{Prefix: marksOf(tree)})
	defer marks.Close()
	for marks.Rewind(); marks.Valid(); marks.Next() {
		if err := b.put(erase(marks.Item().KeyCopy(nil))); err != nil {
			return err
		}
	}
	if err := b.commit(); err != nil {
		return err
	}
	return c.sweep(ctx)
}
