package consensus

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/encoding/protodelim"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
)

// Kinds of entries: the first byte of each. They are in files and on the wire, and never change.
const (
	entryBegin   = 'b' // a leader begins: the answer is the Raft term
	entryRecords = 'r' // the Raft term in which records were drafted, and they, each with its length before it
)

// errStale is the answer to records that were drafted in another term than that of its entry. All members skip it.
var errStale = fmt.Errorf("%w: another leader was there since the change was drafted", state.ErrNotLeader)

// quorum is that of a ledger that leads in a Raft term.
type quorum struct {
	m    *Member
	term uint64
}

// Append proposes records as one entry, and returns when a majority has it on stable storage and this member has applied it.
func (r quorum) Append(_ context.Context, records []*ledgerv1.Record) error {
	entry := bytes.NewBuffer(binary.BigEndian.AppendUint64([]byte{entryRecords}, r.term))
	for _, record := range records {
		if _, err := protodelim.MarshalTo(entry, record); err != nil {
			return err
		}
	}
	answer, err := r.m.propose(entry.Bytes())
	if err != nil {
		return err
	}
	if err, is := answer.(error); is {
		if errors.Is(err, errStale) {
			return err
		}
		return fmt.Errorf("%w: %w", state.ErrUnknown, err) // a majority has it, and this member could not apply it
	}
	return nil
}

// propose returns what this member answers to an entry when it applies it.
func (m *Member) propose(entry []byte) (any, error) {
	m.proposing.Lock()
	defer m.proposing.Unlock()
	if err := m.mayPropose(); err != nil {
		return nil, err
	}
	f := m.raft.Apply(entry, 0)
	switch err := f.Error(); {
	case err == nil:
		return f.Response(), nil
	case errors.Is(err, raft.ErrNotLeader):
		return nil, state.ErrNotLeader
	case errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return nil, fmt.Errorf("%w: the lead was to be given to another member", mover.ErrTransient) // it was not, or the next try says so
	default:
		return nil, fmt.Errorf("%w: %w", state.ErrUnknown, err)
	}
}

// mayPropose refuses what Raft would not answer. The caller holds proposing.
func (m *Member) mayPropose() error {
	select {
	case <-m.closing:
		return fmt.Errorf("%w: the member ends", state.ErrNotLeader)
	default:
		return nil
	}
}

// machine is the ledger of a member as the state machine of Raft, which calls Apply, Snapshot and Restore one after the other.
type machine Member

// Apply applies an entry that a majority has. The answer is for the proposer.
func (a *machine) Apply(entry *raft.Log) any {
	m := (*Member)(a)
	if err := m.Err(); err != nil {
		return err
	}
	switch kind, records, err := parse(entry); {
	case err != nil:
		return m.fail(err)
	case kind == entryBegin:
		m.mine(entry.Term, true)
		return entry.Term
	case records == nil:
		return errStale
	default:
		m.mine(entry.Term, false)
		return m.applyAll(records)
	}
}

// mine lets the ledger follow before it applies what it has not proposed as the present leader.
func (m *Member) mine(term uint64, begins bool) {
	if begins || term != m.leadTerm() {
		if m.ledger.Term() != 0 {
			m.ledger.Follow()
		}
	}
}

// applyAll applies the records of an entry. A member that ends in the middle of them begins with the first again, and skips what it has.
func (m *Member) applyAll(records []*ledgerv1.Record) any {
	for _, record := range records {
		if err := m.apply(record); err != nil {
			return err
		}
	}
	return nil
}

// apply applies a record. It returns nil as an answer, or an error for which the member ends.
func (m *Member) apply(record *ledgerv1.Record) any {
	err := m.ledger.Apply(context.Background(), record)
	if errors.Is(err, mover.ErrConflict) { // a gap
		err = fmt.Errorf("%w: the log does not go on where the ledger ends; remove the member, and let it join with an empty directory: %w", mover.ErrCorrupt, err)
	}
	if err != nil {
		return m.fail(err)
	}
	return nil
}

// parse takes an entry apart. There are no records in one that was drafted in another term.
func parse(entry *raft.Log) (kind byte, records []*ledgerv1.Record, _ error) {
	text := entry.Data
	switch {
	case len(text) > 0 && text[0] == entryBegin:
		return entryBegin, nil, nil
	case len(text) > 0 && text[0] != entryRecords:
		return 0, nil, fmt.Errorf("%w: an entry of kind %q is of a later version; bring this member to the version of the others", mover.ErrUnsupported, text[:1])
	case len(text) < 9:
		return 0, nil, fmt.Errorf("%w: entry %d is cut off", mover.ErrCorrupt, entry.Index)
	}
	if binary.BigEndian.Uint64(text[1:]) != entry.Term {
		return entryRecords, nil, nil
	}
	for r := bytes.NewReader(text[9:]); r.Len() > 0; {
		record := &ledgerv1.Record{}
		if err := (protodelim.UnmarshalOptions{MaxSize: int64(len(text))}).UnmarshalFrom(r, record); err != nil {
			return 0, nil, fmt.Errorf("%w: entry %d: %w", mover.ErrCorrupt, entry.Index, err)
		}
		records = append(records, record)
	}
	return entryRecords, records, nil
}

// Snapshot takes the present moment of the ledger; records are applied meanwhile.
func (a *machine) Snapshot() (raft.FSMSnapshot, error) {
	if err := (*Member)(a).Err(); err != nil {
		return nil, err
	}
	moment, err := a.ledger.Freeze()
	if err != nil {
		return nil, err
	}
	return snapshot{moment}, nil
}

// Restore gives the ledger the snapshot of the leader.
func (a *machine) Restore(r io.ReadCloser) error {
	m := (*Member)(a)
	if err := m.Err(); err != nil {
		return err
	}
	m.ledger.Follow()
	return errors.Join(m.ledger.Replace(r), r.Close())
}

// snapshot is a moment of the ledger.
type snapshot struct{ *state.Moment }

// Persist writes a backup. The log is cut afterwards, so the ledger is synced before: what it loses in a power cut, the log has.
func (s snapshot) Persist(to raft.SnapshotSink) error {
	err := s.Sync()
	if err == nil {
		err = s.Write(to)
	}
	if err != nil {
		return errors.Join(err, to.Cancel())
	}
	return to.Close()
}
