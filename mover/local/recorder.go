package local

import (
	"encoding/binary"
	"encoding/gob"
	"bytes"
	"fmt"
	"io"
	"iter"
	"os"
	"sync"

	"datamove.dev/mover"
	"datamove.dev/mover/plan"
	"datamove.dev/mover/transfer"
)

// recorder keeps on disk what became of each action until the manifest is
// written. Results come in any order; the manifest needs the order of the plan.
// Two nameless files: the records, and for each place in the plan where its record is.
// Memory does not grow with their number.
type recorder struct {
	mu      sync.Mutex
	records *os.File
	index   *os.File
	end     int64 // of records; guarded by mu, as all below
	last    int64 // the highest place in the plan
	changed bool  // something is not as the last manifest says
	err     error
}

// fate is one record.
type fate struct {
	Entry   mover.Entry
	Removed bool
}

func newRecorder(dir string) (*recorder, error) {
	r := &recorder{last: -1}
	for _, f := range []**os.File{&r.records, &r.index} {
		file, err := os.CreateTemp(dir, "datamove-record-")
		if err != nil {
			return nil, fmt.Errorf("room for the manifest: %w", err)
		}
		if err := os.Remove(file.Name()); err != nil {
			return nil, err
		}
		*f = file
	}
	return r, nil
}

// add keeps one result. What failed is not known to be there: it has no record.
func (r *recorder) add(res *transfer.Result) {
	if res.Err != nil || res.Seq < 0 {
		return
	}
	var b bytes.Buffer
	b.Write(make([]byte, 4))
	err := gob.NewEncoder(&b).Encode(fate{res.Entry, res.Op == plan.Remove})
	binary.LittleEndian.PutUint32(b.Bytes(), uint32(b.Len()-4))
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		_, err = r.records.WriteAt(b.Bytes(), r.end)
	}
	if err == nil {
		_, err = r.index.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(r.end)+1), 8*res.Seq)
	}
	if err != nil && r.err == nil {
		r.err = err
	}
	r.end += int64(b.Len())
	r.last = max(r.last, res.Seq)
	r.changed = r.changed || res.Op != plan.Keep
}

// all yields the records in the order of the plan.
func (r *recorder) all() iter.Seq2[fate, error] {
	return func(yield func(fate, error) bool) {
		if r.err != nil {
			yield(fate{}, r.err)
			return
		}
		at := make([]byte, 8)
		for seq := range r.last + 1 {
			if _, err := r.index.ReadAt(at, 8*seq); err != nil {
				yield(fate{}, err)
				return
			}
			off := int64(binary.LittleEndian.Uint64(at))
			if off == 0 {
				continue // nothing became of it
			}
			f, err := r.read(off - 1)
			if !yield(f, err) || err != nil {
				return
			}
		}
	}
}

func (r *recorder) read(off int64) (f fate, err error) {
	head := make([]byte, 4)
	if _, err := r.records.ReadAt(head, off); err != nil {
		return f, err
	}
	body := io.NewSectionReader(r.records, off+4, int64(binary.LittleEndian.Uint32(head)))
	return f, gob.NewDecoder(body).Decode(&f)
}

// Close gives the space back.
func (r *recorder) Close() error {
	_ = r.index.Close()
	return r.records.Close()
}
