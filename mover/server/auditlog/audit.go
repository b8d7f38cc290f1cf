// Package auditlog keeps an append-only, hash-chained log of decisions: the caller,
// the request, and whether it was allowed.
//
// It owns one directory and these words: a [Record] is one decision, as the server
// tells it. An [Entry] is one line of the log, with its position in the chain. A
// [Head] is the sequence and the hash of a line, which stands for all lines up to it.
// A [Break] is the first position where a log is not whole.
//
// # Format, version 1
//
// The files are audit-SEQUENCE.jsonl, with the sequence of their first line in twenty
// digits. A line is a JSON object in ASCII and ends in one newline. The first line of
// each file is a header, the others are decisions:
//
//	{"sequence":1,"kind":"header","time":"2026-01-02T03:04:05.000000006Z","previous":"00…","format":"datamove-audit","version":1,"chain":"9f…","hash":"5b…"}
//	{"sequence":2,"kind":"decision","time":"…","previous":"5b…","uid":1000,"actor":"ada","peer":"unix","method":"/datamove.v1.TaskService/SubmitTask","digest":"3c…","decision":"allow","hash":"e1…"}
//
// The fields are, in this order and without spaces: sequence, kind, time, previous;
// of a header format, version, chain; of a decision uid, actor, agent, peer, method,
// object, digest, locations, decision, code, reason; of a cut bytes, digest; and hash
// at the end of all. A field of a decision that says nothing is left out, but for
// decision, which is allow or deny.
//
// A sequence is one more than that of the line before, also over files; the first is
// 1. A time is UTC with nine digits of a second; it is what the clock said, so only
// the sequence is an order. Hashes and digests are SHA-256 in 64 lower hexadecimal
// digits. Previous is the hash of the line before, and 64 zeros in the first line. The
// chain is a random number of 32 digits, the same in all headers of a log.
//
// In texts the bytes 0x20 to 0x7e stand for themselves, but for \" and \\. Every other
// character is \uXXXX in lower hexadecimal digits, two of them above U+FFFF; bytes
// that are not UTF-8 are \ufffd each. So no name can forge a line, or a terminal. A
// text over 512 bytes is cut, and ends in an ellipsis then; so do locations over
// 16 KiB together. A line has at most 128 KiB.
//
// The hash of a line is that of its text without newline, from which ,"hash":"…" is
// taken out:
//
//	sed -n '7s/,"hash":"[0-9a-f]*"}$/}/p' FILE | tr -d '\n' | sha256sum
//
// The digest of a decision is that of the locations concerned, each followed by a NUL
// byte, before anything is cut. So a path leads to the decisions about it:
//
//	printf '%s\0' /data/run-7 /scratch/run-7 | sha256sum
//
// A cut says that the log was opened with an end that a kill or a power cut had left
// half written. It has the number of bytes that were cut off, and their digest. No caller of Append was
// told that such a line is recorded.
//
// # What it shows, and what not
//
// To change, remove, insert or reorder lines, a writer has to write all later ones
// anew. An account that can write in the directory can do that, or take away the end. So heads
// are sent elsewhere from time to time ([Log.Head]: to a log server, into a monthly
// mail, on paper), and [Verify] compares with them. A head that is known elsewhere
// fixes every line up to it. A log that was moved away file by file from its
// beginning is verified from the head of the last line that is gone.
//
// # Promises
//
//   - Concurrency: all methods of a [Log] may be called from many goroutines. Callers
//     that come at the same time share one write and one fdatasync. One process at a
//     time has a log open; a second gets mover.ErrHeld. Verify and Entries need no
//     lock and write nothing.
//   - After kill -9, and after a power cut unless Options.NoSync: every decision for
//     which Append has returned nil is there, and the chain goes on.
//   - A full disk is mover.ErrFull from Append, and nothing of the record is left;
//     callers then deny. A file that was changed, cut or removed underneath an open
//     log is mover.ErrChanged until it is opened again.
//   - No secrets: a record has no field for one, and what stands before the @ of an
//     address, or behind the ? of a URL, is never written.
//
// What is decided, and by what rules, is left to the service; so is sending heads
// away. TestTampering and FuzzTamper change logs in all these ways, TestKill kills a
// process, TestKillInside at each of its calls, TestDiskFull fills a disk, and testdata holds the
// format to this page.
package auditlog

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

// Options says how a log is kept.
type Options struct {
	RotateBytes   int64        // a file of this size is followed by a new one; 0 means 16 MiB
	Queue         int          // callers inside Append; more wait before it; 0 means 1024
	NoSync        bool         // Append returns before the disk has the record: a power cut may lose it
	KeepLocations bool         // the locations are written, too, not only their digest
	Logger        *slog.Logger // nil means no log

	now      func() time.Time     // nil asks the clock
	datasync func(*os.File) error // nil is fdatasync
	chain    string               // "" is random
}

// Log is an open audit log.
type Log struct {
	dir  string
	o    Options
	lock *os.File

	places chan struct{} // one for each caller inside Append

	// turn is held by the caller that writes. It guards what stands below it.
	turn   chan struct{}
	file   *os.File // the last one
	first  uint64   // its first sequence
	size   int64    // up to the end of the last whole line
	chain  chain
	text   []byte // of a group
	failed error  // the file can not be trusted any more
	closed bool

	// mu guards what stands below it.
	mu    sync.Mutex
	queue []*waiter
	head  Head // what is recorded, and durable as far as the options ask for it
}

// Open opens the log in dir, or makes one. It verifies the last file; Verify looks
// at all of them. An end that was left half written is cut off and that is recorded;
// every other damage is a *Break, and nothing is touched.
func Open(dir string, o Options) (*Log, error) {
	o.RotateBytes = cmp.Or(o.RotateBytes, 16<<20)
	o.Queue = cmp.Or(o.Queue, 1024)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.now == nil {
		o.now = time.Now
	}
	if o.datasync == nil {
		o.datasync = datasync
	}
	l, err := open(filepath.Clean(dir), o)
	if err != nil {
		return nil, failure("open", dir, err)
	}
	return l, nil
}

func open(dir string, o Options) (*Log, error) {
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	lock, err := acquire(dir)
	if err != nil {
		return nil, err
	}
	l := &Log{dir: dir, o: o, lock: lock, places: make(chan struct{}, o.Queue), turn: make(chan struct{}, 1)}
	if err := l.load(); err != nil {
		if l.file != nil {
			_ = l.file.Close()
		}
		return nil, errors.Join(err, lock.Close())
	}
	return l, nil
}

// load goes on with the last file, or begins the first one.
func (l *Log) load() error {
	files, err := list(l.dir)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return l.begin()
	}
	return l.resume(files[len(files)-1])
}

// Head returns the last record. A copy of it that is kept elsewhere shows later whether
// everything up to it is still there.
func (l *Log) Head() Head {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head
}

// Rotate begins a new file, so that the one before can be moved away. A file that
// has no decisions stays the last one.
func (l *Log) Rotate() error {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	err := l.failed
	if err == nil && l.chain.head.Sequence > l.first {
		err = l.begin()
	}
	return failure("rotate", l.dir, err)
}

// Close ends the use of the log. What is still queued is refused.
func (l *Log) Close() error {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	if l.closed {
		return nil
	}
	l.closed, l.failed = true, fs.ErrClosed
	return failure("close", l.dir, errors.Join(l.file.Close(), l.lock.Close()))
}

func datasync(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return err
		}
	}
}

// failure says what failed with the log in dir.
func failure(op, dir string, err error) error {
	if err == nil {
		return nil
	}
	if at := (*fs.PathError)(nil); errors.As(err, &at) && at.Path == dir {
		err = at.Err // the place is said once
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		err = fmt.Errorf("%w: %w", mover.ErrFull, err)
	}
	return &mover.Error{Op: op + " audit log", Location: dir, Err: err}
}
