package engine

import (
	"bytes"
	"container/heap"
	"encoding/gob"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"sync"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/spool"
	"datamove.dev/mover/engine/transfer"
)

// runRecords are held and sorted in memory; blockRecords are written, and read, at once.
const (
	runRecords   = 4096
	blockRecords = 512
)

// recorder keeps on disk what became of each entry until the manifest is written,
// which needs the order of names. Results come in the order in which work ends:
// they are sorted in runs, in a nameless file, and the runs are merged. Most runs lie
// one behind the other, so few are read at once, and memory does not grow with
// their number.
type recorder struct {
	twins bool // the target can have a file and a directory of one name

	mu      sync.Mutex
	file    *os.File
	size    int64
	fates   []fate // the last run, as it came; guarded by mu, as all here
	runs    []sorted
	changed bool // something is not as the last manifest says
	err     error
}

// fate is one record: what an entry became.
type fate struct {
	Entry   mover.Entry
	Removed bool
}

// sorted is a run on disk.
type sorted struct {
	age    int // of two fates of one entry, that of the higher one came later
	first  fate
	blocks []span
}

// span is where a block is in the file.
type span struct{ off, size int64 }

func newRecorder(dir string, twins bool) (*recorder, error) {
	file, err := spool.AnonymousFile(dir)
	if err != nil {
		return nil, fmt.Errorf("room for the manifest: %w", err)
	}
	return &recorder{file: file, twins: twins}, nil
}

// add keeps one result. What failed is not known to be there: it has no record.
func (r *recorder) add(res *transfer.Result) {
	if res.Err != nil || res.Seq < 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed = r.changed || res.Op != plan.Keep
	r.put(fate{res.Entry, res.Op == plan.Remove})
	if res.Op == plan.Create && res.Entry.Kind == mover.Dir && !r.twins { // a file of its name has given way
		r.put(fate{mover.Entry{Name: res.Entry.Name, Kind: mover.File}, true})
	}
}

// put keeps a fate; mu is held. The first error is told when the manifest is written.
func (r *recorder) put(f fate) {
	r.fates = append(r.fates, f)
	if len(r.fates) >= runRecords && r.err == nil {
		r.err = r.spill()
	}
}

// spill brings a run to the disk. Of several fates of one entry the last one counts.
func (r *recorder) spill() error {
	if len(r.fates) == 0 {
		return nil
	}
	slices.Reverse(r.fates)
	slices.SortStableFunc(r.fates, compareFates)
	fates := slices.CompactFunc(r.fates, func(a, b fate) bool { return compareFates(a, b) == 0 })
	run := sorted{age: len(r.runs), first: fate{Entry: mover.Entry{Name: fates[0].Entry.Name, Kind: fates[0].Entry.Kind}}}
	for block := range slices.Chunk(fates, blockRecords) {
		var b bytes.Buffer
		if err := gob.NewEncoder(&b).Encode(block); err != nil {
			return err
		}
		if _, err := r.file.WriteAt(b.Bytes(), r.size); err != nil {
			return err
		}
		run.blocks = append(run.blocks, span{r.size, int64(b.Len())})
		r.size += int64(b.Len())
	}
	r.runs = append(r.runs, run)
	clear(r.fates)
	r.fates = r.fates[:0]
	return nil
}

func compareFates(a, b fate) int { return mover.Compare(&a.Entry, &b.Entry) }

// all yields the last fate of each entry, in the order of mover.Compare. Nothing is
// added any more.
func (r *recorder) all() iter.Seq2[fate, error] {
	return func(yield func(fate, error) bool) {
		runs, err := r.sorted()
		if err != nil {
			yield(fate{}, err)
			return
		}
		var open cursors
		for before := (*fate)(nil); len(runs) > 0 || len(open) > 0; {
			if len(open) == 0 || len(runs) > 0 && compareFates(runs[0].first, open[0].head()) <= 0 {
				c := &cursor{file: r.file, sorted: runs[0]}
				runs = runs[1:]
				if err = c.next(); err == nil {
					heap.Push(&open, c)
				}
			} else {
				f := open[0].head()
				if (before == nil || compareFates(*before, f) != 0) && !yield(f, nil) {
					return
				}
				before = &f
				err = open.next()
			}
			if err != nil {
				yield(fate{}, err)
				return
			}
		}
	}
}

// sorted returns all runs by their first fate.
func (r *recorder) sorted() ([]sorted, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = r.spill()
	}
	runs := slices.Clone(r.runs)
	slices.SortFunc(runs, func(a, b sorted) int { return compareFates(a.first, b.first) })
	return runs, r.err
}

// cursor reads a run.
type cursor struct {
	file io.ReaderAt
	sorted
	fates []fate // of the block that is being read
}

func (c *cursor) head() fate { return c.fates[0] }

// next goes to the next fate; after the last one there are none.
func (c *cursor) next() error {
	if len(c.fates) > 1 || len(c.blocks) == 0 {
		c.fates = c.fates[1:]
		return nil
	}
	at := c.blocks[0]
	c.blocks, c.fates = c.blocks[1:], nil
	return gob.NewDecoder(io.NewSectionReader(c.file, at.off, at.size)).Decode(&c.fates)
}

// cursors is a heap: the smallest fate, and of equal ones the newest, comes first.
type cursors []*cursor

func (h cursors) Len() int      { return len(h) }
func (h cursors) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *cursors) Push(c any)   { *h = append(*h, c.(*cursor)) }
func (h cursors) Less(i, j int) bool {
	if c := compareFates(h[i].head(), h[j].head()); c != 0 {
		return c < 0
	}
	return h[i].age > h[j].age
}

func (h *cursors) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// next moves the first cursor on.
func (h *cursors) next() error {
	c := (*h)[0]
	if err := c.next(); err != nil {
		return err
	}
	if len(c.fates) == 0 {
		heap.Pop(h)
	} else {
		heap.Fix(h, 0)
	}
	return nil
}

// Close gives the space back.
func (r *recorder) Close() error { return r.file.Close() }
