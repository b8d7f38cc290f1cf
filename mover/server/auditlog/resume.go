package auditlog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
)

// maxTorn bounds what an interrupted write leaves: one group, escaped.
const maxTorn = 6*groupBytes + 2*maxLine

// resume goes on behind the last whole line of the last file.
func (l *Log) resume(first uint64) error {
	f, err := openFile(l.dir, first, os.O_RDWR)
	if err != nil {
		return err
	}
	l.file, l.first = f, first
	c := chain{head: Head{Sequence: first - 1}, believes: first > 1}
	r := newReader(f, first)
	err = r.follow(context.Background(), &c, func(*Entry) error { return nil })
	l.size = r.end
	l.moveTo(c)
	if broken := (*Break)(nil); errors.As(err, &broken) && r.line > 1 {
		return l.cutOff(err)
	}
	return err
}

// cutOff takes a half-written end away, and puts a record of that in its place. It
// returns broken when the end is something else.
func (l *Log) cutOff(broken error) error {
	rest, err := io.ReadAll(io.NewSectionReader(l.file, l.size, maxTorn+1))
	if err != nil {
		return err
	}
	if !torn(rest) {
		return broken
	}
	c := l.chain
	cut := Entry{Kind: Cut, Time: l.o.now(), Bytes: int64(len(rest)), Digest: sha256.Sum256(rest)}
	c.number(&cut)
	line := appendEntry(nil, &cut)
	c.add(&cut)
	// Written over the rest before that is taken away: a kill in between leaves another
	// half-written end, and not an unnoticed one.
	if _, err := l.file.WriteAt(line, l.size); err != nil {
		return err
	}
	l.size += int64(len(line))
	if err := errors.Join(l.file.Truncate(l.size), l.o.datasync(l.file)); err != nil {
		return err
	}
	l.moveTo(c)
	l.o.Logger.Warn("a half-written end of the audit log was cut off", "dir", l.dir, "file", fileName(l.first), "bytes", cut.Bytes, "record", cut.Sequence)
	return nil
}

// torn decides whether the rest of a file behind its last whole line is what an
// interrupted write leaves: after a kill a part of one line, after a power cut also
// pages that never reached the disk and read as zeros. Lines have neither.
func torn(rest []byte) bool {
	return len(rest) <= maxTorn && (!bytes.ContainsRune(rest, '\n') || bytes.IndexByte(rest, 0) >= 0)
}
