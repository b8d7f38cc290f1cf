package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"log/slog"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/test/must"
)

// Everything in the directory of a user counts, by its blocks and never less than a little; what is behind a link does not.
func TestMeasure(t *testing.T) {
	const most = 1 << 20
	write := func(t *testing.T, path string, size int) {
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Do(t, os.WriteFile(path, make([]byte, size), 0o600))
	}
	for _, row := range []struct {
		what     string
		make     func(t *testing.T, dir string)
		min, max int64
	}{
		{"nothing", func(*testing.T, string) {}, 0, 0},
		{"a large file", func(t *testing.T, dir string) { write(t, dir+"/a", 300<<10) }, 300 << 10, 310 << 10},
		{"a large file in a directory", func(t *testing.T, dir string) { write(t, dir+"/x/y/a", 300<<10) }, 300<<10 + 2*leastBytes, 310<<10 + 2*leastBytes},
		{"a file of no blocks that seems large", func(t *testing.T, dir string) {
			write(t, dir+"/a", 0)
			must.Do(t, os.Truncate(dir+"/a", 1<<40))
		}, leastBytes, leastBytes},
		{"small files", func(t *testing.T, dir string) {
			for n := range 10 {
				write(t, fmt.Sprint(dir, "/", n), 1)
			}
		}, 10 * leastBytes, 10 * leastBytes},
		{"what is elsewhere", func(t *testing.T, dir string) {
			other := t.TempDir()
			write(t, other+"/a", 300<<10)
			must.Do(t, errors.Join(os.Symlink(other, dir+"/folder"), os.Symlink(other+"/a", dir+"/file")))
		}, 2 * leastBytes, 2 * leastBytes},
		{"too much", func(t *testing.T, dir string) { write(t, dir+"/a", 2<<20) }, most + 1, 1 << 30},
		{"too many files", func(t *testing.T, dir string) {
			for n := range most/leastBytes + 1 {
				write(t, fmt.Sprint(dir, "/", n), 0)
			}
		}, most + 1, most + leastBytes},
		{"too deep", func(t *testing.T, dir string) { write(t, dir+strings.Repeat("/d", deepest)+"/a", 1) }, most + 1, 1 << 30},
	} {
		t.Run(row.what, func(t *testing.T) {
			dir := t.TempDir()
			row.make(t, dir)
			if got := must.Get(measure(dir, most))(t); got < row.min || got > row.max {
				t.Errorf("%d, want %d to %d", got, row.min, row.max)
			}
		})
	}
	file := t.TempDir() + "/link"
	must.Do(t, os.Symlink(t.TempDir(), file))
	if _, err := measure(file, most); err == nil {
		t.Error("a link in the place of the directory is followed")
	}
}

// An account has as much as its quota says; the coordinator hears of it once, and again in a new conversation.
func TestJournalsQuota(t *testing.T) {
	dir := t.TempDir()
	conf := &config.Config{Quotas: config.Quotas{Users: map[string]config.Quota{"alice": {Journals: 1 << 20}}}}
	a := &Agent{o: Options{Config: func() *config.Config { return conf }}, changed: make(chan struct{}, 1)}
	alice := &pb.Account{Name: "alice", Uid: uint32(os.Geteuid())} // as root she has one only because she is named
	must.Do(t, os.WriteFile(dir+"/a", make([]byte, 100<<10), 0o600))
	must.Tell(t, a.mayWrite(alice, dir))
	must.Do(t, os.WriteFile(dir+"/b", make([]byte, 2<<20), 0o600))
	err := a.mayWrite(alice, dir)
	if !errors.Is(err, mover.ErrRefused) || !errors.Is(err, mover.ErrQuota) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "quotas.users.alice.journals") {
		t.Errorf("with too much: %v", err)
	}
	must.Tell(t, a.mayWrite(&pb.Account{Name: "root", Uid: alice.GetUid()}, dir))
	for i, want := range []int{1, 0, 1} {
		s := &agentv1.Status{}
		if a.journals.tell(s, i == 2); len(s.GetJournals()) != want {
			t.Fatalf("status %d tells of %v", i, s.GetJournals())
		}
		for _, j := range s.GetJournals() {
			if j.GetOwner().GetName() != "alice" || j.GetBytes() < 2<<20 || j.GetLimit() != 1<<20 {
				t.Errorf("it tells %v", j)
			}
		}
	}
}

// While the disk of the ledger has little room, an agent beside it takes nothing, and says why.
func TestSparesTheLedger(t *testing.T) {
	full := fmt.Errorf("%w: little is free", mover.ErrFull)
	a := &Agent{o: Options{Data: t.TempDir(), LeadSlots: 16, BatchSlots: 4, Spares: func(string) error { return full }}, changed: make(chan struct{}, 1), log: slog.New(slog.DiscardHandler)}
	a.lookAtRoom()
	if s := a.status(1); s.GetLeadSlots() != 0 || s.GetBatchSlots() != 0 || s.GetFull() != full.Error() {
		t.Errorf("it tells %v", s)
	}
	full = nil
	a.lookAtRoom()
	if s := a.status(2); s.GetLeadSlots() != 16 || s.GetBatchSlots() != 4 || s.GetFull() != "" {
		t.Errorf("it tells %v when there is room again", s)
	}
}
