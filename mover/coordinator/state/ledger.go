// Package state is the truth of the service: its tasks and their batches, agents,
// datasets, replicas, leases, pins, kept drafts, usage, bursts and the accounts of teams,
// join tokens and forgotten nodes.
//
// It owns one directory, with a Badger store in it, and these words: a [Table] has
// rows, which are protobuf messages under keys made of their own fields; an [Index]
// finds them in another order; a [Tx] is one look, or one change in progress; a
// Record is a change that is done, as a list of rows; a [Log] is where records go. All
// changes go through one Log, by default straight into the store, so that another
// one can stand before it and send records elsewhere.
//
// Promises:
//
//   - Concurrency: everything may be called from many goroutines, but a Tx is for one.
//     Views see one moment and do not wait. Updates happen one after the other,
//     all or nothing. One process at a time has a ledger open; a second gets mover.ErrHeld.
//   - After kill -9: whatever an Update has returned for is there.
//   - After a power cut: every Update that was Durable is there, others up to
//     Options.SyncEvery before the cut; never a later one without all earlier ones.
//   - A full disk is mover.ErrFull before anything is changed, and passes with the fullness. A ledger
//     with a ballast opens on one, and goes on for what frees room; Admits refuses what is new.
//   - Damage is found at Open, as mover.ErrCorrupt: tables are checked whole, and the
//     last record that was known to be on stable storage must be there. It is never
//     mended by beginning anew; Restore makes a ledger of a backup.
//   - Memory does not grow with the rows, but for pages of the store's files, which are
//     mapped, and which the kernel takes back when it wants to.
//
// What the rows mean, and which change is allowed, is the service's. TestKill kills a
// process, TestKillOpening while it opens one, TestPowerCut cuts the power of its disk, TestDamage
// breaks its files, TestFullDisk fills the disk, and TestReplay makes a second ledger of the
// records of a first.
package state

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"

	"datamove.dev/mover"
	"datamove.dev/mover/kvstore"
)

// Options says how a ledger is kept. The zero value is a ledger that is alone.
type Options struct {
	Logger    *slog.Logger  // nil means no log
	SyncEvery time.Duration // how long a Soon change may wait for stable storage; 0 means 1 s
	// Log returns the log that changes go through. It is given the store's own one,
	// which it must call for each record; nil means that one alone.
	Log func(own Log) Log
	// Committed is told of each Durable change that was written, how long it took to
	// be on stable storage, and of each change that could not be stored. Nil is told nothing.
	Committed func(took time.Duration, err error)
	// Ballast is what a full disk gets back before changes need the room; see OpenBallast. Nil has none.
	Ballast *kvstore.Ballast
	// Follow makes a ledger that changes by Apply alone, with the records of another.
	Follow bool
}

// Ledger is an open ledger.
type Ledger struct {
	dir     string
	log     *slog.Logger
	lock    *kvstore.Lock
	ballast *kvstore.Ballast
	follows bool // it was opened to follow: it changes by Apply, also in a role that leads
	through Log  // of the store itself
	flush   *flush
	stop    func() // the background sync, and the looks at the room
	role    atomic.Pointer[role]
	retired sync.WaitGroup // stores that another one has replaced, until their calls end

	committed func(time.Duration, error)

	writer  chan struct{} // holds one token, of the change under way; guards the next one
	drafted Tx            // the change under way

	applying turnstile     // is held while a record, or another store, becomes the present one; guards the next four, which are read with mu, too
	tallies  []tally       // that count what changes
	sequence atomic.Uint64 // of the last record
	id       identity
	store    *store

	mu      sync.Mutex // guards all below, and the change of id and store
	closed  bool
	waiting []*waiting // changes for the next turn of a ledger that leads others
}

// Open opens or makes the ledger in a directory that is of it alone.
func Open(dir string, o Options) (*Ledger, error) {
	l, err := begin(dir, o)
	if err != nil {
		return nil, l.failed("open", err)
	}
	id, err := l.identify()
	if err == nil {
		err = l.mayOpen(id)
	}
	if err == nil {
		err = l.load(id)
	}
	if err != nil {
		l.lock.Release()
		return nil, l.failed("open", err)
	}
	if err := l.start(id); err != nil {
		return nil, errors.Join(l.failed("open", err), l.close(0))
	}
	return l, nil
}

// begin locks the directory.
func begin(dir string, o Options) (*Ledger, error) {
	l := &Ledger{dir: dir, log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)), follows: o.Follow, ballast: o.Ballast, writer: make(chan struct{}, 1), applying: make(turnstile, 1), committed: o.Committed}
	if l.committed == nil {
		l.committed = func(time.Duration, error) {}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return l, err
	}
	held, err := kvstore.Acquire(dir, "ledger")
	if err != nil {
		return l, err
	}
	l.lock = held
	l.role.Store(&role{})
	l.through = local{l}
	if o.Log != nil {
		l.through = o.Log(l.through)
	}
	l.flush = newFlush(l, o.SyncEvery)
	return l, nil
}

// identify finds out what the directory is, or makes a ledger of it.
func (l *Ledger) identify() (*identity, error) {
	id, err := readIdentity(l.dir)
	if err != nil {
		return nil, err
	}
	if id == nil {
		return l.create()
	}
	_, err = os.Stat(filepath.Join(id.storeDir(l.dir), badger.ManifestFilename))
	switch {
	case id.State == stateNew:
		return id, errors.Join(os.RemoveAll(id.storeDir(l.dir)), os.RemoveAll(syncedPath(l.dir))) // its making was interrupted
	case id.State == stateRestoring:
		return nil, fmt.Errorf("%w: a restore was interrupted; do it again", mover.ErrCorrupt)
	case err != nil:
		return nil, fmt.Errorf("%w: the store is gone: %w", mover.ErrCorrupt, err)
	}
	return id, nil
}

func (l *Ledger) create() (*identity, error) {
	empty, err := vacant(l.dir)
	if err != nil {
		return nil, err
	}
	if !empty {
		return nil, fmt.Errorf("%w: there are files, and %q is not one of them", mover.ErrCorrupt, identityPath(l.dir))
	}
	id := &identity{Format: format, Ledger: rand.Text(), State: stateNew}
	return id, errors.Join(id.write(l.dir), kvstore.SyncFile(filepath.Dir(l.dir)))
}

// mayOpen refuses a member of a cluster that is opened as if it were alone.
func (l *Ledger) mayOpen(id *identity) error {
	if id.Member && !l.follows {
		return fmt.Errorf("%w: it is of a member of a cluster, and would get changes that the others do not have; begin the service as that member", mover.ErrConflict)
	}
	return nil
}

// load opens the store between two notes in the lock file.
func (l *Ledger) load(id *identity) error {
	if err := l.room(roomBytes); err != nil {
		return err
	}
	unended, err := l.lock.Opening()
	if err != nil {
		return err
	}
	if unended > 0 {
		l.log.Warn("earlier openings of the ledger did not end; if this one does not either, restore a backup",
			"ledger", l.dir, "openings", unended)
	}
	if err := l.removeOthers(id); err != nil {
		return errors.Join(err, l.lock.Opened())
	}
	if l.store, err = openStore(id.storeDir(l.dir), l.log); err != nil {
		return errors.Join(err, l.lock.Opened())
	}
	l.store.reserve()
	err = l.recognise(id)
	if err == nil {
		err = l.reindex()
	}
	if err := errors.Join(err, l.lock.Opened()); err != nil {
		return errors.Join(err, l.store.db.Close())
	}
	return nil
}

// recognise compares the store with its identity and with what it must at least have.
func (l *Ledger) recognise(id *identity) error {
	if id.State == stateNew {
		err := l.put(l.store, nil, storeEntry(storeID, []byte(id.Ledger)))
		if err := errors.Join(err, kvstore.Sync(l.store.dir)); err != nil {
			return err
		}
	}
	txn := l.store.db.NewTransaction(false)
	defer txn.Discard()
	own, err1 := getIn(txn, []byte{keyStore, storeID})
	sequence, err2 := storeNumber(txn, storeSequence)
	least, err3 := readSynced(l.dir)
	if err := errors.Join(err1, err2, err3); err != nil {
		return kvstore.Damage(err)
	}
	if string(own) != id.Ledger {
		return fmt.Errorf("%w: the store is of the ledger %q, not of %q", mover.ErrCorrupt, own, id.Ledger)
	}
	if sequence < least {
		return fmt.Errorf("%w: it ends with record %d, and record %d was on stable storage", mover.ErrCorrupt, sequence, least)
	}
	l.id = *id
	l.sequence.Store(sequence)
	return nil
}

// start begins a term, unless the ledger follows another.
func (l *Ledger) start(id *identity) error {
	synced, watched := l.flush.begin(), l.watch()
	l.stop = func() { watched(); synced() }
	if !l.follows {
		if err := l.lead(context.Background(), &role{through: l.through}); err != nil {
			return err
		}
	}
	if id.State == stateReady {
		return nil
	}
	if err := l.rewrite(func(id *identity) { id.State = stateReady }); err != nil {
		return err
	}
	l.log.Info("new ledger", "ledger", l.dir, "id", id.Ledger)
	return nil
}

// Close ends the use of the ledger. It returns mover.ErrFull, and the ledger stays
// open, where there is no room for what is in memory; that is safe in its log, and a
// process may as well end without Close.
func (l *Ledger) Close() error {
	if err := l.close(closeBytes); err != nil {
		return l.failed("close", err)
	}
	return nil
}

func (l *Ledger) close(need int64) error {
	first, err := l.leave(need)
	if !first || err != nil {
		return err
	}
	l.present().uses.Wait()
	l.retired.Wait()
	l.stop()
	err = l.flush.all()
	err = errors.Join(err, l.flush.close(), l.present().db.Close())
	l.lock.Release()
	return err
}

// leave admits no further call, if there is room to close.
func (l *Ledger) leave(need int64) (first bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false, nil
	}
	if err := l.room(need); err != nil {
		return false, err
	}
	l.closed = true
	return true, nil
}

// turnstile is a lock over which its holder may sleep: a goroutine that waits for it is blocked in virtual time, too.
type turnstile chan struct{}

func (t turnstile) Lock()   { t <- struct{}{} }
func (t turnstile) Unlock() { <-t }

// present is the present store.
func (l *Ledger) present() *store {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.store
}

// enter begins a use of the present store; the caller ends it by uses.Done.
func (l *Ledger) enter() (*store, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, l.failed("use", fmt.Errorf("%w: it is closed", mover.ErrUsage))
	}
	l.store.uses.Add(1)
	return l.store, nil
}

// room refuses what would fill the disk. A full one is given the ballast.
func (l *Ledger) room(need int64) error {
	err := l.lock.Room(need)
	if errors.Is(err, mover.ErrFull) && l.ballast.Release() {
		err = l.lock.Room(need)
	}
	return err
}

// lookEvery is how often the room is looked at beside changes. A look takes a microsecond, and a disk gets 50 MB meanwhile from what writes 1 GB/s.
const lookEvery = 50 * time.Millisecond

// watch looks at the room until stop is called: tables are flushed and merged when no change is made, too, and a sync may take seconds.
func (l *Ledger) watch() (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				_ = l.room(roomBytes) // a full disk gets the ballast; changes return the other errors
			}
		}
	}()
	return func() { close(end); <-ended }
}

// Admits says why nothing new should be put into the ledger, although it still takes changes: mover.ErrFull.
func (l *Ledger) Admits() error { return l.ballast.Admits() }

// Sync returns when everything that was written before outlives a power cut of this host.
func (l *Ledger) Sync() error {
	s, err := l.enter()
	if err != nil {
		return err
	}
	defer s.uses.Done()
	if err := l.flush.all(); err != nil {
		return l.failed("sync", err)
	}
	return nil
}

// Sequence is the number of the last record.
func (l *Ledger) Sequence() uint64 { return l.sequence.Load() }

// failed says what failed with the ledger, and for damage what to do.
func (l *Ledger) failed(op string, err error) error {
	if errors.Is(err, mover.ErrCorrupt) {
		err = fmt.Errorf("%w; the ledger is damaged: move its directory away and restore a backup into an empty one", err)
	}
	return &mover.Error{Op: op + " ledger", Location: l.dir, Err: kvstore.Kind(err)}
}
