package catalog

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"

	"datamove.dev/mover"
)

// Tree is what is catalogued: a tier, or that of one node.
type Tree struct{ Tier, Node string }

func (t Tree) String() string {
	if t.Node == "" {
		return t.Tier
	}
	return t.Tier + " on " + t.Node
}

func (t Tree) key() string { return t.Tier + "\x00" + t.Node }

func treeKey(t Tree) []byte { return append([]byte{keyTree}, t.key()...) }

func treeOf(key string) Tree {
	tier, node, _ := strings.Cut(key, "\x00")
	return Tree{tier, node}
}

// State is what is known of a tree as a whole.
type State struct {
	Tree Tree `json:"-"`
	// Scanned is when the last scan of all of it began that came to its end. Zero is never: what the catalog has is
	// not all that there is.
	Scanned time.Time
	Took    time.Duration // of that scan
	Scan    Tally         // what it found
	Unread  []string      // directories that it could not read, some of them; what is in them is as old as it was
	Began   time.Time     // the scan that goes on, or was ended in the middle; zero is none
	Root    uint64        // its folder
	Reads   mover.Reads   `json:",omitempty"` // how its file system recorded them when it was scanned last

	// Verified is when the last round of parts began that came to its end, or the last scan of all. Parts are in ScanOptions.
	Verified time.Time
	Rolled   string    // the entry behind which the next part begins, with a slash when it is a directory; "" is the beginning
	Rolling  time.Time // when the round of parts began that goes on
	Parted   time.Time // when the last part began
}

// Tally counts entries.
type Tally struct {
	Files, Dirs, Others int64
	Bytes, Stored       int64
	Unread              int64 // directories that could not be read
}

func (t *Tally) add(kind mover.Kind, size, stored int64) {
	switch kind {
	case mover.File:
		t.Files++
		t.Bytes += size
		t.Stored += stored
	case mover.Dir:
		t.Dirs++
	default:
		t.Others++
	}
}

// Trees returns the states of all trees, by their names.
func (c *Catalog) Trees() (all []State, err error) {
	err = c.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{keyTree}, PrefetchValues: true, PrefetchSize: 10})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			var s State
			if err := it.Item().Value(func(b []byte) error { return readState(b, &s) }); err != nil {
				return err
			}
			s.Tree = treeOf(string(it.Item().Key()[1:]))
			all = append(all, s)
		}
		return nil
	})
	if err != nil {
		return nil, c.failed("read", err)
	}
	return all, nil
}

// State is that of one tree; of one that is not known it is zero.
func (c *Catalog) State(tree Tree) (s State, err error) {
	err = c.db.View(func(txn *badger.Txn) (err error) {
		s, err = stateIn(txn, tree)
		return err
	})
	if err != nil {
		return State{}, c.failed("read", err)
	}
	return s, nil
}

func stateIn(txn *badger.Txn, tree Tree) (s State, err error) {
	s.Tree = tree
	b, err := get(txn, treeKey(tree))
	if b == nil || err != nil {
		return s, err
	}
	return s, readState(b, &s)
}

func (s *State) bytes() []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // numbers, times and strings
	}
	return b
}

func readState(b []byte, s *State) error {
	if err := json.Unmarshal(b, s); err != nil {
		return fmt.Errorf("%w: the state of a tree: %w", mover.ErrCorrupt, err)
	}
	return nil
}
