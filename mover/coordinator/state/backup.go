package state

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"

	"github.com/dgraph-io/badger/v4"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/kvstore"
)

// A backup is a line of text, a header, records, an empty record, and the SHA-256 of
// all that. Header and records are protobuf messages with their length before them. A
// record sets rows and has no sequence; the indexes are made anew.
const (
	backupLine = "datamove ledger backup 1\n"
	// backupRecord is about how much goes into one record: with its index entries it
	// fits into one transaction.
	backupRecord = 128 << 10
)

// Backup writes everything that is in the ledger at one moment. Changes go on
// meanwhile. It fails where the ledger is damaged, instead of writing a part of it.
func (l *Ledger) Backup(w io.Writer) error {
	m, err := l.Freeze()
	if err != nil {
		return err
	}
	defer m.Release()
	return m.Write(w)
}

// Moment is what a ledger is at one moment, until it is released.
type Moment struct {
	l        *Ledger
	store    *store
	txn      *badger.Txn
	id       string
	sequence uint64
}

// Freeze takes the present moment. It waits for a record that is being applied, and for nothing else.
func (l *Ledger) Freeze() (*Moment, error) {
	l.applying.Lock()
	defer l.applying.Unlock()
	s, err := l.enter()
	if err != nil {
		return nil, err
	}
	return &Moment{l: l, store: s, txn: s.db.NewTransaction(false), id: l.id.Ledger, sequence: l.sequence.Load()}, nil
}

// Release lets go of the moment.
func (m *Moment) Release() {
	m.txn.Discard()
	m.store.uses.Done()
}

// Sync returns when the records up to the moment are on stable storage of this host.
func (m *Moment) Sync() error {
	if err := m.l.flush.upTo(m.sequence); err != nil {
		return m.l.failed("sync", err)
	}
	return nil
}

// Write writes a backup of the moment; see Backup.
func (m *Moment) Write(w io.Writer) error {
	err := m.store.verify()
	if err == nil {
		err = m.write(w)
	}
	if err != nil {
		return m.l.failed("back up", err)
	}
	return nil
}

// verify reads all tables, because an iterator of Badger passes a damaged block in
// silence.
func (s *store) verify() (err error) {
	defer kvstore.Caught(&err)
	if err := s.db.VerifyChecksum(); err != nil {
		return kvstore.Damage(err)
	}
	return nil
}

func (m *Moment) write(w io.Writer) error {
	sum := sha256.New()
	b := bufio.NewWriterSize(io.MultiWriter(w, sum), backupRecord)
	if _, err := b.WriteString(backupLine); err != nil {
		return err
	}
	header := &ledgerv1.BackupHeader{Ledger: m.id, Sequence: m.sequence, CreateTime: timestamppb.Now()}
	if _, err := protodelim.MarshalTo(b, header); err != nil {
		return err
	}
	if err := backupRows(&Tx{txn: m.txn}, b); err != nil {
		return err
	}
	if err := b.Flush(); err != nil {
		return err
	}
	_, err := w.Write(sum.Sum(nil))
	return err
}

// backupRows writes all rows, table by table, and the record that ends them.
func backupRows(tx *Tx, b *bufio.Writer) error {
	record, size := &ledgerv1.Record{}, 0
	for name, t := range tables {
		for f, err := range tx.scan(t.row(nil), Range{}, true) {
			if err != nil {
				return err
			}
			c := &ledgerv1.Change{Table: name, Key: f.key, Value: f.value}
			record.Changes = append(record.Changes, c)
			if size += proto.Size(c); size < backupRecord {
				continue
			}
			if _, err := protodelim.MarshalTo(b, record); err != nil {
				return err
			}
			record, size = &ledgerv1.Record{}, 0
		}
	}
	if len(record.Changes) > 0 {
		if _, err := protodelim.MarshalTo(b, record); err != nil {
			return err
		}
	}
	_, err := protodelim.MarshalTo(b, &ledgerv1.Record{})
	return err
}

// reader reads a backup that may be anything.
type reader struct {
	in  *bufio.Reader
	sum hash.Hash // of what was read
}

func newReader(r io.Reader) *reader {
	return &reader{bufio.NewReaderSize(r, backupRecord), sha256.New()}
}

// Read and ReadByte are for protodelim, and sum what they give.
func (r *reader) Read(b []byte) (int, error) {
	n, err := r.in.Read(b)
	r.sum.Write(b[:n])
	return n, err
}

func (r *reader) ReadByte() (byte, error) {
	c, err := r.in.ReadByte()
	if err == nil {
		r.sum.Write([]byte{c})
	}
	return c, err
}

// header reads the beginning.
func (r *reader) header() (*ledgerv1.BackupHeader, error) {
	line := make([]byte, len(backupLine))
	if _, err := io.ReadFull(r, line); err != nil {
		return nil, notBackup(err)
	}
	if string(line) != backupLine {
		return nil, fmt.Errorf("%w: it is no backup of a ledger, or of a later version", mover.ErrCorrupt)
	}
	h := &ledgerv1.BackupHeader{}
	if err := r.message(h); err != nil {
		return nil, err
	}
	if h.GetLedger() == "" || h.GetSequence() == 0 {
		return nil, fmt.Errorf("%w: a backup of no ledger", mover.ErrCorrupt)
	}
	return h, nil
}

// record reads the next record, nil after the last one.
func (r *reader) record() (*ledgerv1.Record, error) {
	record := &ledgerv1.Record{}
	if err := r.message(record); err != nil {
		return nil, err
	}
	if len(record.GetChanges()) == 0 {
		return nil, r.end()
	}
	for _, c := range record.GetChanges() {
		t, known := tables[c.GetTable()]
		if !known || c.GetDeleted() {
			return nil, fmt.Errorf("%w: a backup with table %q, which this version does not know", mover.ErrUnsupported, c.GetTable())
		}
		if err := t.check(c.GetKey(), c.GetValue()); err != nil {
			return nil, notBackup(err)
		}
	}
	return record, nil
}

// message reads what can not be larger than a record with one row that is.
func (r *reader) message(m proto.Message) error {
	o := protodelim.UnmarshalOptions{MaxSize: backupRecord + RecordBytes + keyBytes}
	if err := o.UnmarshalFrom(r, m); err != nil {
		return notBackup(err)
	}
	return nil
}

// end compares the checksum, behind which nothing may be.
func (r *reader) end() error {
	want := r.sum.Sum(nil)
	got := make([]byte, len(want))
	if _, err := io.ReadFull(r.in, got); err != nil {
		return notBackup(err)
	}
	_, err := r.in.ReadByte()
	if string(got) != string(want) || err != io.EOF {
		return fmt.Errorf("%w: the backup is not what was written", mover.ErrCorrupt)
	}
	return nil
}

// notBackup makes err the kind ErrCorrupt.
func notBackup(err error) error {
	return fmt.Errorf("%w: the backup is cut off or changed: %w", mover.ErrCorrupt, err)
}

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
