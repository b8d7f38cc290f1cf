package catalog

import (
	"bytes"

	"github.com/dgraph-io/badger/v4"

	"datamove.dev/mover/kvstore"
	"datamove.dev/tiering/dataset"
)

// view is a moment of the store, and an iterator over the parts of folders in it.
type view struct {
	txn *badger.Txn
	it  *badger.Iterator
}

func (c *Catalog) view() *view {
	txn := c.db.NewTransaction(false)
	return &view{txn, txn.NewIterator(badger.IteratorOptions{Prefix: []byte{keyFolder}})}
}

// renew goes on to this moment.
func (v *view) renew(c *Catalog) {
	v.close()
	*v = *c.view()
}

func (v *view) close() {
	v.it.Close()
	v.txn.Discard()
}

// child finds the folder of a directory; 0 is none.
func (v *view) child(parent number, base string) (number, error) {
	b, err := get(v.txn, childKey(parent, base))
	if len(b) != 8 || err != nil {
		return 0, err
	}
	return numberOf(append([]byte{keyChild}, b...)), nil
}

// record reads that of a folder; the zero one is none.
func (v *view) record(n number) (record, error) {
	raw, err := get(v.txn, recordKey(n))
	if raw == nil || err != nil {
		return record{}, err
	}
	return readRecord(raw)
}

// page finds the page of a folder from a bound on: the first with a bound that is not before it. Without one, raw is nil and b the last.
func (v *view) page(n number, from bound) (b bound, raw []byte, err error) {
	v.it.Seek(pageKey(n, from))
	if !v.it.Valid() {
		return bound{last: true}, nil, nil
	}
	item := v.it.Item()
	key := item.Key()
	if len(key) < 10 || !bytes.Equal(key[:9], numbered(keyFolder, n, 0)) {
		return bound{last: true}, nil, nil
	}
	b = boundOf(key)
	raw, err = item.ValueCopy(nil)
	if err != nil {
		return b, nil, kvstore.Damage(err)
	}
	return b, raw, nil
}

// merge brings what is known of one folder up to date: entries come in the order of walks, and those that do not come are gone.
type merge struct {
	to   *batch
	from *view
	n    number

	bound bound          // of the page that is merged
	raw   []byte         // as it is stored; nil is none
	old   []dataset.File // that have not come yet
	new   []dataset.File
	part  bool // what does not come stays, because only some names are looked at
	gone  func(dataset.File) error
}

// begin finds the first page.
func (m *merge) begin() error { return m.load(bound{}) }

func (m *merge) load(from bound) (err error) {
	if m.bound, m.raw, err = m.from.page(m.n, from); err != nil {
		return err
	}
	m.old, m.new = nil, m.new[:0]
	if m.raw != nil {
		m.old, err = readPage(nil, m.raw, "")
	}
	return err
}

// add takes an entry that is there. It returns what was known of it; the zero File when it is new.
func (m *merge) add(f dataset.File) (was dataset.File, err error) {
	name := sorting(f.Base, f.Kind)
	if was, err = m.pass(name); err != nil {
		return was, err
	}
	if was.Kind != 0 {
		f.Seen = was.Seen
	}
	m.new = append(m.new, f)
	if len(m.new) < 2*pageEntries {
		return was, nil
	}
	return was, m.cut()
}

// pass goes on to a name, and returns what is known of it.
func (m *merge) pass(name string) (was dataset.File, err error) {
	for !m.bound.holds(name) {
		if err := m.next(name); err != nil {
			return was, err
		}
	}
	for len(m.old) > 0 {
		old := m.old[0]
		at := sorting(old.Base, old.Kind)
		if at > name {
			return dataset.File{}, nil
		}
		m.old = m.old[1:]
		if at == name {
			return old, nil
		}
		if err := m.miss(old); err != nil {
			return was, err
		}
	}
	return dataset.File{}, nil
}

// miss meets an entry that did not come.
func (m *merge) miss(old dataset.File) error {
	if m.part {
		m.new = append(m.new, old)
		return nil
	}
	return m.gone(old)
}

// cut makes a page of the first of the new entries.
func (m *merge) cut() error {
	first := m.new[:pageEntries]
	last := &first[pageEntries-1]
	key := pageKey(m.n, bound{name: sorting(last.Base, last.Kind)})
	if err := m.to.put(put(key, appendPage(nil, first))); err != nil {
		return err
	}
	m.new = append(m.new[:0], m.new[pageEntries:]...)
	return nil
}

// rest ends a page.
func (m *merge) rest() error {
	for len(m.old) > 0 {
		old := m.old[0]
		m.old = m.old[1:]
		if err := m.miss(old); err != nil {
			return err
		}
	}
	for len(m.new) >= 2*pageEntries {
		if err := m.cut(); err != nil {
			return err
		}
	}
	if len(m.new) == 0 && !m.bound.last {
		return m.to.put(erase(pageKey(m.n, m.bound)))
	}
	page := appendPage(nil, m.new)
	if bytes.Equal(page, m.raw) {
		return nil
	}
	return m.to.put(put(pageKey(m.n, m.bound), page))
}

// next ends a page, and goes on with the one behind it, or, when what does not come stays, with the one that has a name.
func (m *merge) next(name string) error {
	from := bound{name: m.bound.name + "\x00"} // the least that is behind
	if m.part {
		from.name = name
	}
	if err := m.rest(); err != nil {
		return err
	}
	return m.load(from)
}

// end ends the folder. What has not come by then stays when keep is true, and is gone else.
func (m *merge) end(keep bool) error {
	m.part = m.part || keep
	for !m.part && !m.bound.last {
		if err := m.next(""); err != nil {
			return err
		}
	}
	return m.rest()
}

// detached are the changes that take a folder out of its tree, with all that is below.
func detached(parent, n number, base string) []change {
	return []change{erase(childKey(parent, base)), put(recordKey(n), record{}.bytes()), put(goneKey(n), nil)}
}

// attached are those that make one.
func attached(n number, r record) []change {
	value := numbered(keyChild, n, 0)[1:]
	return []change{put(childKey(r.parent, r.base), value), put(recordKey(n), r.bytes())}
}
