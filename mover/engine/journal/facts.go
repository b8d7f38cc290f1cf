package journal

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/dgraph-io/badger/v4"

	"datamove.dev/mover/kvstore"
)

// Facts is what a task remembers from run to run, beside its records.
type Facts struct {
	// SourceSystem names the file system or bucket that was the source: another
	// one in its place must not lead to a delete.
	SourceSystem string `json:"sourceSystem,omitzero"`
	// Completed is when a run last ended with everything done, and Entries what
	// the source held then.
	Completed time.Time `json:"completed,omitzero"`
	Entries   int64     `json:"entries,omitzero"`
}

// Facts returns the facts that were set last, or none.
func (j *Journal) Facts() (f Facts, err error) {
	err = j.read([]byte{keyFacts}, func(d *decoder) {
		if json.Unmarshal(d.b, &f) != nil {
			d.fail("bad facts")
		}
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		return Facts{}, nil
	}
	if err != nil {
		return Facts{}, failed("read", j.dir, err)
	}
	return f, nil
}

// SetFacts replaces the facts; they are on stable storage when it returns.
func (j *Journal) SetFacts(_ context.Context, f Facts) error {
	text, err := json.Marshal(f)
	if err != nil {
		return failed("set facts of", j.dir, err)
	}
	if err := j.write("set facts of", badger.NewEntry([]byte{keyFacts}, append(value(nil), text...))); err != nil {
		return err
	}
	if err := kvstore.Sync(j.dir); err != nil {
		return failed("set facts of", j.dir, err)
	}
	return nil
}
