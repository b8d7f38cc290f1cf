// Package spool keeps items on disk until their time comes: what a run does last may be as much as there are entries, and has no room in memory.
//
// A spool is a file without a name in a directory: nothing is left of it after a crash, and nothing has to be removed. Add may be called from many goroutines.
// Errors are those of the file system, with the directory in them. TestOrder shows it.
package spool

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
)

// chunkItems is how many items are written, and held in memory, at once.
const chunkItems = 512

// Of keeps items on disk until their time comes, to be read forwards or
// backwards. Memory: one chunk, and 8 bytes for each chunk on disk. The file has no
// name, so nothing is left behind. What gob encodes of an item is what comes back. It is read and closed when
// nothing is added any more.
type Of[T any] struct {
	dir string

	mu     sync.Mutex
	items  []T      // the last chunk; guarded by mu, as all below
	file   *os.File // nil while one chunk is enough
	ends   []int64  // of the chunks on disk
	length int64
}

// New makes one with its file in a directory; there is none before a chunk is full.
func New[T any](dir string) *Of[T] { return &Of[T]{dir: dir} }

// Add keeps an item.
func (s *Of[T]) Add(it T) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items = append(s.items, it)
	s.length++
	if len(s.items) < chunkItems {
		return nil
	}
	if err := s.write(); err != nil {
		return fmt.Errorf("keep what comes last in %s: %w", s.dir, err)
	}
	return nil
}

// write appends the chunk in memory to the file.
func (s *Of[T]) write() (err error) {
	if s.file == nil {
		if s.file, err = AnonymousFile(s.dir); err != nil {
			return err
		}
	}
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(s.items); err != nil {
		return err
	}
	if _, err := s.file.WriteAt(b.Bytes(), s.end()); err != nil {
		return err
	}
	s.ends = append(s.ends, s.end()+int64(b.Len()))
	s.items = s.items[:0]
	return nil
}

func (s *Of[T]) end() int64 {
	if len(s.ends) == 0 {
		return 0
	}
	return s.ends[len(s.ends)-1]
}

// Len is how many items there are.
func (s *Of[T]) Len() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.length
}

// Each calls do for chunks of the items, in order or, backwards, in reverse order.
func (s *Of[T]) Each(backwards bool, do func([]T) error) error {
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
			slices.Reverse(chunk)
		}
		if err := do(chunk); err != nil {
			return err
		}
	}
	return nil
}

func (s *Of[T]) chunk(i int) ([]T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i == len(s.ends) {
		return slices.Clone(s.items), nil
	}
	start := int64(0)
	if i > 0 {
		start = s.ends[i-1]
	}
	var items []T
	if err := gob.NewDecoder(io.NewSectionReader(s.file, start, s.ends[i]-start)).Decode(&items); err != nil {
		return nil, fmt.Errorf("read back what comes last: %w", err)
	}
	return items, nil
}

// Close gives the space back.
func (s *Of[T]) Close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}
