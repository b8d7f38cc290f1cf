package transfer

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"io"
	"os"
	"sync"

	"datamove.dev/mover/engine/plan"
)

// spoolChunk is how many items are written, and held in memory, at once.
const spoolChunk = 512

// spool keeps items on disk until their time comes, to be read forwards or
// backwards. Memory: one chunk, and 8 bytes for each chunk on disk. The file has no
// name, so nothing is left behind.
type spool struct {
	dir string

	mu     sync.Mutex
	items  []item   // the last chunk; guarded by mu, as all below
	file   *os.File // nil while one chunk is enough
	ends   []int64  // of the chunks on disk
	length int64
}

// spooled is an item as it is written.
type spooled struct {
	Seq    int64
	Action plan.Action
	Tries  int
}

func (s *spool) add(it item) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items = append(s.items, it)
	s.length++
	if len(s.items) < spoolChunk {
		return nil
	}
	if err := s.write(); err != nil {
		return fmt.Errorf("keep what comes last in %s: %w", s.dir, err)
	}
	return nil
}

// write appends the chunk in memory to the file.
func (s *spool) write() (err error) {
	if s.file == nil {
		if s.file, err = AnonymousFile(s.dir); err != nil {
			return err
		}
	}
	out := make([]spooled, len(s.items))
	for i, it := range s.items {
		out[i] = spooled{it.seq, it.Action, it.tries}
	}
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(out); err != nil {
		return err
	}
	if _, err := s.file.WriteAt(b.Bytes(), s.end()); err != nil {
		return err
	}
	s.ends = append(s.ends, s.end()+int64(b.Len()))
	s.items = s.items[:0]
	return nil
}

func (s *spool) end() int64 {
	if len(s.ends) == 0 {
		return 0
	}
	return s.ends[len(s.ends)-1]
}

func (s *spool) len() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.length
}

// each calls do for chunks of the items, in order or, backwards, in reverse order.
func (s *spool) each(backwards bool, do func([]item) error) error {
	n := len(s.ends) + 1
	for i := range n {
		if backwards {
			i = n - 1 - i
		}
		chunk, err := s.chunk(i)
		if err != nil {
			return err
		}
		if backwards {
			for a, b := 0, len(chunk)-1; a < b; a, b = a+1, b-1 {
				chunk[a], chunk[b] = chunk[b], chunk[a]
			}
		}
		if err := do(chunk); err != nil {
			return err
		}
	}
	return nil
}

func (s *spool) chunk(i int) ([]item, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i == len(s.ends) {
		return append([]item(nil), s.items...), nil
	}
	start := int64(0)
	if i > 0 {
		start = s.ends[i-1]
	}
	var in []spooled
	if err := gob.NewDecoder(io.NewSectionReader(s.file, start, s.ends[i]-start)).Decode(&in); err != nil {
		return nil, fmt.Errorf("read back what comes last: %w", err)
	}
	items := make([]item, len(in))
	for j, sp := range in {
		items[j] = item{seq: sp.Seq, Action: sp.Action, tries: sp.Tries}
	}
	return items, nil
}

// Close gives the space back.
func (s *spool) Close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}
