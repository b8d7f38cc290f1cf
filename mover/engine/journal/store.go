package journal

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"datamove.dev/mover"
	"datamove.dev/mover/kvstore"
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
		WithChecksumVerificationMode(options.OnBlockRead). // load has verified the tables
		WithBypassLockGuard(true).                         // the lock of the directory does that
		WithLogger(kvstore.Log(log))
}

// tidy removes the rest of a journal after an interrupted removal, which Badger takes for damage.
func tidy(dir string) error {
	_, err := os.Stat(filepath.Join(dir, badger.ManifestFilename))
	if !errors.Is(err, mover.ErrNotExist) {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == kvstore.LockName {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// write stores entries in order, in one transaction if they fit into one.
func (j *Journal) write(op string, entries ...*badger.Entry) error {
	if err := j.lock.Room(roomBytes); err != nil {
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
	if err := j.lock.Room(roomBytes); err != nil {
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
