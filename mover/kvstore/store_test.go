package kvstore_test

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/y"

	"datamove.dev/mover"
	"datamove.dev/mover/kvstore"
	"datamove.dev/test/must"
)

func options(dir string, log *slog.Logger) badger.Options {
	return badger.DefaultOptions(dir).WithMemTableSize(1 << 20).WithValueThreshold(10_000).WithValueLogFileSize(1 << 20).WithBypassLockGuard(true).WithLogger(kvstore.Log(log))
}

// One process has a directory; who ends lets the next one in, and what was not ended is counted.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	first := must.Get(kvstore.Acquire(dir, "catalog"))(t)
	if _, err := kvstore.Acquire(dir, "catalog"); !errors.Is(err, mover.ErrHeld) || !strings.Contains(err.Error(), "this catalog") {
		t.Fatalf("a second one got %v", err)
	}
	if err := first.Room(1 << 62); !errors.Is(err, mover.ErrFull) {
		t.Errorf("room for 4 EiB: %v", err)
	}
	must.Tell(t, first.Room(0))
	for want := range int64(3) {
		if unended, err := first.Opening(); err != nil || unended != want {
			t.Errorf("opening %d: %d, %v", want, unended, err)
		}
	}
	must.Do(t, first.Opened())
	copied := copyOf(t, filepath.Join(dir, kvstore.LockName)) // as a child has it until it runs its program
	first.Release()
	second := must.Get(kvstore.Acquire(dir, "catalog"))(t)
	defer second.Release()
	must.Do(t, copied.Close())
	if unended, err := second.Opening(); err != nil || unended != 0 {
		t.Errorf("after the end of the first: %d, %v", unended, err)
	}
}

// copyOf is another descriptor of an open file of this process, with its locks.
func copyOf(t *testing.T, path string) *os.File {
	t.Helper()
	fds := must.Get(os.ReadDir("/proc/self/fd"))(t)
	for _, fd := range fds {
		if open, _ := os.Readlink("/proc/self/fd/" + fd.Name()); open == path {
			n := must.Get(strconv.Atoi(fd.Name()))(t)
			n = must.Get(syscall.Dup(n))(t)
			return os.NewFile(uintptr(n), path)
		}
	}
	t.Fatal(path, " is not open")
	return nil
}

// What a kill leaves before a log was begun is no damage; a table that is gone is.
func TestOpen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	open := func() error {
		db, err := kvstore.Open(options(dir, nil))
		if err != nil {
			return err
		}
		err = db.Update(func(txn *badger.Txn) error { return txn.Set([]byte("k"), make([]byte, 1000)) })
		return errors.Join(err, kvstore.Sync(dir), db.Close())
	}
	must.Do(t, open())
	for _, name := range []string{"00099.mem", "000099.vlog"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	if err := open(); err != nil {
		t.Fatalf("with logs that were not begun: %v", err)
	}
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal("no table: ", err)
	}
	must.Do(t, os.Truncate(tables[0], 10))
	if err := kvstore.Verify(options(dir, nil)); !errors.Is(err, mover.ErrCorrupt) {
		t.Errorf("a table was cut: %v", err)
	}
	must.Do(t, os.Remove(tables[0]))
	if err := open(); !errors.Is(err, mover.ErrCorrupt) {
		t.Errorf("a table is gone: %v", err)
	}
}

// What the machine lacks is no damage of the store.
func TestKinds(t *testing.T) {
	asText := y.Wrapf(&fs.PathError{Op: "open", Path: "/d/00002.mem", Err: syscall.ENOSPC}, "While opening memtable: %s", "/d/00002.mem")
	if errors.Is(asText, syscall.ENOSPC) {
		t.Error("Badger wraps errors by now: kvstore need not read their text")
	}
	for _, err := range []error{syscall.ENOSPC, syscall.EDQUOT, asText, y.Wrap(asText, "cannot create new mem table")} {
		if err := kvstore.Kind(kvstore.Damage(err)); !errors.Is(err, mover.ErrFull) || errors.Is(err, mover.ErrCorrupt) {
			t.Errorf("%v", err)
		}
	}
	if err := kvstore.Damage(syscall.EMFILE); errors.Is(err, mover.ErrCorrupt) {
		t.Errorf("%v", err)
	}
	if err := kvstore.Kind(kvstore.Damage(badger.ErrTruncateNeeded)); !errors.Is(err, mover.ErrCorrupt) {
		t.Errorf("%v", err)
	}
	caught := func() (err error) {
		defer kvstore.Caught(&err)
		panic("checksum")
	}
	if err := caught(); !errors.Is(err, mover.ErrCorrupt) {
		t.Errorf("%v", err)
	}
}

// Badger's debug talk is heard only where somebody wants it.
func TestLog(t *testing.T) {
	var b strings.Builder
	log := kvstore.Log(slog.New(slog.NewTextHandler(&b, nil)))
	log.Errorf("lost %d\n", 3)
	log.Infof("compacted")
	if got := b.String(); !strings.Contains(got, "level=WARN msg=\"badger: lost 3\"") || strings.Contains(got, "compacted") {
		t.Error(got)
	}
}
