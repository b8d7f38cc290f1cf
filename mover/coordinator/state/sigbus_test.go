package state

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/kvstore"
	"datamove.dev/test/kill"
	"datamove.dev/test/loopfs"
	"datamove.dev/test/must"
)

// flood changes a ledger as fast as it can, with a ballast on its disk, so that tables are flushed and merged all the time. It says what was done, and what was
// refused because the disk is full; then it goes on. The argument is the directory, and on a second line another one, on whose disk the ledger looks for room: so it
// never refuses anything.
func flood(argument string) error {
	dir, elsewhere, blind := strings.Cut(argument, "\n")
	ballast, err := OpenBallast(filepath.Dir(dir), slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	l, err := begin(dir, Options{Ballast: ballast, Logger: slog.New(stuck{slog.DiscardHandler})})
	if err != nil {
		return err
	}
	if blind {
		if l.lock, err = kvstore.Acquire(elsewhere, "nothing"); err != nil {
			return err
		}
	}
	id, err := l.identify()
	if err == nil {
		err = l.load(id)
	}
	if err == nil {
		err = l.start(id)
	}
	if err != nil {
		return err
	}
	kill.Say("term", l.Term())
	failed := make(chan error)
	one := func(d Durability, say []any, change func(*Tx) error) {
		switch err := l.Update(context.Background(), d, change); {
		case err == nil:
			kill.Say(say...)
		case errors.Is(err, mover.ErrFull):
			kill.Say("refused", 0)
		default:
			failed <- err
		}
	}
	for kind, d := range []Durability{Soon, Durable} {
		go func() {
			for n := int(l.Term())*1_000_000 + kind; ; n += 2 {
				one(d, []any{[]string{"soon", "durable"}[d], n}, func(tx *Tx) error { return five(tx, n) })
			}
		}()
	}
	go func() {
		body := make([]byte, 300<<10)
		for n := 0; ; n++ {
			rand.NewChaCha8([32]byte{byte(n)}).Read(body) //nolint:errcheck // never fails
			one(Soon, []any{"bulk", n}, func(tx *Tx) error {
				return Works.Put(tx, &ledgerv1.Work{Task: "bulk", Batch: Number(uint64(n * 7 % 100)), Work: body})
			})
		}
	}()
	return <-failed
}

// stuck says a line when Badger can not write a table because the disk is full. It tries again each second, and changes wait for it:
// no other line need come until there is room.
type stuck struct{ slog.Handler }

func (stuck) Enabled(context.Context, slog.Level) bool { return true }

func (stuck) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "error flushing memtable") && strings.Contains(r.Message, syscall.ENOSPC.Error()) {
		kill.Say("stuck", 0)
	}
	return nil
}

// filler takes a disk as another process does.
type filler struct {
	*os.File
	size int64
}

// more takes that many bytes, or what there is, and reports whether the disk is full.
func (f *filler) more(t testing.TB, bytes int64) (full bool) {
	t.Helper()
	for bytes >= 4<<10 {
		chunk := min(bytes, 64<<20)
		switch err := unix.Fallocate(int(f.Fd()), 0, f.size, chunk); {
		case err == nil:
			f.size += chunk
			bytes -= chunk
		case errors.Is(err, unix.ENOSPC):
			bytes, full = chunk/2, true
		default:
			t.Fatal(err)
		}
	}
	return full
}

// ending is how a flood ended.
type ending struct {
	refusals int    // that it said
	sigbus   bool   // else Badger ended it, it was killed, or said why it ended
	why      string // the last that it said
}

// flooded runs a flood beside a filler that takes so many bytes at each line. It ends with a signal, or is killed when it has refused often enough on a full
// disk, or waits for room there.
func flooded(t testing.TB, argument string, f *filler, lines int, bytes int64, s *told) (e ending) {
	t.Helper()
	c := kill.Command("flood", argument)
	out := must.Get(c.StdoutPipe())(t)
	var stderr strings.Builder
	c.Stderr = &stderr
	must.Do(t, c.Start())
	hear, full := s.hear(t), false
	for said := bufio.NewScanner(out); said.Scan(); {
		word, _, _ := strings.Cut(said.Text(), " ")
		switch word {
		case "refused":
			e.refusals++
		case "stuck":
		default:
			hear(said.Text())
		}
		if lines--; lines < 0 {
			full = f.more(t, bytes) || full
		}
		if full && (e.refusals >= 30 || word == "stuck") {
			_ = c.Process.Kill() // it may have ended
		}
	}
	_ = c.Wait() // the state tells how
	status := c.ProcessState.Sys().(syscall.WaitStatus)
	e.why = stderr.String()
	e.sigbus = strings.Contains(e.why, "SIGBUS")
	// A disk that has no room for one more file, as a full xfs, leaves Badger 4.9.6 without a memtable. Its next write ends the process
	// (y.AssertTrue in ensureRoomForWrite), or its next read panics. No caller can prevent that: the next batch may be on its way.
	tableless := strings.Contains(e.why, "Assert failed") || strings.Contains(e.why, "(*memTable).IncrRef")
	if killed := status.Signaled() && status.Signal() == syscall.SIGKILL; !killed && !e.sigbus && !tableless && !strings.Contains(e.why, mover.ErrFull.Error()) {
		t.Fatalf("it ended: %v\n%s", c.ProcessState, e.why)
	}
	return e
}

// TestKillByFullDisk: another process fills the disk of a ledger, at once or in steps, while tables are flushed and merged, and once more when a new process has opened it
// on the full disk. Badger writes tables to mappings, where a full disk is SIGBUS. That end is a kill as any other: all that a method returned for is there, nothing is there in
// part, and with room the ledger opens. A ledger that looks for room on another disk meets the signal for sure.
//
//safety:3 another process fills the disk of the ledger, and SIGBUS ends the process that writes there: all that a method returned for is there
func TestKillByFullDisk(t *testing.T) {
	random, said := kill.Random(t), 0
	for n := range kill.Times(3, 60) {
		system := []string{"ext4", "xfs", "btrfs"}[n%3]
		blind := n%2 == 0
		t.Run(fmt.Sprintf("%s %d", system, n), func(t *testing.T) {
			disk := loopfs.Mount(t, loopfs.Spec{Type: system, Bytes: 1 << 30, Make: map[string][]string{"ext4": {"-q", "-m", "0"}, "xfs": {"-q"}, "btrfs": {"-q"}}[system]})
			dir, s := filepath.Join(disk, "ledger"), &told{}
			argument := dir
			if blind {
				argument += "\n" + t.TempDir()
			}
			f := &filler{File: must.Get(os.Create(filepath.Join(disk, "other")))(t)}
			defer f.Close()
			lines, bytes := 50+random.IntN(600), int64(1)<<(20+random.IntN(12))
			t.Logf("from line %d on %d MiB a line", lines, bytes>>20)
			for _, when := range []string{"it is filled", "it was full before"} {
				e := flooded(t, argument, f, lines, bytes, s)
				t.Logf("%s: SIGBUS %v, refused %d", when, e.sigbus, e.refusals)
				if blind && system == "ext4" && !e.sigbus { // others may have an error before
					t.Errorf("%s: it looks for no room there, and ended: %s", when, e.why)
				}
				lines = 0
			}
			must.Do(t, errors.Join(f.Truncate(0), kvstore.SyncFile(disk)))
			if system == "btrfs" {
				must.Do(t, loopfs.CleanUp(disk))
			}
			s.compare(t, dir, true)
			said += len(s.durable) + len(s.soon)
		})
	}
	if said == 0 {
		t.Error("nothing was ever acknowledged")
	}
}
