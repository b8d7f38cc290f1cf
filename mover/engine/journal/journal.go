// Package journal remembers what one task has already done on this host, so that
// the same command goes on after a crash instead of starting anew.
//
// It owns one directory per task, with a Badger store in it, and these words: a
// [Record] is one draft that was begun and is not yet published; a part of it is
// done when its [mover.Receipt] is recorded; a batch is a list of small finished
// drafts that is staged in one write. What an earlier run recorded and did not
// clear is left, and found by [Journal.Lookup] and [Journal.Left].
//
// Promises:
//
//   - Concurrency: all methods may be called from many goroutines. One process at
//     a time has a journal open; a second gets mover.ErrHeld.
//   - After kill -9: whatever a method has returned for is there when the journal
//     is opened again. Writes go to a shared mapping of a file, so they outlive the
//     process without an fsync.
//   - After a power cut (the kernel's boot id is another one), and when the target has
//     been mounted anew (its disk may have been gone for a while): a draft counts only up
//     to its last [Journal.Durable], staged drafts and completions not at all, unless
//     Options.KeepOnReboot says that the target does not forget. A Clear may be forgotten:
//     the token of such a record no longer exists at the target.
//   - A damaged journal is moved aside with a warning and work starts anew; it
//     only ever costs time, because targets recognise drafts by their names.
//
// What the tokens and receipts mean is left to the places, when to record and
// clear to transfer. A journal is not a log of the past: what is published is gone
// from it. TestKill and TestKillOpening kill a process (package test/kill), TestReboot and
// TestDamage show the rest, FuzzDecode guards the encoding.
package journal

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"

	"datamove.dev/mover"
	"datamove.dev/mover/kvstore"
)

// Options says how a journal is kept. The zero value is for a POSIX target.
type Options struct {
	// KeepOnReboot trusts everything after a power cut too: the target is a store
	// that had stored a part when it answered.
	KeepOnReboot bool
	Mount        uint64       // what the target's traits say of its mount
	Logger       *slog.Logger // nil means no log

	boot string // "" asks the kernel, and adds Mount
}

// Journal is the open journal of one task.
type Journal struct {
	dir  string
	log  *slog.Logger
	db   *badger.DB
	lock *kvstore.Lock

	sequence atomic.Uint64 // of records and batches, over all runs
	recorded atomic.Uint64 // parts, over all runs: what a Mark counts
	atOpen   uint64        // records up to this sequence are left by earlier runs

	// mu guards marks on their way up, and left.
	mu   sync.Mutex
	left leftovers
}

// Exists reports whether a task has a journal in dir, or the rest of one after an
// interrupted removal.
func Exists(dir string) bool {
	_, err := os.Stat(dir)
	return err == nil
}

// Open opens or creates the journal in dir, which is of this task alone.
func Open(dir string, o Options) (*Journal, error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.boot == "" {
		o.boot = since(o.Mount)
	}
	j, err := open(dir, o)
	if !errors.Is(err, mover.ErrCorrupt) {
		return j, err
	}
	aside, moveErr := moveAside(dir)
	if moveErr != nil {
		return nil, errors.Join(err, moveErr)
	}
	o.Logger.Warn("damaged journal moved aside, the task starts anew", "journal", dir, "aside", aside, "err", err)
	return open(dir, o)
}

// open opens the journal, or says mover.ErrCorrupt when another try is useless.
func open(dir string, o Options) (*Journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, failed("open", dir, err)
	}
	l, err := kvstore.Acquire(dir, "journal")
	if err != nil {
		return nil, failed("open", dir, err)
	}
	j := &Journal{dir: dir, log: o.Logger, lock: l}
	if err := j.load(o); err != nil {
		l.Release()
		return nil, failed("open", dir, err)
	}
	return j, nil
}

// load opens the store between two notes in the lock file, because Badger ends
// the process when it meets some kinds of damage.
func (j *Journal) load(o Options) (err error) {
	defer kvstore.Caught(&err)
	if err := j.lock.Room(roomBytes); err != nil {
		return err
	}
	if err := opening(j.lock); err != nil {
		return err
	}
	if err := tidy(j.dir); err != nil {
		return err
	}
	// All tables are read before: Badger reads them on goroutines of its own, where damage ends the process, sometimes after the store was opened.
	options := storeOptions(j.dir, j.log)
	if err := kvstore.Verify(options); err != nil {
		return err
	}
	if j.db, err = kvstore.Open(options); err != nil {
		return err
	}
	for _, log := range kvstore.Logs(j.dir) {
		kvstore.Reserve(log, memTableBytes+txnBytes)
	}
	if err := j.takeStock(o); err != nil {
		return errors.Join(kvstore.Damage(err), j.db.Close())
	}
	return j.lock.Opened()
}

// Close ends the use of the journal and keeps what is in it.
func (j *Journal) Close() error {
	err := j.db.Close()
	j.lock.Release()
	if err != nil {
		return failed("close", j.dir, err)
	}
	return nil
}

// Remove closes the journal and deletes its directory, the facts too. The manifest
// goes first, for good: without it the rest is no journal any more, and with it a power cut
// that takes tables only leaves one that is damaged (seen on btrfs).
func (j *Journal) Remove() error {
	defer j.lock.Release()
	err := j.db.Close()
	if err == nil {
		err = errors.Join(os.Remove(filepath.Join(j.dir, badger.ManifestFilename)), kvstore.SyncFile(j.dir), os.RemoveAll(j.dir))
	}
	if err != nil {
		return failed("remove", j.dir, err)
	}
	return nil
}

// asideLimit bounds how many damaged journals are kept for a person to look at.
const asideLimit = 3

// moveAside renames a damaged journal, over the oldest one if there are many.
func moveAside(dir string) (string, error) {
	var aside string
	for n := range asideLimit {
		aside = fmt.Sprintf("%s.damaged-%d", strings.TrimRight(dir, "/"), n)
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err := os.RemoveAll(aside); err != nil {
		return "", failed("move aside", dir, err)
	}
	if err := os.Rename(dir, aside); err != nil {
		return "", failed("move aside", dir, err)
	}
	return aside, nil
}

// failed says what failed with the journal in dir.
func failed(op, dir string, err error) error {
	return &mover.Error{Op: op + " journal", Location: dir, Err: kvstore.Kind(err)}
}
