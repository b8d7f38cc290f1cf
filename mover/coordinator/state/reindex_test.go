package state

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"datamove.dev/test/must"
)

// TestIndexesOfAnOlderVersion: a ledger that another version has written last has the indexes of this one when it is open.
func TestIndexesOfAnOlderVersion(t *testing.T) {
	isIndex := func(key string) bool { return key[0] == keyIndex }
	for _, c := range []struct {
		name  string
		older func(t *testing.T, l *Ledger, txn *badger.Txn, entries []string) // what the other version has left
		same  bool                                                             // this version has written last, and nothing is looked at
	}{
		{"it has none of them", func(t *testing.T, _ *Ledger, txn *badger.Txn, entries []string) {
			for _, key := range entries {
				must.Do(t, txn.Delete([]byte(key)))
			}
			must.Do(t, txn.Delete([]byte{keyStore, storeIndexed}))
		}, false},
		{"it has others", func(t *testing.T, _ *Ledger, txn *badger.Txn, entries []string) {
			for _, key := range entries {
				must.Do(t, txn.Delete([]byte(key)))
				must.Do(t, txn.Set([]byte(key[:3]+"other"+key[3:]), nil))
			}
			must.Do(t, txn.Set([]byte("i\x01\x01of a table that is no more"), nil))
			must.Do(t, txn.SetEntry(storeEntry(storeIndexed, append(number(indexes+1), number(0)...))))
		}, false},
		{"it has written after this one", func(t *testing.T, l *Ledger, txn *badger.Txn, entries []string) {
			must.Do(t, txn.Delete([]byte(entries[0])))
			must.Do(t, txn.SetEntry(storeEntry(storeSequence, number(l.Sequence()+1))))
		}, false},
		{"it has not been here", func(t *testing.T, _ *Ledger, txn *badger.Txn, entries []string) {
			must.Do(t, txn.Delete([]byte(entries[0])))
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			l := opened(t, dir, Options{})
			for n := range 200 { // more than one transaction
				mess(t, l, n)
			}
			want := dump(t, l)
			maps.DeleteFunc(want, func(key, _ string) bool { return !isIndex(key) })
			txn := l.store.db.NewTransaction(true)
			write := func(entries []string) {
				c.older(t, l, txn, entries)
				must.Do(t, txn.Commit())
				txn = l.store.db.NewTransaction(true)
			}
			entries := slices.Sorted(maps.Keys(want))
			if c.same || strings.Contains(c.name, "after") {
				write(entries)
			} else {
				for part := range slices.Chunk(entries, 500) {
					write(part)
				}
			}
			txn.Discard()
			closed(t, l)

			l = opened(t, dir, Options{})
			defer func() { closed(t, l) }()
			got := dump(t, l)
			maps.DeleteFunc(got, func(key, _ string) bool { return !isIndex(key) })
			if same := maps.Equal(got, want); same == c.same {
				t.Errorf("%d entries, %d wanted", len(got), len(want))
			}
		})
	}
}

// TestKeysOfIndexes fails when the keys of an index are others than when the number of all indexes was given. They then need the next number, and the sum of the new keys here.
func TestKeysOfIndexes(t *testing.T) {
	l := fresh(t, Options{})
	for n := range 100 {
		mess(t, l, n)
	}
	sum := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(dump(t, l))) {
		if key[0] == keyIndex {
			sum.Write([]byte(key + "\n"))
		}
	}
	if got := hex.EncodeToString(sum.Sum(nil))[:16]; indexes != 1 || got != "11f8c66c7860e37f" {
		t.Errorf("indexes number %d have the sum %s", indexes, got)
	}
}
