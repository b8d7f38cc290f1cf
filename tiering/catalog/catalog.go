package catalog

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"datamove.dev/mover"
	"datamove.dev/mover/kvstore"
)

// format is that of the store. Another one is scanned anew.
const format = 1

// Sizes of the store. They bound its memory: some memtables, and the buffers of tables that are being made. Nothing is cached, because
// the tables are mapped.
const (
	memTableBytes = 4 << 20
	tableBytes    = 1 << 20
	blockBytes    = 16 << 10
	valueLogBytes = 1 << 20   // the least; nothing is ever in it
	valueBytes    = 512 << 10 // no value is larger: all live beside their keys
	batchBytes    = 512 << 10 // in one change; Badger's own bound is 15 % of a memtable
	batchKeys     = 2 << 10
	roomBytes     = 256 << 20
	closeBytes    = 4 * memTableBytes // of what is in memory
	unendedMost   = 6                 // openings in a row that may end in the middle; more are the fault of what is in the store
)

func storeOptions(dir string, log *slog.Logger) badger.Options {
	o := badger.DefaultOptions(dir).
		WithMemTableSize(memTableBytes).
		WithNumMemtables(1).
		WithBaseTableSize(tableBytes).
		WithBlockSize(blockBytes).
		WithNumLevelZeroTables(3).
		WithNumLevelZeroTablesStall(6).
		WithNumCompactors(2).
		WithValueLogFileSize(valueLogBytes).
		WithValueThreshold(valueBytes).
		WithCompression(options.None).
		WithBlockCacheSize(0).
		WithDetectConflicts(false). // there is one writer for each tree
		WithMetricsEnabled(false).
		WithChecksumVerificationMode(options.OnBlockRead). // kvstore.Verify does the rest
		WithBypassLockGuard(true).                         // the lock of the directory does that
		WithLogger(kvstore.Log(log))
	o.TableSizeMultiplier = 1 // what builds a table keeps its buffers for the next, and large ones would be kept on all levels
	return o
}

// Options says how a catalog is kept.
type Options struct {
	Logger *slog.Logger // nil means no log
}

// Catalog is an open catalog.
type Catalog struct {
	dir  string
	log  *slog.Logger
	lock *kvstore.Lock
	db   *badger.DB

	easing sync.Mutex // held while the memory is eased

	mu       sync.Mutex             // guards all below
	next     number                 // that was not given to a folder yet
	reserved number                 // up to which none is given twice, even after a kill
	writing  map[Tree]chan struct{} // one token each, held while the tree is changed
}

// Open opens or makes the catalog in a directory that is of it alone. A damaged one is moved aside, and the log says so.
func Open(dir string, o Options) (*Catalog, error) {
	c := &Catalog{dir: dir, log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)), writing: map[Tree]chan struct{}{}}
	err := c.open()
	if errors.Is(err, mover.ErrCorrupt) {
		aside := strings.TrimRight(dir, "/") + ".damaged"
		c.log.Warn("damaged catalog moved aside: the tiers have to be scanned again", "catalog", dir, "aside", aside, "err", err)
		err = errors.Join(os.RemoveAll(aside), os.Rename(dir, aside))
		if err == nil {
			err = c.open()
		}
	}
	if err != nil {
		return nil, c.failed("open", err)
	}
	return c, nil
}

func (c *Catalog) open() error {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	lock, err := kvstore.Acquire(c.dir, "catalog")
	if err != nil {
		return err
	}
	c.lock = lock
	if err := c.load(); err != nil {
		lock.Release()
		return err
	}
	return nil
}

// load opens the store between two notes in the lock.
func (c *Catalog) load() (err error) {
	defer kvstore.Caught(&err)
	if err := c.lock.Room(roomBytes); err != nil {
		return err
	}
	unended, err := c.lock.Opening()
	if err != nil {
		return err
	}
	if unended >= unendedMost {
		return fmt.Errorf("%w: the last %d openings ended this program", mover.ErrCorrupt, unended)
	}
	// All tables are read before: of a block that is damaged Badger's iterators say nothing, and end.
	options := storeOptions(c.storeDir(), c.log)
	if err := kvstore.Verify(options); err != nil {
		return err
	}
	if c.db, err = kvstore.Open(options); err != nil {
		return err
	}
	if err := c.recognise(); err != nil {
		return errors.Join(err, c.db.Close())
	}
	return c.lock.Opened()
}

func (c *Catalog) storeDir() string { return c.dir + "/store" }

// recognise reads what the store says of itself, or writes it into a new one.
func (c *Catalog) recognise() error {
	known, err := c.readNumber(keyFormat)
	if err != nil {
		return err
	}
	if known != 0 && known != format {
		return fmt.Errorf("%w: format %d, where this version knows %d", mover.ErrCorrupt, known, format)
	}
	next, err := c.readNumber(keyNumber)
	if err != nil {
		return err
	}
	c.next = max(number(next), 1)
	c.reserved = c.next
	if known == 0 {
		return c.db.Update(func(txn *badger.Txn) error {
			return txn.Set([]byte{keyFormat}, binary.BigEndian.AppendUint64(nil, format))
		})
	}
	return nil
}

func (c *Catalog) readNumber(key byte) (n uint64, err error) {
	err = c.db.View(func(txn *badger.Txn) error {
		b, err := get(txn, []byte{key})
		if err == nil && len(b) == 8 {
			n = binary.BigEndian.Uint64(b)
		}
		return err
	})
	return n, err
}

// get reads a value; nil is none. It is the caller's.
func get(txn *badger.Txn, key []byte) ([]byte, error) {
	item, err := txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, kvstore.Damage(err)
	}
	return item.ValueCopy(nil)
}

// numbersAhead are reserved at a time.
const numbersAhead = 10_000

// newNumber returns one that no folder has had.
func (c *Catalog) newNumber() (number, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == c.reserved {
		more := c.reserved + numbersAhead
		err := c.db.Update(func(txn *badger.Txn) error {
			return txn.Set([]byte{keyNumber}, binary.BigEndian.AppendUint64(nil, uint64(more)))
		})
		if err != nil {
			return 0, err
		}
		c.reserved = more
	}
	c.next++
	return c.next - 1, nil
}

// hold waits until no other call changes a tree; the caller calls done.
func (c *Catalog) hold(ctx context.Context, tree Tree) (done func(), err error) {
	c.mu.Lock()
	token := c.writing[tree]
	if token == nil {
		token = make(chan struct{}, 1)
		c.writing[tree] = token
	}
	c.mu.Unlock()
	select {
	case token <- struct{}{}:
		return func() { <-token }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Sync returns when everything that was written before outlives a power cut.
func (c *Catalog) Sync() error {
	if err := kvstore.Sync(c.storeDir()); err != nil {
		return c.failed("sync", err)
	}
	return nil
}

// Close ends the use of the catalog. Where there is no room to write what is in memory it is mover.ErrFull, and the catalog is as open as before: a process that ends so has
// all of it at its next beginning. (Badger would try for ever.)
func (c *Catalog) Close() error {
	if err := c.lock.Room(closeBytes); err != nil {
		return c.failed("close", err)
	}
	err := c.db.Close()
	c.lock.Release()
	if err != nil {
		return c.failed("close", err)
	}
	return nil
}

func (c *Catalog) failed(op string, err error) error {
	return &mover.Error{Op: op + " catalog", Location: c.dir, Err: kvstore.Kind(err)}
}
