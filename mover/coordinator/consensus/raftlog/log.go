// Package raftlog keeps the entries and the votes of one member of a Raft cluster on its disk.
//
// It owns one directory. A [Log] is a raft.LogStore: segments, which are files of entries, each with its length and a
// CRC-32C before it. A [Stable] is a raft.StableStore: one file with two slots, which are written by turns.
//
// Promises:
//
//   - Concurrency: everything may be called from many goroutines. Entries can be read while others are stored.
//   - After a kill or a power cut: every entry is there for which StoreLogs returned, and every value for which Set did.
//     Entries of a StoreLogs that did not return are there as a first part of them, or not at all: a torn tail is cut off.
//   - A full disk is mover.ErrFull, and leaves the log as it was. Votes need no room after the first one.
//   - Damage is found at Open, as mover.ErrCorrupt: an entry before the tail that is not what was written, and a log
//     that ends before an entry that was on stable storage.
//   - A sync that failed leaves the disk in a state that is unknown: the log takes nothing more.
//
// What entries mean is left to package consensus. TestTornTail, TestDamage, TestModel and TestFullDisk show the promises.
package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"datamove.dev/mover"
	"datamove.dev/mover/atomicfile"
)

// segmentBytes is about how large a segment gets. Entries are removed by whole segments.
const segmentBytes = 8 << 20

// entryBytes bounds an entry; what says to be larger is damage.
const entryBytes = 64 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Log is an open log. Its entries have consecutive indexes. It is no raft.MonotonicLogStore: of one, Raft 1.8 removes all entries when it gets a snapshot, also
// those behind the snapshot, and then takes itself to have them. TestOldSnapshot of package consensus shows it. StoreLogs does what a gap asks for.
type Log struct {
	dir     string
	segment int64 // bytes of a segment
	synced  *note

	writing sync.Mutex // is held by what changes the files; no one waits for mu meanwhile
	broken  error      // a sync has failed; guarded by writing

	mu       sync.RWMutex // guards all below
	first    uint64       // of the entries; those of the first segment before it are removed
	segments []*segment   // in order; the last one grows
}

// segment is a file with entries, the first of which gives it its name.
type segment struct {
	file    *os.File
	first   uint64
	offsets []int64 // of its entries
	size    int64
}

// next is the index of the entry that comes after the segment.
func (s *segment) next() uint64 { return s.first + uint64(len(s.offsets)) }

// Open opens or makes the log in a directory, which exists and is locked by the caller.
func Open(dir string) (*Log, error) {
	l := &Log{dir: dir, segment: segmentBytes}
	if err := l.open(); err != nil {
		return nil, errors.Join(failed("open", dir, err), l.Close())
	}
	return l, nil
}

// FirstIndex is the index of the first entry, 0 for no entries.
func (l *Log) FirstIndex() (uint64, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.last() < l.first {
		return 0, nil
	}
	return l.first, nil
}

// LastIndex is the index of the last entry, 0 for no entries.
func (l *Log) LastIndex() (uint64, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.last() < l.first {
		return 0, nil
	}
	return l.last(), nil
}

// last is the index of the last entry; less than first for no entries. The caller holds mu or writing.
func (l *Log) last() uint64 {
	if len(l.segments) == 0 {
		return 0
	}
	return l.segments[len(l.segments)-1].next() - 1
}

// GetLog reads an entry.
func (l *Log) GetLog(index uint64, into *raft.Log) error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if index < l.first || index > l.last() {
		return raft.ErrLogNotFound
	}
	i := slices.IndexFunc(l.segments, func(s *segment) bool { return index < s.next() })
	s := l.segments[i]
	entry, _, err := s.read(s.offsets[index-s.first])
	if err == nil && entry.Index != index {
		err = fmt.Errorf("%w: entry %d is where %d was", mover.ErrCorrupt, entry.Index, index)
	}
	if err != nil {
		return failed("read", s.file.Name(), err)
	}
	*into = *entry
	return nil
}

// StoreLog stores one entry.
func (l *Log) StoreLog(entry *raft.Log) error { return l.StoreLogs([]*raft.Log{entry}) }

// StoreLogs returns when entries are on stable storage, after all others. Entries that leave out some take the place of the
// log: a snapshot has what was before them.
func (l *Log) StoreLogs(entries []*raft.Log) error {
	if len(entries) == 0 {
		return nil
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.store(entries); err != nil {
		return failed("append to", l.dir, err)
	}
	return nil
}

func (l *Log) store(entries []*raft.Log) error {
	if l.broken != nil {
		return l.broken
	}
	begin := entries[0].Index
	for i, e := range entries {
		if e.Index != begin+uint64(i) {
			return fmt.Errorf("%w: entry %d where %d is next", mover.ErrConflict, e.Index, begin+uint64(i))
		}
	}
	if len(l.segments) > 0 && begin < l.last()+1 {
		return fmt.Errorf("%w: entry %d where %d is next", mover.ErrConflict, begin, l.last()+1)
	}
	if len(l.segments) > 0 && begin > l.last()+1 {
		if err := l.cutAfter(0); err != nil {
			return err
		}
	}
	if n := len(l.segments); n == 0 || l.segments[n-1].size >= l.segment {
		if err := l.grow(begin); err != nil {
			return err
		}
	}
	return l.append(l.segments[len(l.segments)-1], entries)
}

// append writes entries behind a segment with one sync.
func (l *Log) append(s *segment, entries []*raft.Log) error {
	var text []byte
	offsets := make([]int64, 0, len(entries))
	for _, e := range entries {
		offsets = append(offsets, s.size+int64(len(text)))
		text = appendEntry(text, e)
	}
	if _, err := s.file.WriteAt(text, s.size); err != nil {
		return errors.Join(err, l.breaks(s.file.Truncate(s.size)))
	}
	if err := l.breaks(s.file.Sync()); err != nil {
		return err
	}
	l.mu.Lock()
	s.offsets = append(s.offsets, offsets...)
	s.size += int64(len(text))
	l.mu.Unlock()
	return l.breaks(l.synced.write(l.last()))
}

// breaks ends the use of the log for an error after which its files may be anything.
func (l *Log) breaks(err error) error {
	if err != nil && l.broken == nil {
		l.broken = fmt.Errorf("the log of the cluster can not be synced; end the service and see to its disk: %w", err)
	}
	return err
}

// grow begins a segment.
func (l *Log) grow(first uint64) error {
	path := segmentPath(l.dir, first)
	if err := atomicfile.Write(path, []byte(segmentLine), atomicfile.Options{Draft: draftName}); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.segments) == 0 {
		l.first = first
	}
	l.segments = append(l.segments, &segment{file: file, first: first, size: int64(len(segmentLine))})
	return nil
}

// DeleteRange removes the entries from one to another, which are the first ones, or the last ones, or all.
func (l *Log) DeleteRange(from, to uint64) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.remove(from, to); err != nil {
		return failed("remove entries from", l.dir, err)
	}
	return nil
}

func (l *Log) remove(from, to uint64) error {
	first, last := l.first, l.last()
	switch {
	case l.broken != nil:
		return l.broken
	case last < first || to < first || from > last || from > to:
		return nil
	case to >= last && from <= first:
		return l.cutAfter(0)
	case to >= last:
		return l.cutAfter(from - 1)
	case from <= first:
		return l.cutBefore(to + 1)
	}
	return fmt.Errorf("%w: entries %d to %d of %d to %d", mover.ErrUsage, from, to, first, last)
}

// cutAfter removes all entries behind one; 0 removes all. The newest go first, so that what a kill leaves has no gap.
func (l *Log) cutAfter(index uint64) error {
	if err := l.breaks(l.synced.lower(index)); err != nil {
		return err
	}
	for len(l.segments) > 0 {
		s := l.segments[len(l.segments)-1]
		if index >= s.first {
			return l.breaks(l.shorten(s, index))
		}
		l.mu.Lock()
		l.segments = l.segments[:len(l.segments)-1]
		l.mu.Unlock()
		if err := s.drop(); err != nil {
			return l.breaks(err)
		}
	}
	return l.breaks(atomicfile.SyncDir(l.dir))
}

// shorten cuts off what a segment has behind an entry.
func (l *Log) shorten(s *segment, index uint64) error {
	keep := index + 1 - s.first
	if keep >= uint64(len(s.offsets)) {
		return atomicfile.SyncDir(l.dir)
	}
	l.mu.Lock()
	s.size, s.offsets = s.offsets[keep], s.offsets[:keep]
	l.mu.Unlock()
	return errors.Join(s.file.Truncate(s.size), s.file.Sync(), atomicfile.SyncDir(l.dir))
}

// cutBefore removes the entries before one. Their segments go when all of a segment is removed; after a restart the others are there again.
func (l *Log) cutBefore(index uint64) error {
	l.mu.Lock()
	l.first = index
	var gone []*segment
	for len(l.segments) > 1 && l.segments[0].next() <= index {
		gone, l.segments = append(gone, l.segments[0]), l.segments[1:]
	}
	l.mu.Unlock()
	for _, s := range gone {
		if err := s.drop(); err != nil {
			return err
		}
	}
	return nil
}

// drop removes the file of a segment.
func (s *segment) drop() error { return errors.Join(s.file.Close(), os.Remove(s.file.Name())) }

// Close ends the use of the log.
func (l *Log) Close() (err error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.segments {
		err = errors.Join(err, s.file.Close())
	}
	l.segments, l.broken = nil, os.ErrClosed
	return errors.Join(err, l.synced.close())
}

// appendEntry appends an entry as it stands in a segment.
func appendEntry(b []byte, e *raft.Log) []byte {
	begin := len(b)
	b = append(b, make([]byte, 8)...)
	b = binary.BigEndian.AppendUint64(b, e.Index)
	b = binary.BigEndian.AppendUint64(b, e.Term)
	b = append(b, byte(e.Type))
	b = binary.BigEndian.AppendUint64(b, uint64(e.AppendedAt.UnixNano()))
	b = binary.BigEndian.AppendUint32(b, uint32(len(e.Extensions)))
	b = append(append(b, e.Extensions...), e.Data...)
	binary.BigEndian.PutUint32(b[begin:], uint32(len(b)-begin-8))
	binary.BigEndian.PutUint32(b[begin+4:], entrySum(b[begin:begin+4], b[begin+8:]))
	return b
}

// entryHead is how long an entry without data is.
const entryHead = 8 + 8 + 1 + 8 + 4

// entrySum is the checksum of an entry with its length.
func entrySum(length, text []byte) uint32 {
	return crc32.Update(crc32.Checksum(length, castagnoli), castagnoli, text)
}

// parseEntry is the inverse of appendEntry, without length and checksum.
func parseEntry(b []byte) (*raft.Log, error) {
	n := uint64(0)
	if len(b) >= entryHead {
		n = uint64(binary.BigEndian.Uint32(b[25:]))
	}
	if len(b) < entryHead || uint64(len(b)) < entryHead+n {
		return nil, errNoEntry
	}
	e := &raft.Log{Index: binary.BigEndian.Uint64(b), Term: binary.BigEndian.Uint64(b[8:]), Type: raft.LogType(b[16]), AppendedAt: time.Unix(0, int64(binary.BigEndian.Uint64(b[17:])))}
	if n > 0 {
		e.Extensions = b[entryHead : entryHead+n]
	}
	e.Data = b[entryHead+n:]
	return e, nil
}

// errNoEntry: what is at a place is no entry, or a part of one.
var errNoEntry = fmt.Errorf("%w: no entry, or a part of one", mover.ErrCorrupt)

// read reads the entry at an offset, and where the next one is.
func (s *segment) read(offset int64) (*raft.Log, int64, error) {
	var head [8]byte
	if _, err := s.file.ReadAt(head[:], offset); err != nil {
		return nil, 0, cut(err)
	}
	n := binary.BigEndian.Uint32(head[:])
	if n < entryHead || n > entryBytes {
		return nil, 0, errNoEntry
	}
	text := make([]byte, n)
	if _, err := s.file.ReadAt(text, offset+8); err != nil {
		return nil, 0, cut(err)
	}
	if entrySum(head[:4], text) != binary.BigEndian.Uint32(head[4:]) {
		return nil, 0, errNoEntry
	}
	e, err := parseEntry(text)
	return e, offset + 8 + int64(n), err
}

// failed says what failed with a file.
func failed(op, path string, err error) error {
	return &mover.Error{Op: op + " the log of the cluster", Location: filepath.Clean(path), Err: full(err)}
}
