package state

import (
	"bytes"
	"fmt"
	"iter"

	"google.golang.org/protobuf/proto"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	"datamove.dev/mover"
)

// Table holds messages of one kind, each under a key that is made of its own fields.
type Table[M proto.Message] struct {
	name    string
	letter  byte
	key     func(M) []string
	indexes []*Index[M]
}

// Index finds the rows of a table in another order. It follows the table by itself.
type Index[M proto.Message] struct {
	table  *Table[M]
	letter byte
	parts  int                // of each of its keys
	keys   func(M) [][]string // under which a row is found; none is not at all
}

// Range is a part of a table or of an index, in order.
type Range struct {
	Prefix  []string // the keys that begin with these parts; none is all
	After   string   // the token of the row before the first one; "" begins at the beginning
	Reverse bool     // from the last to the first
}

// rows is a table without its type, for callers with encoded rows.
type rows interface {
	// row returns the key under which a row is stored.
	row(key []byte) []byte
	// indexed says whether the table has indexes.
	indexed() bool
	// entries returns the entries of the indexes for a row; none for no value.
	entries(key, value []byte) ([][]byte, error)
	// rowOf returns the key of the row that an entry of one of the indexes is for.
	rowOf(entry []byte) (key []byte, is bool)
	// check refuses a row that is not under its own key.
	check(key, value []byte) error
}

// tables has every table by its name, which records and backups use.
var tables = map[string]rows{}

// newTable makes a table. Name and letter are in files: they never change.
func newTable[M proto.Message](name string, letter byte, key func(M) []string) *Table[M] {
	t := &Table[M]{name: name, letter: letter, key: key}
	tables[name] = t
	return t
}

// newIndex makes an index. Its keys have a fixed number of parts.
func newIndex[M proto.Message](t *Table[M], letter byte, parts int, keys func(M) [][]string) *Index[M] {
	x := &Index[M]{t, letter, parts, keys}
	t.indexes = append(t.indexes, x)
	return x
}

// Get returns a row, or mover.ErrNotExist. The message is the caller's own.
func (t *Table[M]) Get(tx *Tx, key ...string) (M, error) {
	return t.get(tx, appendKey(nil, key...))
}

func (t *Table[M]) get(tx *Tx, key []byte) (m M, err error) {
	value, err := tx.get(t.row(key))
	if err != nil {
		return m, err
	}
	if value == nil {
		return m, fmt.Errorf("%w: it is not among the %s", mover.ErrNotExist, t.name)
	}
	return t.decode(value)
}

// Put stores a row in place of the one with its key.
func (t *Table[M]) Put(tx *Tx, m M) error {
	parts := t.key(m)
	key := appendKey(nil, parts...)
	if err := checkKey(t.name, parts, key); err != nil {
		return err
	}
	value, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return fmt.Errorf("%w: a row of %s: %w", mover.ErrUsage, t.name, err)
	}
	return tx.change(&ledgerv1.Change{Table: t.name, Key: key, Value: value})
}

// Delete removes a row. One that is not there is no error.
func (t *Table[M]) Delete(tx *Tx, key ...string) error {
	encoded := appendKey(nil, key...)
	if err := checkKey(t.name, key, encoded); err != nil {
		return err
	}
	if was, err := tx.get(t.row(encoded)); err != nil || was == nil {
		return err
	}
	return tx.change(&ledgerv1.Change{Table: t.name, Key: encoded, Deleted: true})
}

// All yields rows in the order of their keys. It reads page by page: a row that the
// loop itself puts further on is met, and memory does not grow with the table.
func (t *Table[M]) All(tx *Tx, r Range) iter.Seq2[M, error] {
	return func(yield func(M, error) bool) {
		for found, err := range tx.scan(t.row(nil), r, true) {
			var m M
			if err == nil {
				m, err = t.decode(found.value)
			}
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}

// Token returns the token of a row of the table, for Range.After.
func (t *Table[M]) Token(m M) string { return token(appendKey(nil, t.key(m)...)) }

// All yields rows in the order of the index.
func (x *Index[M]) All(tx *Tx, r Range) iter.Seq2[M, error] {
	return func(yield func(M, error) bool) {
		for found, err := range tx.scan(x.prefix(), r, false) {
			var m M
			if err == nil {
				m, err = x.table.get(tx, after(found.key, x.parts))
			}
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}

// Token returns the token of a row of the index, where it must stand once.
func (x *Index[M]) Token(m M) string {
	var key []byte
	for _, parts := range x.keys(m) {
		key = appendKey(nil, parts...)
	}
	return token(appendKey(key, x.table.key(m)...))
}

func (x *Index[M]) prefix() []byte { return []byte{keyIndex, x.table.letter, x.letter} }

func (t *Table[M]) row(key []byte) []byte {
	return append(append(make([]byte, 0, 2+len(key)), keyRow, t.letter), key...)
}

func (t *Table[M]) decode(value []byte) (m M, err error) {
	m = m.ProtoReflect().New().Interface().(M)
	if err := proto.Unmarshal(value, m); err != nil {
		return m, fmt.Errorf("%w: a row of %s: %w", mover.ErrCorrupt, t.name, err)
	}
	return m, nil
}

func (t *Table[M]) indexed() bool { return len(t.indexes) > 0 }

func (t *Table[M]) entries(key, value []byte) (entries [][]byte, err error) {
	if value == nil {
		return nil, nil
	}
	m, err := t.decode(value)
	if err != nil {
		return nil, err
	}
	for _, x := range t.indexes {
		for _, parts := range x.keys(m) {
			entries = append(entries, append(appendKey(x.prefix(), parts...), key...))
		}
	}
	return entries, nil
}

func (t *Table[M]) rowOf(entry []byte) ([]byte, bool) {
	for _, x := range t.indexes {
		if key, is := bytes.CutPrefix(entry, x.prefix()); is {
			return after(key, x.parts), true
		}
	}
	return nil, false
}

func (t *Table[M]) check(key, value []byte) error {
	m, err := t.decode(value)
	if err != nil {
		return err
	}
	parts := t.key(m)
	own := appendKey(nil, parts...)
	if !bytes.Equal(key, own) {
		return fmt.Errorf("%w: a row of %s is not under its own name", mover.ErrCorrupt, t.name)
	}
	return checkKey(t.name, parts, own)
}

// forgetAll deletes rows of a table, and returns how many may still be deleted; below
// 0, there are more.
func forgetAll[M proto.Message](tx *Tx, t *Table[M], all iter.Seq2[M, error], left int) (int, error) {
	if left < 0 {
		return left, nil
	}
	for m, err := range all {
		if err != nil {
			return left, err
		}
		if left--; left < 0 {
			return left, nil
		}
		if err := t.Delete(tx, t.key(m)...); err != nil {
			return left, err
		}
	}
	return left, nil
}

// Collect returns the records that a range yields.
func Collect[M any](records iter.Seq2[M, error]) (found []M, err error) {
	for m, err := range records {
		if err != nil {
			return nil, err
		}
		found = append(found, m)
	}
	return found, nil
}
