package journal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"datamove.dev/mover"
	"datamove.dev/mover/kvstore"
)

// Record is a draft that was begun and is not yet published.
type Record struct {
	Name      string         // of the entry, in the target
	Source    mover.Identity // what is being copied: another one makes the draft worthless
	Token     mover.Token    // the draft, for Adopt or Drop
	PartBytes int64          // the planned size of a part
	CRC       uint64         // of the whole content, when Complete
	Complete  bool           // Finish is done, only Publish is missing
	Doubted   bool           // it was published, and no sync has confirmed that: Stage it, with no token
	Shared    bool           // other processes have written to the draft, and may be writing still
	Receipts  []mover.Receipt
	Unsure    []int // of a large draft that was read: the parts of which no Durable has said that they are on stable storage
}

// The keys of the store: one letter, the sequence of the record or batch, and a
// number within it where there is one, big-endian so that they sort.
const (
	keyBoot     = 'b' // -> the boot that wrote here last
	keyComplete = 'c' // sequence -> CRC
	keyDurable  = 'd' // sequence -> Mark
	keyFacts    = 'f' // -> JSON
	keyShared   = 'h' // sequence -> nothing
	keyPart     = 'p' // sequence, part -> how many were recorded before, receipt
	keyRecord   = 'r' // sequence -> record
	keyStaged   = 's' // sequence, first index -> count, records
	keyCleared  = 'x' // sequence, index -> nothing
)

func key(letter byte, sequence uint64, number ...uint64) []byte {
	k := binary.BigEndian.AppendUint64([]byte{letter}, sequence)
	for _, n := range number {
		k = binary.BigEndian.AppendUint64(k, n)
	}
	return k
}

// parseKey is the inverse of key; number is 0 where there is none.
func parseKey(k []byte) (sequence, number uint64, ok bool) {
	switch len(k) {
	case 9:
		return binary.BigEndian.Uint64(k[1:]), 0, true
	case 17:
		return binary.BigEndian.Uint64(k[1:]), binary.BigEndian.Uint64(k[9:]), true
	}
	return 0, 0, false
}

// An id is a sequence and, for one record of a batch, its index plus one.
const indexBits = 24

func makeID(sequence, index uint64) uint64 { return sequence<<indexBits | index + 1 }

func splitID(id uint64) (sequence, index uint64, whole bool) {
	index = id & (1<<indexBits - 1)
	return id >> indexBits, index - 1, index == 0
}

// sequenceOf returns the sequence of a large draft's id.
func sequenceOf(op string, id uint64) (uint64, error) {
	sequence, _, whole := splitID(id)
	if !whole || sequence == 0 {
		return 0, fmt.Errorf("%s journal: %w: %d is no id of a draft that was begun", op, mover.ErrUsage, id)
	}
	return sequence, nil
}

func value(b []byte) []byte { return append(b, version) }

// Begin records that a large draft exists. The receipts that it may bring along
// are recorded as by Part. The id is for the other methods.
//
// No method that records gives up because ctx has ended: what was done was done.
func (j *Journal) Begin(_ context.Context, r Record) (id uint64, err error) {
	sequence := j.sequence.Add(1)
	receipts, complete := r.Receipts, r.Complete
	r.Receipts, r.Complete = nil, false
	v := appendRecord(value(nil), &r)
	if len(v) > txnBytes {
		return 0, failed("begin", j.dir, fmt.Errorf("%w: a record of %d bytes", mover.ErrUsage, len(v)))
	}
	entries := []*badger.Entry{badger.NewEntry(key(keyRecord, sequence), v)}
	for _, receipt := range receipts {
		entries = append(entries, j.partEntry(sequence, receipt))
	}
	if complete {
		entries = append(entries, completeEntry(sequence, r.CRC))
	}
	return sequence << indexBits, j.write("begin", entries...)
}

func (j *Journal) partEntry(sequence uint64, r mover.Receipt) *badger.Entry {
	v := binary.AppendUvarint(value(make([]byte, 0, 64)), j.recorded.Add(1))
	return badger.NewEntry(key(keyPart, sequence, uint64(r.Index)), appendReceipt(v, r))
}

func completeEntry(sequence, crc uint64) *badger.Entry {
	return badger.NewEntry(key(keyComplete, sequence), binary.LittleEndian.AppendUint64(value(nil), crc))
}

// Part records that one part of a draft is stored, or stored again. The record
// outlives this process; see Durable for a power cut.
func (j *Journal) Part(_ context.Context, id uint64, r mover.Receipt) error {
	sequence, err := sequenceOf("part", id)
	if err != nil {
		return err
	}
	if r.Index < 0 {
		return failed("part", j.dir, fmt.Errorf("%w: part %d", mover.ErrUsage, r.Index))
	}
	return j.write("part", j.partEntry(sequence, r))
}

// Complete records that a draft is finished and that only Publish is missing.
func (j *Journal) Complete(_ context.Context, id uint64, crc uint64) error {
	sequence, err := sequenceOf("complete", id)
	if err != nil {
		return err
	}
	return j.write("complete", completeEntry(sequence, crc))
}

// Share records that other processes write to a draft from now on: a run that takes it
// over can not know whether they have ended.
func (j *Journal) Share(_ context.Context, id uint64) error {
	sequence, err := sequenceOf("share", id)
	if err != nil {
		return err
	}
	return j.write("share", badger.NewEntry(key(keyShared, sequence), value(nil)))
}

// Mark is a moment: all parts that were recorded before it.
type Mark uint64

// Mark returns the present moment, for DurableUpTo.
func (j *Journal) Mark() Mark { return Mark(j.recorded.Load()) }

// Durable records that all parts of id that were recorded so far are on stable
// storage at the target. Parts that other goroutines record while the target is
// being synced must not count: take a Mark before the sync, and use DurableUpTo.
func (j *Journal) Durable(ctx context.Context, id uint64) error {
	return j.DurableUpTo(ctx, j.Mark(), id)
}

// DurableUpTo records that the parts of ids that were recorded before m are on
// stable storage at the target, and puts the journal there too.
func (j *Journal) DurableUpTo(_ context.Context, m Mark, ids ...uint64) error {
	j.mu.Lock() // a mark only goes up
	defer j.mu.Unlock()
	for _, id := range ids {
		sequence, err := sequenceOf("durable", id)
		if err != nil {
			return err
		}
		was, err := j.durable(sequence)
		if err != nil {
			return failed("durable", j.dir, err)
		}
		v := binary.AppendUvarint(value(nil), uint64(max(was, m)))
		if err := j.write("durable", badger.NewEntry(key(keyDurable, sequence), v)); err != nil {
			return err
		}
	}
	if err := kvstore.Sync(j.dir); err != nil {
		return failed("durable", j.dir, err)
	}
	return nil
}

// durable returns the mark of a draft, 0 when it has none.
func (j *Journal) durable(sequence uint64) (m Mark, err error) {
	err = j.read(key(keyDurable, sequence), func(d *decoder) { m = Mark(d.uvarint()) })
	if errors.Is(err, badger.ErrKeyNotFound) {
		return 0, nil
	}
	return m, err
}

// read decodes the value of one key.
func (j *Journal) read(k []byte, decode func(*decoder)) error {
	return j.db.View(func(txn *badger.Txn) error { return readIn(txn, k, decode) })
}

func readIn(txn *badger.Txn, k []byte, decode func(*decoder)) error {
	item, err := txn.Get(k)
	if err != nil {
		return err
	}
	return decodeItem(item, decode)
}

func decodeItem(item *badger.Item, decode func(*decoder)) error {
	return item.Value(func(v []byte) error {
		d := &decoder{b: v}
		d.version()
		decode(d)
		return d.err
	})
}
