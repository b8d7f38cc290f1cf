package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

// Sizes of the store. They bound its memory: a few memtables of memTableBytes, and
// nothing is cached, because a journal is written often and read after a crash.
const (
	memTableBytes = 2 << 20
	valueLogBytes = 1 << 20 // the least; nothing is ever in it
	// txnBytes is what one transaction may hold; Badger's own bound is 15 % of a memtable.
	txnBytes = 192 << 10
	// roomBytes is how much must be free before a write. Badger writes to mappings of
	// sparse files, where a full disk is not an error but a fatal signal.
	roomBytes = 64 << 20
)

func storeOptions(dir string, log *slog.Logger) badger.Options {
	return badger.DefaultOptions(dir).
		WithMemTableSize(memTableBytes).
		WithNumMemtables(1).
		WithBaseTableSize(1 << 20).
		WithBlockSize(32 << 10). // holds a chunk of a batch; smaller ones waste memory when tables are built
		WithNumLevelZeroTables(2).
		WithNumLevelZeroTablesStall(6).
		WithNumCompactors(2).
		WithValueLogFileSize(valueLogBytes).
		WithValueThreshold(txnBytes + txnBytes/4). // no value is larger: all live beside their keys
		WithCompression(options.None).
		WithBlockCacheSize(0).
		WithDetectConflicts(false).
		WithMetricsEnabled(false).
		WithChecksumVerificationMode(options.OnTableAndBlockRead).
		WithBypassLockGuard(true). // lock.go does that
		WithLogger(storeLog{log})
}

// caught makes an error of a panic, with which Badger meets some kinds of damage.
// What it had open then is lost to this process.
func caught(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%w: badger: %v", mover.ErrCorrupt, r)
	}
}

// damage makes err a reason to start anew, unless it tells of the machine and not
// of the journal.
func damage(err error) error {
	ofMachine := []error{mover.ErrFull, syscall.EACCES, syscall.EPERM, syscall.EROFS, syscall.ENOSPC, syscall.EDQUOT,
		syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM}
	for _, e := range ofMachine {
		if errors.Is(err, e) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", mover.ErrCorrupt, err)
}

// kindOf gives err the kind that programs decide by.
func kindOf(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", mover.ErrFull, err)
	}
	return err
}

// tidy removes what a kill leaves that Badger takes for damage: the rest of a
// journal whose removal was interrupted, and logs that were made and not begun.
func tidy(dir string) error {
	_, err := os.Stat(filepath.Join(dir, badger.ManifestFilename))
	gone := errors.Is(err, mover.ErrNotExist)
	if err != nil && !gone {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == lockName || !gone && !unbegun(e) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// unbegun says whether a file is a log of no bytes.
func unbegun(e os.DirEntry) bool {
	ext := filepath.Ext(e.Name())
	if ext != ".mem" && ext != ".vlog" {
		return false
	}
	st, err := e.Info()
	return err == nil && st.Size() == 0
}

// reserve allocates the blocks of fresh logs, so that a quota that is reached
// later does not end the process either. It is best effort: not every file system can.
func reserve(dir string) {
	for _, path := range logs(dir) {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		_ = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, memTableBytes+txnBytes)
		_ = f.Close()
	}
}

// logs returns the write-ahead logs, which hold what is not yet in tables.
func logs(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var paths []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".mem") {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	slices.Sort(paths)
	return paths
}

// room refuses a write while it can still be refused.
func (j *Journal) room() error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(j.lock.fd(), &st); err != nil {
		return err
	}
	if free := int64(st.Bavail) * st.Bsize; free < roomBytes {
		return fmt.Errorf("%w: %d MiB free where %d MiB are needed", mover.ErrFull, free>>20, roomBytes>>20)
	}
	return nil
}

// sync puts everything written so far on stable storage. Badger's own Sync leaves
// out the logs of full memtables that are still being written to tables, and the
// directory that names the logs. A log that is gone meanwhile is in a synced table.
func (j *Journal) sync() error {
	for _, path := range append(logs(j.dir), j.dir) {
		if err := syncFile(path); err != nil && !errors.Is(err, mover.ErrNotExist) {
			return err
		}
	}
	return nil
}

// syncFile puts a file or a directory on stable storage.
func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// write stores entries in order, in one transaction if they fit into one.
func (j *Journal) write(op string, entries ...*badger.Entry) error {
	if err := j.room(); err != nil {
		return failed(op, j.dir, err)
	}
	for len(entries) > 0 {
		n, size := 0, 0
		for n < len(entries) && (n == 0 || size+len(entries[n].Value) <= txnBytes) && n < 1000 {
			size += len(entries[n].Key) + len(entries[n].Value)
			n++
		}
		err := j.db.Update(func(txn *badger.Txn) error {
			for _, e := range entries[:n] {
				if err := txn.SetEntry(e); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return failed(op, j.dir, err)
		}
		entries = entries[n:]
	}
	return nil
}

// erase deletes keys in order.
func (j *Journal) erase(op string, keys [][]byte) error {
	if err := j.room(); err != nil {
		return failed(op, j.dir, err)
	}
	for chunk := range slices.Chunk(keys, 1000) {
		err := j.db.Update(func(txn *badger.Txn) error {
			for _, key := range chunk {
				if err := txn.Delete(key); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return failed(op, j.dir, err)
		}
	}
	return nil
}

// storeLog gives Badger's log to ours. Most of what it says is for its authors.
type storeLog struct{ log *slog.Logger }

func (l storeLog) say(level slog.Level, format string, args []any) {
	ctx := context.Background() // Badger has none to give
	if l.log.Enabled(ctx, level) {
		l.log.Log(ctx, level, "badger: "+strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
}

func (l storeLog) Errorf(f string, a ...any)   { l.say(slog.LevelWarn, f, a) }
func (l storeLog) Warningf(f string, a ...any) { l.say(slog.LevelInfo, f, a) }
func (l storeLog) Infof(f string, a ...any)    { l.say(slog.LevelDebug, f, a) }
func (l storeLog) Debugf(string, ...any)       {}
