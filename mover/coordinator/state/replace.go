package state

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"datamove.dev/mover"
	"datamove.dev/mover/kvstore"
)

// Replace gives a ledger that follows the content of another one at a later moment, as Backup writes it, while views go on:
// each ends on what it began with. The ledger is the one of the backup from then on, with its terms. One that has content
// takes a backup of itself only. A backup that has nothing new changes nothing.
//
// After a kill the ledger is what it was before, or what it is after. TestKillReplacing shows that.
func (l *Ledger) Replace(r io.Reader) error {
	s, err := l.enter()
	if err != nil {
		return err
	}
	defer s.uses.Done()
	if err := l.replace(r); err != nil {
		return l.failed("replace the content of the", err)
	}
	return nil
}

func (l *Ledger) replace(r io.Reader) (err error) {
	defer kvstore.Caught(&err)
	if l.role.Load().leads() {
		return fmt.Errorf("%w: it makes its own changes", mover.ErrUsage)
	}
	in := newReader(r)
	header, err := in.header()
	if err != nil {
		return err
	}
	l.mu.Lock()
	id := l.id
	l.mu.Unlock()
	if l.Sequence() > 0 && header.GetLedger() != id.Ledger {
		return fmt.Errorf("%w: it is the ledger %q, and the backup is of %q; give a new member an empty directory", mover.ErrConflict, id.Ledger, header.GetLedger())
	}
	if header.GetSequence() <= l.Sequence() {
		return nil
	}
	name := nextStore(id.Store)
	next, err := l.prepare(filepath.Join(l.dir, name), func(s *store) error { return l.fill(s, in, header, 0) })
	if err != nil {
		return err
	}
	if err := l.install(next, name, header.GetLedger(), header.GetSequence()); err != nil {
		return errors.Join(err, next.db.Close())
	}
	return nil
}

// nextStore names the store after another one.
func nextStore(name string) string {
	n, err := strconv.Atoi(strings.TrimPrefix(name, firstStore+"-"))
	if err != nil {
		n = 0 // it is the first one
	}
	return firstStore + "-" + strconv.Itoa(n+1)
}

// prepare makes a store beside the present one.
func (l *Ledger) prepare(dir string, fill func(*store) error) (*store, error) {
	if err := errors.Join(os.RemoveAll(dir), l.room(roomBytes)); err != nil {
		return nil, err
	}
	s, err := openStore(dir, l.log)
	if err != nil {
		return nil, err
	}
	s.reserve()
	err = fill(s)
	if err == nil {
		err = kvstore.SyncFile(l.dir)
	}
	if err != nil {
		return nil, errors.Join(err, s.db.Close(), os.RemoveAll(dir))
	}
	return s, nil
}

// install makes a store the present one. The identity decides, after a kill too.
func (l *Ledger) install(next *store, name, ledger string, sequence uint64) error {
	l.applying.Lock()
	defer l.applying.Unlock()
	if err := l.note(func(id *identity) { id.Store, id.Ledger = name, ledger }); err != nil {
		return err
	}
	l.mu.Lock()
	before := l.store
	l.store = next
	l.mu.Unlock()
	l.sequence.Store(sequence)
	l.tallies = nil
	l.retired.Go(func() { // the calls of before end, and this one waits for none of them
		before.uses.Wait()
		if err := errors.Join(before.db.Close(), os.RemoveAll(before.dir)); err != nil {
			l.log.Warn("a store that was replaced is still there; the next start removes it", "store", before.dir, "err", err)
		}
	})
	return nil
}

// rewrite is note for callers without applying.
func (l *Ledger) rewrite(change func(*identity)) error {
	l.applying.Lock()
	defer l.applying.Unlock()
	return l.note(change)
}

// note changes the identity, on stable storage. The caller holds applying.
func (l *Ledger) note(change func(*identity)) error {
	l.mu.Lock()
	id := l.id
	l.mu.Unlock()
	change(&id)
	if err := id.write(l.dir); err != nil {
		return err
	}
	l.mu.Lock()
	l.id = id
	l.mu.Unlock()
	return nil
}

// removeOthers removes the stores that are not the one of the identity: a kill has left them.
func (l *Ledger) removeOthers(id *identity) error {
	paths, err := filepath.Glob(filepath.Join(l.dir, firstStore+"-*"))
	if err != nil {
		return err
	}
	for _, path := range append(paths, filepath.Join(l.dir, firstStore)) {
		if path != id.storeDir(l.dir) {
			err = errors.Join(err, os.RemoveAll(path))
		}
	}
	return err
}

// BackupOf reads of which ledger a backup is, and with which record it ends. It may read more than that.
func BackupOf(r io.Reader) (ledger string, sequence uint64, err error) {
	header, err := newReader(r).header()
	return header.GetLedger(), header.GetSequence(), err
}
