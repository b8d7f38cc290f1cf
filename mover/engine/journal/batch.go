package journal

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"datamove.dev/mover"
)

// chunkBytes is how much of a batch is one value.
const chunkBytes = 16 << 10

// Stage records a batch of small finished drafts in one write. The id stands for
// all of them; Lookup and Left give each its own.
func (j *Journal) Stage(_ context.Context, batch []Record) (id uint64, err error) {
	if len(batch) >= 1<<indexBits {
		return 0, failed("stage", j.dir, fmt.Errorf("%w: %d records in one batch", mover.ErrUsage, len(batch)))
	}
	sequence := j.sequence.Add(1)
	var entries []*badger.Entry
	var body []byte
	first := 0
	for i := range batch {
		body = appendRecord(body, &batch[i])
		if len(body) > txnBytes {
			return 0, failed("stage", j.dir, fmt.Errorf("%w: a record of %d bytes", mover.ErrUsage, len(body)))
		}
		if len(body) < chunkBytes && i < len(batch)-1 {
			continue
		}
		head := binary.AppendUvarint(value(make([]byte, 0, len(body)+8)), uint64(i+1-first))
		entries = append(entries, badger.NewEntry(key(keyStaged, sequence, uint64(first)), append(head, body...)))
		body, first = body[:0], i+1
	}
	return sequence << indexBits, j.write("stage", entries...)
}

// Clear forgets records: their drafts are published or dropped. An id of Stage
// clears the whole batch.
func (j *Journal) Clear(_ context.Context, ids ...uint64) error {
	var whole []uint64
	var single []*badger.Entry
	for _, id := range ids {
		sequence, index, all := splitID(id)
		if !all {
			single = append(single, badger.NewEntry(key(keyCleared, sequence, index), nil))
			all = j.lastOfBatch(sequence)
		}
		if all {
			whole = append(whole, sequence)
		}
	}
	if len(single) > 0 {
		if err := j.write("clear", single...); err != nil {
			return err
		}
	}
	for _, sequence := range whole {
		if err := j.clear(sequence); err != nil {
			return err
		}
	}
	return nil
}

// lastOfBatch counts down what is left of a batch of an earlier run.
func (j *Journal) lastOfBatch(sequence uint64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	n, known := j.left.batches[sequence]
	if !known {
		return false
	}
	j.left.batches[sequence] = n - 1
	if n > 1 {
		return false
	}
	delete(j.left.batches, sequence)
	return true
}

// clear deletes all keys of a record or batch. What makes it one goes first, so
// that after a crash the rest belongs to nothing and takeStock sweeps it.
func (j *Journal) clear(sequence uint64) error {
	var keys [][]byte
	for _, letter := range []byte{keyRecord, keyStaged, keyCleared, keyComplete, keyDurable, keyShared, keyPart} {
		more, err := j.keys(key(letter, sequence))
		if err != nil {
			return failed("clear", j.dir, err)
		}
		keys = slices.Concat(keys, more)
	}
	return j.erase("clear", keys)
}

// keys returns the keys that begin with prefix.
func (j *Journal) keys(prefix []byte) (keys [][]byte, err error) {
	err = j.db.View(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			keys = append(keys, it.Item().KeyCopy(nil))
		}
		return nil
	})
	return keys, err
}
