package state

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/kvstore"
	"datamove.dev/test/crash/rig"
	"datamove.dev/test/loopfs"
	"datamove.dev/test/must"
	"datamove.dev/test/patience"
)

// fill takes what is free on a disk, but for some bytes.
func fill(t *testing.T, dir string, but int64) (other string) {
	t.Helper()
	other = filepath.Join(dir, "other")
	f, err := os.Create(other)
	must.Do(t, err)
	defer f.Close()
	size := int64(0)
	for chunk := int64(64 << 20); chunk >= 4<<10; {
		switch err := unix.Fallocate(int(f.Fd()), 0, size, chunk); {
		case err == nil:
			size += chunk
		case errors.Is(err, unix.ENOSPC):
			chunk /= 2
		default:
			t.Fatal(err)
		}
	}
	must.Do(t, errors.Join(f.Truncate(size-but), f.Sync()))
	return other
}

// A full disk is an error, and not the signal that a write to a mapping gets. Nothing is
// half applied, and when there is room again, all goes on.
func TestFullDisk(t *testing.T) {
	disk := rig.Tmpfs(t, "size=512m")
	dir := filepath.Join(disk, "ledger")
	l := opened(t, dir, Options{})
	for n := range 50 {
		update(t, l, func(tx *Tx) error { return five(tx, n) })
	}
	before, sequence := dump(t, l), l.Sequence()
	other := fill(t, disk, 0)
	for _, d := range []Durability{Soon, Durable} {
		if err := l.Update(context.Background(), d, func(tx *Tx) error { return five(tx, 50) }); !errors.Is(err, mover.ErrFull) {
			t.Errorf("Update = %v", err)
		}
	}
	if _, err := l.Epoch(t.Context()); !errors.Is(err, mover.ErrFull) {
		t.Errorf("Epoch = %v", err)
	}
	if l.Sequence() != sequence {
		t.Errorf("record %d came after %d", l.Sequence(), sequence)
	}
	sameDump(t, before, dump(t, l))
	if err := l.Close(); !errors.Is(err, mover.ErrFull) {
		t.Errorf("Close = %v", err)
	}
	must.Do(t, os.Remove(other))
	update(t, l, func(tx *Tx) error { return five(tx, 50) })
	_, err := l.Epoch(t.Context())
	must.Do(t, err)
	closed(t, l)
	fill(t, disk, closeBytes)
	if _, err := Open(dir, Options{}); !errors.Is(err, mover.ErrFull) {
		t.Errorf("Open = %v, want ErrFull and no damage", err)
	}
	must.Do(t, os.Remove(other))
	l = opened(t, dir, Options{})
	view(t, l, func(tx *Tx) error {
		there, err := fiveThere(tx, 50)
		if !there {
			t.Error("what was written when there was room is lost")
		}
		return err
	})
	closed(t, l)
}

// A ledger that fills the disk by itself stops in time, while tables are made and
// merged, and loses nothing.
func TestFillsDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 320 MiB")
	}
	disk := rig.Tmpfs(t, "size=320m")
	dir := filepath.Join(disk, "ledger")
	l := opened(t, dir, Options{})
	n, body := 0, make([]byte, RecordBytes-200)
	put := func(tx *Tx) error {
		return Works.Put(tx, &ledgerv1.Work{Task: "t", Batch: Number(uint64(n)), Work: body})
	}
	for ; ; n++ {
		if err := l.Update(context.Background(), Durability(n%2), put); errors.Is(err, mover.ErrFull) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if n < 50 {
		t.Errorf("it was full after %d MB of 320", n)
	}
	closed(t, l)
	other := opened(t, copied(t, dir), Options{})
	defer closed(t, other)
	view(t, other, func(tx *Tx) error {
		got := all(t, (*ledgerv1.Work).GetBatch, Works.All(tx, Range{}))
		if len(got) != n {
			t.Errorf("%d of %d rows", len(got), n)
		}
		return nil
	})
}

// A disk that is full to the last byte is no hindrance to a ledger that has a ballast: it opens, and takes what frees room until it is told that there is
// some for new things, too.
func TestBallast(t *testing.T) {
	disk := loopfs.Mount(t, loopfs.Spec{Type: "ext4", Bytes: 1 << 30, Make: []string{"-q", "-m", "0"}})
	dir := filepath.Join(disk, "ledger")
	begin := func() *Ledger {
		ballast, err := OpenBallast(disk, slog.New(slog.DiscardHandler))
		must.Do(t, err)
		return opened(t, dir, Options{Ballast: ballast})
	}
	l := begin() // a new one merges no tables while its disk is filled
	must.Do(t, errors.Join(l.Admits(), l.ballast.Spares(dir)))
	other := fill(t, disk, 0)
	must.Do(t, l.ballast.Spares(t.TempDir()))
	if err := l.ballast.Spares(dir); !errors.Is(err, mover.ErrFull) {
		t.Errorf("nothing is free: Spares = %v", err)
	}
	update(t, l, func(tx *Tx) error { return five(tx, 50) })
	if err := l.Admits(); !errors.Is(err, mover.ErrFull) {
		t.Errorf("it was filled while it was open: Admits = %v", err)
	}
	must.Do(t, errors.Join(os.Remove(other), kvstore.SyncFile(disk)))
	must.Do(t, l.Admits())
	closed(t, l)
	other = fill(t, disk, 0)
	for _, when := range []string{"it was filled", "it was full then, too"} {
		l = begin()
		for n := range 50 {
			update(t, l, func(tx *Tx) error { return five(tx, n) })
		}
		if err := l.Admits(); !errors.Is(err, mover.ErrFull) {
			t.Errorf("%s: Admits = %v", when, err)
		}
		closed(t, l)
	}
	must.Do(t, errors.Join(os.Remove(other), kvstore.SyncFile(disk)))
	l = begin()
	must.Do(t, l.Admits())
	closed(t, l)
}

// TestRoomIsLookedAt: a ledger that nothing changes, and whose next sync is an hour away, gives the ballast back to a disk that becomes full.
func TestRoomIsLookedAt(t *testing.T) {
	disk := loopfs.Mount(t, loopfs.Spec{Type: "ext4", Bytes: 1 << 30, Make: []string{"-q", "-m", "0"}})
	ballast, err := OpenBallast(disk, slog.New(slog.DiscardHandler))
	must.Do(t, err)
	l := opened(t, filepath.Join(disk, "ledger"), Options{Ballast: ballast, SyncEvery: time.Hour})
	defer closed(t, l)
	fill(t, disk, 0)
	patience.Until(t, "the ballast is given back", nil, func() bool {
		return must.Get(os.Stat(filepath.Join(disk, kvstore.BallastName)))(t).Size() == 0
	})
}
