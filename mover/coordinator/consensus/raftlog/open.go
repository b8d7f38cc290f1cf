package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

// Names in the directory.
const (
	segmentLine = "datamove raft log 1\n" // every segment begins with it
	draftName   = "segment.new"
	noteName    = "synced"
)

func segmentPath(dir string, first uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%020d.log", first))
}

// open reads what is there.
func (l *Log) open() (err error) {
	if l.synced, err = openNote(filepath.Join(l.dir, noteName)); err != nil {
		return err
	}
	paths, err := filepath.Glob(filepath.Join(l.dir, "*.log"))
	if err != nil {
		return err
	}
	slices.Sort(paths)
	for i, path := range paths {
		if err := l.scan(path, i == len(paths)-1); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(path), err)
		}
	}
	if len(l.segments) > 0 {
		l.first = l.segments[0].first
	}
	if least := l.synced.read(); l.last() < least {
		return fmt.Errorf("%w: it ends with entry %d, and entry %d was on stable storage", mover.ErrCorrupt, l.last(), least)
	}
	return nil
}

// scan reads a segment, which follows the one before.
func (l *Log) scan(path string, newest bool) error {
	s := &segment{size: int64(len(segmentLine))}
	if _, err := fmt.Sscanf(filepath.Base(path), "%d.log", &s.first); err != nil || s.first == 0 {
		return fmt.Errorf("%w: the name is of no segment", mover.ErrCorrupt)
	}
	var err error
	if s.file, err = os.OpenFile(path, os.O_RDWR, 0); err != nil {
		return err
	}
	l.segments = append(l.segments, s)
	if n := len(l.segments); n > 1 && l.segments[n-2].next() != s.first {
		return fmt.Errorf("%w: it follows entry %d", mover.ErrCorrupt, l.segments[n-2].next()-1)
	}
	line := make([]byte, len(segmentLine))
	if _, err := s.file.ReadAt(line, 0); err != nil || string(line) != segmentLine {
		return fmt.Errorf("%w: it begins otherwise, or a later version wrote it: %w", mover.ErrCorrupt, cut(err))
	}
	for {
		e, next, err := s.read(s.size)
		if err == nil && e.Index != s.next() {
			err = errNoEntry
		}
		if errors.Is(err, errNoEntry) {
			return s.end(newest)
		}
		if err != nil {
			return err
		}
		s.offsets = append(s.offsets, s.size)
		s.size = next
	}
}

// end cuts off what a StoreLogs that did not return has left behind the entries of the newest segment.
func (s *segment) end(newest bool) error {
	st, err := s.file.Stat()
	if err != nil || st.Size() == s.size {
		return err
	}
	if !newest {
		return fmt.Errorf("%w: entry %d is not what was written", mover.ErrCorrupt, s.next())
	}
	return errors.Join(s.file.Truncate(s.size), s.file.Sync())
}

// cut makes errNoEntry of the end of a file.
func cut(err error) error {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errNoEntry
	}
	return err
}

// full gives an error of a full disk its kind.
func full(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("%w: %w", mover.ErrFull, err)
	}
	return err
}

// note is the file with the index of the last entry that is known to be on stable storage. It is written after that and not
// synced itself, so it never says too much; a log that has less has lost something.
type note struct{ file *os.File }

func openNote(path string) (*note, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return &note{f}, nil
}

func (n *note) write(index uint64) error {
	b := binary.BigEndian.AppendUint64(nil, index)
	_, err := n.file.WriteAt(binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli)), 0)
	return err
}

// lower says less, on stable storage, before entries are removed.
func (n *note) lower(index uint64) error {
	if n.read() <= index {
		return nil
	}
	return errors.Join(n.write(index), n.file.Sync())
}

// read returns 0 where nothing is known: after a power cut the file may be torn.
func (n *note) read() uint64 {
	b := make([]byte, 12)
	if _, err := n.file.ReadAt(b, 0); err != nil || crc32.Checksum(b[:8], castagnoli) != binary.BigEndian.Uint32(b[8:]) {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

func (n *note) close() error {
	if n == nil {
		return nil
	}
	return n.file.Close()
}
