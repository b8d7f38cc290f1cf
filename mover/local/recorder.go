package local

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"fmt"
	"io"
	"iter"
	"os"
	"sync"

	"datamove.dev/mover"
	"datamove.dev/mover/plan"
	"datamove.dev/mover/transfer"
)

// recordChunk is how many records are written, and read, at once; openChunks how
// many of them are held while the manifest is written. Results come nearly in
// the order of the plan, so a few are enough.
const (
	recordChunk = 512
	openChunks  = 16
)

// recorder keeps on disk what became of each action until the manifest is
// written: results come in any order, and the manifest needs the order of the plan.
// It has two nameless files: the records in chunks, and for each place in the plan
// where its record is. Memory does not grow with their number.
type recorder struct {
	mu      sync.Mutex
	records *os.File
	index   *os.File
	chunk   []fate  // the last one; guarded by mu, as all below
	ends    []int64 // of the chunks on disk
	last    int64   // the highest place in the plan
	changed bool    // something is not as the last manifest says
	err     error
}

// fate is one record: what an entry became.
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
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = max(r.last, res.Seq)
	r.changed = r.changed || res.Op != plan.Keep
	r.note(r.put(res.Seq, fate{res.Entry, res.Op == plan.Remove}))
}

// note keeps the first error until the manifest is to be written.
func (r *recorder) note(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *recorder) put(seq int64, f fate) error {
	at := uint64(len(r.ends)*recordChunk + len(r.chunk) + 1) // 0 is none
	r.chunk = append(r.chunk, f)
	if _, err := r.index.WriteAt(binary.LittleEndian.AppendUint64(nil, at), 8*seq); err != nil {
		return err
	}
	if len(r.chunk) < recordChunk {
		return nil
	}
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(r.chunk); err != nil {
		return err
	}
	if _, err := r.records.WriteAt(b.Bytes(), r.end()); err != nil {
		return err
	}
	r.ends = append(r.ends, r.end()+int64(b.Len()))
	r.chunk = r.chunk[:0]
	return nil
}

func (r *recorder) end() int64 {
	if len(r.ends) == 0 {
		return 0
	}
	return r.ends[len(r.ends)-1]
}

// all yields the records in the order of the plan. Nothing is added any more.
func (r *recorder) all() iter.Seq2[fate, error] {
	return func(yield func(fate, error) bool) {
		if r.err != nil {
			yield(fate{}, r.err)
			return
		}
		open := chunks{of: r, held: map[int][]fate{}}
		at := make([]byte, 8)
		index := bufio.NewReader(io.NewSectionReader(r.index, 0, 8*(r.last+1)))
		for range r.last + 1 {
			if _, err := io.ReadFull(index, at); err != nil {
				yield(fate{}, err)
				return
			}
			i := int(binary.LittleEndian.Uint64(at))
			if i == 0 {
				continue // nothing became of it
			}
			f, err := open.get(i - 1)
			if !yield(f, err) || err != nil {
				return
			}
		}
	}
}

// chunks holds the chunks that were read last.
type chunks struct {
	of    *recorder
	held  map[int][]fate
	order []int // of held, oldest first
}

func (c *chunks) get(i int) (fate, error) {
	n := i / recordChunk
	if n == len(c.of.ends) {
		return c.of.chunk[i%recordChunk], nil
	}
	if _, ok := c.held[n]; !ok {
		if err := c.read(n); err != nil {
			return fate{}, err
		}
	}
	return c.held[n][i%recordChunk], nil
}

func (c *chunks) read(n int) error {
	start := int64(0)
	if n > 0 {
		start = c.of.ends[n-1]
	}
	var chunk []fate
	if err := gob.NewDecoder(io.NewSectionReader(c.of.records, start, c.of.ends[n]-start)).Decode(&chunk); err != nil {
		return err
	}
	if len(c.order) == openChunks {
		delete(c.held, c.order[0])
		c.order = c.order[1:]
	}
	c.held[n], c.order = chunk, append(c.order, n)
	return nil
}

// Close gives the space back.
func (r *recorder) Close() error {
	_ = r.index.Close()
	return r.records.Close()
}
