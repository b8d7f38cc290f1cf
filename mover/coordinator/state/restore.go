package state

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/kvstore"
)

// restoreTerms is added to the term of a restored ledger: more than the number of
// times that the lost one can have been opened since the backup.
const restoreTerms = 1 << 20

// Restore makes a ledger of a backup, in a directory that is empty or is not there. It
// is there whole and on stable storage, or not at all: a backup that is cut off or
// changed leaves nothing. After a kill, Open refuses the directory, and Restore begins anew.
func Restore(dir string, r io.Reader, log *slog.Logger) (err error) {
	_, err = os.Stat(dir)
	made := errors.Is(err, mover.ErrNotExist)
	l, err := begin(dir, Options{Logger: log})
	if err != nil {
		return l.failed("restore", err)
	}
	defer l.lock.Release()
	if err := l.mayRestore(); err != nil {
		return l.failed("restore", err)
	}
	if err := l.restore(r); err != nil {
		err = &mover.Error{Op: "restore ledger", Location: dir, Err: kvstore.Kind(err)}
		return errors.Join(err, l.leaveNothing(made))
	}
	return nil
}

// mayRestore refuses a directory with anything else in it than an interrupted restore.
func (l *Ledger) mayRestore() error {
	id, err := readIdentity(l.dir)
	if err != nil {
		return err
	}
	if id != nil && id.State == stateRestoring {
		return l.clear()
	}
	empty, err := vacant(l.dir)
	if err == nil && !empty {
		err = fmt.Errorf("%w: the directory is not empty; restore into a new one", mover.ErrConflict)
	}
	return err
}

// clear removes what a restore makes, the identity last.
func (l *Ledger) clear() error {
	for _, path := range []string{(&identity{}).storeDir(l.dir), syncedPath(l.dir), identityPath(l.dir)} {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// leaveNothing removes what a restore has made, and the directory if it made that.
func (l *Ledger) leaveNothing(made bool) error {
	if err := l.clear(); err != nil || !made {
		return err
	}
	return os.RemoveAll(l.dir)
}

// restore fills a store between two states of the identity.
func (l *Ledger) restore(r io.Reader) (err error) {
	defer kvstore.Caught(&err)
	in := newReader(r)
	header, err := in.header()
	if err != nil {
		return err
	}
	id := &identity{Format: format, Ledger: header.GetLedger(), State: stateRestoring}
	if err := id.write(l.dir); err != nil {
		return err
	}
	s, err := openStore(id.storeDir(l.dir), l.log)
	if err != nil {
		return err
	}
	err = l.fill(s, in, header, restoreTerms)
	if err := errors.Join(err, s.db.Close()); err != nil {
		return err
	}
	id.State = stateReady
	return errors.Join(id.write(l.dir), kvstore.SyncFile(filepath.Dir(l.dir)))
}

// fill writes the rows of a backup, and then what makes them a ledger, in a term so many later.
func (l *Ledger) fill(s *store, in *reader, header *ledgerv1.BackupHeader, terms uint64) error {
	for {
		record, err := in.record()
		if err != nil {
			return err
		}
		if record == nil {
			break
		}
		if err := l.put(s, record); err != nil {
			return err
		}
	}
	if err := l.name(s, header, terms); err != nil {
		return err
	}
	return kvstore.Sync(s.dir)
}

// name makes a store the ledger of a backup.
func (l *Ledger) name(s *store, header *ledgerv1.BackupHeader, terms uint64) error {
	txn := s.db.NewTransaction(true)
	defer txn.Discard()
	tx := &Tx{txn: txn, record: &ledgerv1.Record{}}
	if terms > 0 {
		term, err := counter(tx, counterTerm)
		if err := errors.Join(err, setCounter(tx, counterTerm, term+terms)); err != nil {
			return err
		}
	}
	return l.commit(s, txn, storeEntry(storeID, []byte(header.GetLedger())), storeEntry(storeSequence, number(header.GetSequence())), indexed(header.GetSequence()))
}
