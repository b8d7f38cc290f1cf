package raftlog

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"sync"

	"datamove.dev/mover"
	"datamove.dev/mover/atomicfile"
)

// Stable keeps a few values: the term of a member, and its vote.
type Stable struct {
	mu     sync.Mutex // guards all below
	file   *os.File
	turn   uint64 // of the last write; odd ones are in the second slot
	values map[string][]byte
	broken error // a write has failed
}

const (
	stableName = "vote"
	slotBytes  = 4 << 10
	slotHead   = 8 + 4 + 4 // turn, length, checksum of the slot without it
)

// OpenStable opens or makes the values in a directory.
func OpenStable(dir string) (*Stable, error) {
	path := filepath.Join(dir, stableName)
	s, err := openStable(path)
	if err != nil {
		return nil, failed("open", path, err)
	}
	return s, nil
}

func openStable(path string) (*Stable, error) {
	_, err := os.Stat(path)
	if errors.Is(err, mover.ErrNotExist) {
		err = atomicfile.Write(path, make([]byte, 2*slotBytes), atomicfile.Options{Draft: stableName + ".new"})
	}
	if err != nil {
		return nil, err
	}
	s := &Stable{values: map[string][]byte{}}
	if s.file, err = os.OpenFile(path, os.O_RDWR, 0); err != nil {
		return nil, err
	}
	if err := s.load(); err != nil {
		return nil, errors.Join(err, s.file.Close())
	}
	return s, nil
}

// load takes the newer one of the two slots. One may be torn, by a write that did not return; not both.
func (s *Stable) load() error {
	text := make([]byte, 2*slotBytes)
	if _, err := s.file.ReadAt(text, 0); err != nil {
		return fmt.Errorf("%w: it is cut off: %w", mover.ErrCorrupt, err)
	}
	written := 0
	for i := range uint64(2) {
		slot := text[i*slotBytes : (i+1)*slotBytes]
		turn, n := binary.BigEndian.Uint64(slot), binary.BigEndian.Uint32(slot[8:])
		if turn == 0 && n == 0 && binary.BigEndian.Uint32(slot[12:]) == 0 {
			continue
		}
		written++
		if turn%2 != i || n > slotBytes-slotHead || slotSum(slot[:12], slot[slotHead:slotHead+n]) != binary.BigEndian.Uint32(slot[12:]) || turn < s.turn {
			continue
		}
		values := map[string][]byte{}
		if err := json.Unmarshal(slot[slotHead:slotHead+n], &values); err != nil {
			return fmt.Errorf("%w: %w", mover.ErrCorrupt, err)
		}
		s.turn, s.values = turn, values
	}
	if s.turn == 0 && written > 1 {
		return fmt.Errorf("%w: the term and the vote of this member are lost", mover.ErrCorrupt)
	}
	return nil
}

func slotSum(head, text []byte) uint32 {
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, text)
}

// Set returns when a value is on stable storage.
func (s *Stable) Set(key, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return s.broken
	}
	values := maps.Clone(s.values)
	values[string(key)] = append([]byte(nil), value...)
	text, err := json.Marshal(values)
	if err != nil {
		return err
	}
	if len(text) > slotBytes-slotHead {
		return fmt.Errorf("%w: values of %d bytes, where %d is the most", mover.ErrUsage, len(text), slotBytes-slotHead)
	}
	turn := s.turn + 1
	slot := binary.BigEndian.AppendUint64(nil, turn)
	slot = binary.BigEndian.AppendUint32(slot, uint32(len(text)))
	slot = binary.BigEndian.AppendUint32(slot, slotSum(slot, text))
	slot = append(slot, text...)
	_, err = s.file.WriteAt(slot, int64(turn%2)*slotBytes)
	if err = errors.Join(err, s.file.Sync()); err != nil {
		s.broken = failed("write to", s.file.Name(), err)
		return s.broken
	}
	s.turn, s.values = turn, values
	return nil
}

// Get returns a value, nil for none.
func (s *Stable) Get(key []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values[string(key)], nil
}

// SetUint64 is Set for a number.
func (s *Stable) SetUint64(key []byte, n uint64) error {
	return s.Set(key, binary.BigEndian.AppendUint64(nil, n))
}

// GetUint64 returns a number, 0 for none.
func (s *Stable) GetUint64(key []byte) (uint64, error) {
	b, err := s.Get(key)
	if err != nil || len(b) != 8 {
		return 0, err
	}
	return binary.BigEndian.Uint64(b), nil
}

// Close ends the use of the values.
func (s *Stable) Close() error { return s.file.Close() }
