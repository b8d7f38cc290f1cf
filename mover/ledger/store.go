package ledger

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

// Sizes of the store. They bound its memory: two memtables of memTableBytes, and
// while tables are made a dozen of tableBytes; nothing is cached, because the tables are
// mapped. All tables are small, whatever their level, because what builds them
// keeps its buffers for the next.
const (
	memTableBytes = 8 << 20 // a transaction may have 15 % of it: a record and its index entries
	tableBytes    = 1 << 20
	valueBytes    = 1 << 20 // no value is larger: all live beside their keys
	valueLogBytes = 1 << 20 // the least; nothing is ever in it
	levelZero     = 6       // tables that wait to be merged before writers wait
)

// What must be free. Badger writes to mappings of sparse files, where a full disk is
// not an error but a fatal signal.
const (
	// roomBytes before a change: a log, a table of it, and merging what level 0 and
	// the level below hold, twice over.
	roomBytes = 192 << 20
	// closeBytes before Close, which makes a table of what is in memory.
	closeBytes = 4 * memTableBytes
)

// What the store says of itself, after keyStore.
const (
	storeID       = 'i' // -> the ledger's id, as in its identity
	storeSequence = 'q' // -> of the last record
)

func storeEntry(what byte, value []byte) *badger.Entry {
	return badger.NewEntry([]byte{keyStore, what}, value)
}

func storeOptions(dir string, log *slog.Logger) badger.Options {
	o := badger.DefaultOptions(dir).
		WithMemTableSize(memTableBytes).
		WithNumMemtables(1).
		WithBaseTableSize(tableBytes).
		WithBlockSize(8 << 10).
		WithNumLevelZeroTables(levelZero / 2).
		WithNumLevelZeroTablesStall(levelZero).
		WithNumCompactors(2).
		WithValueLogFileSize(valueLogBytes).
		WithValueThreshold(valueBytes).
		WithCompression(options.None).
		WithBlockCacheSize(0).
		WithDetectConflicts(false). // there is one writer
		WithMetricsEnabled(false).
		WithChecksumVerificationMode(options.OnBlockRead). // verify.go does the rest
		WithBypassLockGuard(true).                         // lock.go does that
		WithLogger(storeLog{log})
	o.TableSizeMultiplier = 1
	return o
}

// caught makes an error of a panic, with which Badger meets some kinds of damage.
// What it had open then is lost to this process.
func caught(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%w: badger: %v", mover.ErrCorrupt, r)
	}
}

// openStore opens or makes the store.
func openStore(dir string, log *slog.Logger) (db *badger.DB, err error) {
	defer caught(&err)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := tidy(dir); err != nil {
		return nil, err
	}
	if err := verifyTables(dir); err != nil {
		return nil, err
	}
	db, err = badger.Open(storeOptions(dir, log))
	if err != nil {
		return nil, damage(err)
	}
	return db, nil
}

// damage makes err the kind ErrCorrupt, unless it tells of the machine.
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

// tidy removes logs of no bytes: a kill left them before anything was in them, and
// Badger takes them for damage.
func tidy(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		ext := filepath.Ext(e.Name())
		st, err := e.Info()
		if err != nil || st.Size() > 0 || ext != ".mem" && ext != ".vlog" {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// storeNumber reads a number that the store says of itself, 0 for nothing.
func storeNumber(txn *badger.Txn, what byte) (uint64, error) {
	value, err := getIn(txn, []byte{keyStore, what})
	if err == nil && value != nil && len(value) != 8 {
		err = fmt.Errorf("%w: a number of %d bytes", mover.ErrCorrupt, len(value))
	}
	if err != nil || value == nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(value), nil
}

// room refuses what would fill the disk while it can still be refused.
func (l *Ledger) room(need int64) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(l.lock.fd(), &st); err != nil {
		return err
	}
	if free := int64(st.Bavail) * st.Bsize; free < need {
		return fmt.Errorf("%w: %d MiB free where the ledger needs %d MiB; make room there", mover.ErrFull, free>>20, need>>20)
	}
	return nil
}

// reserve allocates the blocks of a log that is new, so that a disk or quota that
// fills up later does not end the process. Not every file system can.
func (l *Ledger) reserve() {
	f, err := os.OpenFile(l.logPath(l.nextLog), os.O_RDWR, 0)
	if err != nil {
		return // it is not begun yet
	}
	defer f.Close()
	l.nextLog++
	_ = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, memTableBytes+memTableBytes/4)
}

func (l *Ledger) logPath(n int) string {
	return filepath.Join(l.storeDir(), fmt.Sprintf("%05d.mem", n))
}

// newestLog finds the number of the log that Badger writes to.
func newestLog(paths []string) (newest int) {
	for _, path := range paths {
		var n int
		if _, err := fmt.Sscanf(filepath.Base(path), "%d.mem", &n); err == nil {
			newest = max(newest, n)
		}
	}
	return newest
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
	return paths
}

// sync puts everything written so far on stable storage. Badger's own Sync leaves
// out the logs of full memtables that are still being written to tables, and the
// directory that names the logs. A log that is gone meanwhile is in a synced table.
func (l *Ledger) sync() error {
	for _, path := range append(logs(l.storeDir()), l.storeDir()) {
		if err := syncFile(path); err != nil && !errors.Is(err, mover.ErrNotExist) {
			return err
		}
	}
	return nil
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// storeLog gives Badger's log to ours. Most of what it says is for its authors.
type storeLog struct{ log *slog.Logger }

func newLog(log *slog.Logger) *slog.Logger { return cmp.Or(log, slog.New(slog.DiscardHandler)) }

func (s storeLog) say(level slog.Level, format string, args []any) {
	ctx := context.Background() // Badger has none to give
	if s.log.Enabled(ctx, level) {
		s.log.Log(ctx, level, "badger: "+strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
}

func (s storeLog) Errorf(f string, a ...any)   { s.say(slog.LevelWarn, f, a) }
func (s storeLog) Warningf(f string, a ...any) { s.say(slog.LevelInfo, f, a) }
func (s storeLog) Infof(f string, a ...any)    { s.say(slog.LevelDebug, f, a) }
func (s storeLog) Debugf(string, ...any)       {}
