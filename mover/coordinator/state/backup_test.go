package state

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/protodelim"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// backedUp returns a backup of a ledger.
func backedUp(t testing.TB, l *Ledger) []byte {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, l.Backup(&b))
	return b.Bytes()
}

// restored returns a ledger that is made of a backup of another.
func restored(t testing.TB, l *Ledger) *Ledger {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "restored")
	must.Do(t, Restore(dir, bytes.NewReader(backedUp(t, l)), nil))
	other := opened(t, dir, Options{})
	t.Cleanup(func() { closed(t, other) })
	return other
}

func TestBackup(t *testing.T) {
	l := fresh(t, Options{})
	for n := range 2000 {
		mess(t, l, n)
	}
	epoch := must.Get(l.Epoch(t.Context()))(t)
	want := dump(t, l)
	other := restored(t, l)
	if other.Term() <= l.Term()+1<<10 {
		t.Errorf("term %d after %d and many that may have followed", other.Term(), l.Term())
	}
	if other.Sequence() != l.Sequence()+1 { // its own term
		t.Errorf("sequence %d after %d", other.Sequence(), l.Sequence())
	}
	if next, err := other.Epoch(t.Context()); err != nil || next <= epoch {
		t.Errorf("epoch %d after %d, %v", next, epoch, err)
	}
	got := dump(t, other)
	for _, m := range []map[string]string{want, got} {
		delete(m, string(counters.row(appendKey(nil, counterTerm))))
		delete(m, string(counters.row(appendKey(nil, counterEpoch))))
		delete(m, string([]byte{keyStore, storeSequence}))
		delete(m, string([]byte{keyStore, storeIndexed}))
	}
	sameDump(t, want, got)
}

// hook calls once when something is written to it.
type hook struct {
	bytes.Buffer
	once sync.Once
	call func()
}

func (h *hook) Write(b []byte) (int, error) {
	h.once.Do(h.call)
	return h.Buffer.Write(b)
}

// A backup is of one moment, whatever is changed while it is written.
func TestBackupMeanwhile(t *testing.T) {
	l := fresh(t, Options{})
	for n := range 1000 {
		mess(t, l, n)
	}
	h := &hook{call: func() {
		for n := range 1000 {
			update(t, l, func(tx *Tx) error {
				return errors.Join(Tasks.Delete(tx, queuedTask(n).Id), Tasks.Put(tx, queuedTask(n+5000)))
			})
		}
	}}
	must.Do(t, l.Backup(h))
	dir := t.TempDir()
	must.Do(t, Restore(dir, &h.Buffer, nil))
	other := opened(t, dir, Options{})
	defer closed(t, other)
	view(t, other, func(tx *Tx) error {
		n, err := CountTasks(tx, TaskFilter{})
		if n != 1000 {
			t.Errorf("%d tasks", n)
		}
		_, missing := Tasks.Get(tx, queuedTask(999).Id)
		return errors.Join(err, missing)
	})
}

// A backup that is cut off or changed is refused, and leaves nothing.
func TestHostileBackup(t *testing.T) {
	l := fresh(t, Options{})
	for n := range 20 {
		mess(t, l, n)
	}
	whole := backedUp(t, l)
	refused := func(name string, b []byte) {
		t.Helper()
		dir := filepath.Join(t.TempDir(), "ledger")
		err := Restore(dir, bytes.NewReader(b), nil)
		if !errors.Is(err, mover.ErrCorrupt) && !errors.Is(err, mover.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(dir); !errors.Is(err, mover.ErrNotExist) {
			t.Errorf("%s left something: %v", name, err)
		}
	}
	step := len(whole) / 60
	if testing.Short() {
		step = len(whole) / 10
	}
	for n := 0; n < len(whole); n += step {
		refused("cut off", whole[:n])
		flipped := bytes.Clone(whole)
		flipped[n] ^= 4
		refused("flipped", flipped)
	}
	refused("more behind it", append(bytes.Clone(whole), 0))
	for name, r := range map[string]*ledgerv1.Record{
		"an unknown table":  {Changes: []*ledgerv1.Change{{Table: "later"}}},
		"a deletion":        {Changes: []*ledgerv1.Change{{Table: "tasks", Key: appendKey(nil, "a"), Deleted: true}}},
		"a wrong key":       {Changes: []*ledgerv1.Change{{Table: "revoked", Key: appendKey(nil, "b"), Value: []byte("\n\x01a")}}},
		"no key":            {Changes: []*ledgerv1.Change{{Table: "revoked", Key: appendKey(nil, "")}}},
		"no message":        {Changes: []*ledgerv1.Change{{Table: "revoked", Value: []byte{255}}}},
		"a long record":     {Changes: []*ledgerv1.Change{{Table: "revoked", Value: make([]byte, 2*RecordBytes)}}},
		"nothing but a key": {Changes: []*ledgerv1.Change{{Table: "tasks", Key: appendKey(nil, "a")}}},
	} {
		refused(name, sealed(t, &ledgerv1.BackupHeader{Ledger: "x", Sequence: 1}, r))
	}
	refused("of no ledger", sealed(t, &ledgerv1.BackupHeader{}))
}

// sealed makes a backup with a right checksum.
func sealed(t testing.TB, h *ledgerv1.BackupHeader, records ...*ledgerv1.Record) []byte {
	t.Helper()
	b := bytes.NewBufferString(backupLine)
	_, err := protodelim.MarshalTo(b, h)
	must.Do(t, err)
	for _, r := range append(records, &ledgerv1.Record{}) {
		_, err := protodelim.MarshalTo(b, r)
		must.Do(t, err)
	}
	sum := sha256.Sum256(b.Bytes())
	return append(b.Bytes(), sum[:]...)
}

// A directory with anything in it is not restored into, but for an interrupted restore.
func TestRestoreInto(t *testing.T) {
	l := fresh(t, Options{})
	mess(t, l, 1)
	backup := backedUp(t, l)
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "precious"), nil, 0o600))
	if err := Restore(dir, bytes.NewReader(backup), nil); !errors.Is(err, mover.ErrConflict) {
		t.Errorf("into a directory with a file: %v", err)
	}
	must.Do(t, os.Remove(filepath.Join(dir, "precious")))
	must.Do(t, (&identity{Format: format, Ledger: "x", State: stateRestoring}).write(dir))
	must.Do(t, os.MkdirAll(filepath.Join(dir, "store"), 0o700))
	must.Do(t, os.WriteFile(filepath.Join(dir, "store", "000001.sst"), []byte("half"), 0o600))
	if _, err := Open(dir, Options{}); !errors.Is(err, mover.ErrCorrupt) {
		t.Errorf("Open of half a restore = %v", err)
	}
	must.Do(t, Restore(dir, bytes.NewReader(backup), nil))
	closed(t, opened(t, dir, Options{}))
	if err := Restore(dir, bytes.NewReader(backup), nil); !errors.Is(err, mover.ErrConflict) {
		t.Errorf("over a ledger: %v", err)
	}
}

// Whatever a backup is, reading it neither panics nor takes more memory than it may.
func FuzzBackup(f *testing.F) {
	f.Add(sealed(f, &ledgerv1.BackupHeader{Ledger: "x", Sequence: 1},
		&ledgerv1.Record{Changes: []*ledgerv1.Change{{Table: "revoked", Key: appendKey(nil, "a"), Value: []byte("\n\x01a")}}}))
	f.Add([]byte(backupLine))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := newReader(bytes.NewReader(b))
		if _, err := r.header(); err != nil {
			return
		}
		for {
			record, err := r.record()
			if err != nil || record == nil {
				return
			}
		}
	})
}
