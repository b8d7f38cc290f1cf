package state

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"datamove.dev/mover"
	"datamove.dev/mover/kvstore"
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
	// ballastBytes are given back to a full disk: changes that free room, and what else opens beside the ledger.
	ballastBytes = roomBytes + 128<<20
)

// What the store says of itself, after keyStore.
const (
	storeID       = 'i' // -> the ledger's id, as in its identity
	storeSequence = 'q' // -> of the last record
	storeIndexed  = 'x' // -> see indexed
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
		WithChecksumVerificationMode(options.OnBlockRead). // kvstore.Verify does the rest
		WithBypassLockGuard(true).                         // the lock of the directory does that
		WithLogger(kvstore.Log(log))
	o.TableSizeMultiplier = 1
	return o
}

// OpenBallast opens what keeps room for a ledger in a directory on its disk, before anything that needs the room.
func OpenBallast(dir string, log *slog.Logger) (*kvstore.Ballast, error) {
	return kvstore.OpenBallast(dir, ballastBytes, roomBytes, log)
}

// store is an open store.
type store struct {
	dir     string
	db      *badger.DB
	nextLog int            // number of the log that is not yet reserved; of the one goroutine that writes
	uses    sync.WaitGroup // calls that use it; none begins when the ledger is closed, or has another one
}

// openStore opens or makes the store. Its tables are read whole before.
func openStore(dir string, log *slog.Logger) (*store, error) {
	o := storeOptions(dir, log)
	if err := kvstore.Verify(o); err != nil {
		return nil, err
	}
	db, err := kvstore.Open(o)
	if err != nil {
		return nil, err
	}
	return &store{dir: dir, db: db, nextLog: newestLog(kvstore.Logs(dir))}, nil
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

// reserve allocates the blocks of a log that is new.
func (s *store) reserve() {
	if kvstore.Reserve(s.logPath(s.nextLog), memTableBytes+memTableBytes/4) {
		s.nextLog++
	}
}

func (s *store) logPath(n int) string { return filepath.Join(s.dir, fmt.Sprintf("%05d.mem", n)) }

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
