package journal

import (
	"context"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// Encode writes a record for a journal on another host, which Decode reads.
func Encode(r Record) []byte { return appendRecord(value(nil), &r) }

// Decode reads what Encode has written. Its errors are of kind mover.ErrCorrupt.
func Decode(b []byte) (r Record, err error) {
	d := &decoder{b: b}
	d.version()
	if r = d.record(); d.err == nil && len(d.b) > 0 {
		d.fail("more than a record")
	}
	if d.err != nil {
		return Record{}, fmt.Errorf("a record of a journal: %w", d.err)
	}
	return r, nil
}

// Adopt takes over what a run on another host has left, as if it had been found
// here: Lookup and Left return it. It is marked as shared, because that run may not have
// ended. The caller must not have begun anything in this journal since it was opened.
func (j *Journal) Adopt(ctx context.Context, r Record) (id uint64, err error) {
	receipts := r.Receipts
	r.Receipts = nil
	if id, err = j.Begin(ctx, r); err != nil {
		return 0, err
	}
	sequence, err := sequenceOf("adopt", id)
	if err == nil {
		err = j.Share(ctx, id)
	}
	for len(receipts) > 0 && err == nil {
		n := min(len(receipts), adoptAtOnce)
		var parts []*badger.Entry
		for _, p := range receipts[:n] {
			parts = append(parts, j.partEntry(sequence, p))
		}
		err, receipts = j.write("adopt", parts...), receipts[n:]
	}
	if err != nil {
		return 0, errors.Join(err, j.Clear(ctx, id))
	}
	j.left.add(r.Name, place{sequence: sequence})
	j.atOpen = j.sequence.Load()
	return id, nil
}

// adoptAtOnce is how many receipts are written at one time.
const adoptAtOnce = 1000
