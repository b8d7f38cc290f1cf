package journal

import (
	"context"
	"errors"
	"hash/maphash"
	"iter"

	"github.com/dgraph-io/badger/v4"
)

// leftovers finds what earlier runs left, by name. It is filled when the journal
// is opened; its size is bounded by what a run may have unpublished at one time.
type leftovers struct {
	seed    maphash.Seed
	byName  map[uint64]place // by hash of the name
	batches map[uint64]int   // sequence -> records of the batch that are left
}

// place is where a record is stored: in its own keys, or in a chunk of a batch.
type place struct {
	sequence uint64
	staged   bool
	first    uint32 // index of the chunk's first record
	index    uint32
	offset   uint32 // of the record in the chunk's value
}

func (p place) id() uint64 {
	if p.staged {
		return makeID(p.sequence, uint64(p.index))
	}
	return p.sequence << indexBits
}

// nameLimit bounds the index of names (about 50 bytes each). A name beyond it is
// copied anew; Left yields its record all the same.
const nameLimit = 1 << 19

// add indexes a record. The newest record of a name wins; two names of one hash
// cost the older one its resumption and nothing else, because Lookup compares names.
func (l *leftovers) add(name string, p place) {
	h := maphash.String(l.seed, name)
	was, taken := l.byName[h]
	if taken && was.sequence > p.sequence || !taken && len(l.byName) >= nameLimit {
		return
	}
	l.byName[h] = p
}

// takeStock reads what earlier runs left: after a power cut without what it may
// have cost, and without the rest of records that were being cleared.
func (j *Journal) takeStock(o Options) error {
	j.left = leftovers{seed: maphash.MakeSeed(), byName: map[uint64]place{}, batches: map[uint64]int{}}
	boot, err := j.lastBoot()
	if err != nil {
		return err
	}
	cut := (boot != o.boot || boot == "") && !o.KeepOnReboot
	swept, err := j.sweep(cut)
	if err != nil {
		return err
	}
	if err := j.erase("open", swept); err != nil {
		return err
	}
	if boot != o.boot { // only after the sweep: an interrupted one is begun again
		e := badger.NewEntry([]byte{keyBoot}, append(value(nil), o.boot...))
		if err := j.write("open", e); err != nil {
			return err
		}
	}
	j.atOpen = j.sequence.Load()
	return j.index()
}

// lastBoot returns the boot in which the journal was written last. What was
// written in this very boot can not have been lost, so the note needs no fsync.
func (j *Journal) lastBoot() (boot string, err error) {
	err = j.read([]byte{keyBoot}, func(d *decoder) { boot = string(d.b) })
	if errors.Is(err, badger.ErrKeyNotFound) {
		return "", nil
	}
	return boot, err
}

// sweep looks at every key, learns the highest numbers given out, and returns the
// keys that do not count any more.
func (j *Journal) sweep(cut bool) (useless [][]byte, err error) {
	begun, marks := map[uint64]bool{}, map[uint64]Mark{}
	var top, recorded uint64
	// A record comes before its parts.
	for _, letter := range []byte{keyRecord, keyStaged, keyDurable, keyCleared, keyComplete, keyShared, keyPart} {
		err := j.scan(letter, func(item *badger.Item, sequence, _ uint64) error {
			top = max(top, sequence)
			counts := begun[sequence]
			switch letter {
			case keyRecord:
				begun[sequence], counts = true, true
			case keyStaged:
				begun[sequence], counts = !cut, !cut
			case keyComplete:
				counts = counts && !cut
			case keyDurable:
				if err := decodeItem(item, func(d *decoder) { marks[sequence] = Mark(d.uvarint()) }); err != nil {
					return err
				}
				recorded = max(recorded, uint64(marks[sequence]))
			case keyPart:
				var n uint64
				if err := decodeItem(item, func(d *decoder) { n = d.uvarint() }); err != nil {
					return err
				}
				recorded = max(recorded, n)
				counts = counts && (!cut || n <= uint64(marks[sequence]))
			}
			if !counts {
				useless = append(useless, item.KeyCopy(nil))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	j.sequence.Store(top)
	j.recorded.Store(recorded)
	return useless, nil
}

// index fills leftovers from what the sweep left.
func (j *Journal) index() error {
	err := j.scan(keyRecord, func(item *badger.Item, sequence, _ uint64) error {
		return decodeItem(item, func(d *decoder) {
			name := d.string()
			j.left.add(name, place{sequence: sequence})
		})
	})
	if err != nil {
		return err
	}
	return j.db.View(func(txn *badger.Txn) error {
		return j.eachStaged(txn, func(p place, r Record) bool {
			j.left.add(r.Name, p)
			j.left.batches[p.sequence]++
			return true
		})
	})
}

// scan calls do with every key of a kind.
func (j *Journal) scan(letter byte, do func(item *badger.Item, sequence, number uint64) error) error {
	return j.db.View(func(txn *badger.Txn) error { return scanIn(txn, letter, do) })
}

var errStop = errors.New("enough")

func scanIn(txn *badger.Txn, letter byte, do func(item *badger.Item, sequence, number uint64) error) error {
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{letter}})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		sequence, number, ok := parseKey(it.Item().Key())
		if !ok {
			continue // of another version
		}
		if err := do(it.Item(), sequence, number); err != nil {
			if errors.Is(err, errStop) {
				return nil
			}
			return err
		}
	}
	return nil
}

// eachStaged yields the records of all batches that were not cleared.
func (j *Journal) eachStaged(txn *badger.Txn, yield func(place, Record) bool) error {
	return scanIn(txn, keyStaged, func(item *badger.Item, sequence, first uint64) error {
		stopped := false
		err := decodeItem(item, func(d *decoder) {
			whole := len(d.b) + 1 // with the version
			n := d.uvarint()
			for i := first; i-first < n && d.err == nil && !stopped; i++ {
				p := place{sequence, true, uint32(first), uint32(i), uint32(whole - len(d.b))}
				r := d.record()
				if d.err == nil && !cleared(txn, p) {
					stopped = !yield(p, r)
				}
			}
		})
		if stopped {
			return errStop
		}
		return err
	})
}

func cleared(txn *badger.Txn, p place) bool {
	_, err := txn.Get(key(keyCleared, p.sequence, uint64(p.index)))
	return err == nil
}

// Lookup returns what an earlier run left for a name: a draft to go on with, if
// its source is still the same, or to drop.
func (j *Journal) Lookup(name string) (r Record, id uint64, ok bool) {
	p, ok := j.left.byName[maphash.String(j.left.seed, name)]
	if !ok {
		return Record{}, 0, false
	}
	err := j.db.View(func(txn *badger.Txn) (err error) {
		r, err = fetch(txn, p)
		return err
	})
	switch {
	case errors.Is(err, badger.ErrKeyNotFound): // cleared by now
		return Record{}, 0, false
	case err != nil:
		j.log.Warn("journal can not be read, the file is copied anew", "journal", j.dir, "name", name, "err", err)
		return Record{}, 0, false
	}
	return r, p.id(), r.Name == name
}

// fetch reads the record at p, which is ErrKeyNotFound when it was cleared.
func fetch(txn *badger.Txn, p place) (r Record, err error) {
	if !p.staged {
		return assemble(txn, p.sequence)
	}
	if cleared(txn, p) {
		return Record{}, badger.ErrKeyNotFound
	}
	err = readIn(txn, key(keyStaged, p.sequence, uint64(p.first)), func(d *decoder) {
		d.take(uint64(p.offset) - 1) // the version is off already
		r = d.record()
	})
	return r, err
}

// assemble puts a large draft's record together.
func assemble(txn *badger.Txn, sequence uint64) (r Record, err error) {
	if err := readIn(txn, key(keyRecord, sequence), func(d *decoder) { r = d.record() }); err != nil {
		return Record{}, err
	}
	err = readIn(txn, key(keyComplete, sequence), func(d *decoder) { r.CRC, r.Complete = d.uint64(), true })
	if err != nil && !errors.Is(err, badger.ErrKeyNotFound) {
		return Record{}, err
	}
	_, err = txn.Get(key(keyShared, sequence))
	if r.Shared = err == nil; err != nil && !errors.Is(err, badger.ErrKeyNotFound) {
		return Record{}, err
	}
	var firm uint64
	err = readIn(txn, key(keyDurable, sequence), func(d *decoder) { firm = d.uvarint() })
	if err != nil && !errors.Is(err, badger.ErrKeyNotFound) {
		return Record{}, err
	}
	it := txn.NewIterator(badger.IteratorOptions{Prefix: key(keyPart, sequence)})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		err := decodeItem(it.Item(), func(d *decoder) {
			recorded := d.uvarint()
			part := d.receipt()
			if r.Receipts = append(r.Receipts, part); recorded > firm {
				r.Unsure = append(r.Unsure, part.Index)
			}
		})
		if err != nil {
			return Record{}, err
		}
	}
	return r, nil
}

// Left yields everything that earlier runs left and that is not cleared yet, with
// ids for Clear, which may be called meanwhile. A record that can not be read is
// left out with a warning: its draft is found by the target's walk.
func (j *Journal) Left(ctx context.Context) iter.Seq2[uint64, Record] {
	return func(yield func(uint64, Record) bool) {
		err := j.db.View(func(txn *badger.Txn) error { return j.eachLeft(ctx, txn, yield) })
		if err != nil && ctx.Err() == nil {
			j.log.Warn("journal can not be read to its end", "journal", j.dir, "err", err)
		}
	}
}

func (j *Journal) eachLeft(ctx context.Context, txn *badger.Txn, yield func(uint64, Record) bool) error {
	more := true
	err := scanIn(txn, keyRecord, func(_ *badger.Item, sequence, _ uint64) error {
		if sequence > j.atOpen || ctx.Err() != nil {
			return errStop
		}
		r, err := assemble(txn, sequence)
		if err != nil {
			return err
		}
		if more = yield(sequence<<indexBits, r); !more {
			return errStop
		}
		return nil
	})
	if err != nil || !more {
		return err
	}
	return j.eachStaged(txn, func(p place, r Record) bool {
		return p.sequence <= j.atOpen && ctx.Err() == nil && yield(p.id(), r)
	})
}
