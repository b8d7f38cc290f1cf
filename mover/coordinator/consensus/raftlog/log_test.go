package raftlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"datamove.dev/mover"
	"datamove.dev/test/crash/rig"
	"datamove.dev/test/must"
	_ "datamove.dev/test/seed/property"
)

func entry(index, term uint64) *raft.Log {
	e := &raft.Log{Index: index, Term: term, Type: raft.LogCommand, Data: fmt.Append(nil, "data of ", index), AppendedAt: time.Unix(0, int64(index))}
	if index%3 == 0 {
		e.Extensions = []byte{byte(index)}
	}
	return e
}

func entries(from, to, term uint64) (all []*raft.Log) {
	for ; from <= to; from++ {
		all = append(all, entry(from, term))
	}
	return all
}

func opened(t testing.TB, dir string, segment int64) *Log {
	t.Helper()
	l := must.Get(Open(dir))(t)
	l.segment = segment
	return l
}

// holds compares a log with entries from one to another.
func holds(t testing.TB, l *Log, from, to uint64, term func(uint64) uint64) {
	t.Helper()
	first, last := must.Get(l.FirstIndex())(t), must.Get(l.LastIndex())(t)
	if first != from || last != to {
		t.Fatalf("entries %d to %d, want %d to %d", first, last, from, to)
	}
	for i := from; i > 0 && i <= to; i++ {
		var got raft.Log
		must.Do(t, l.GetLog(i, &got))
		want := entry(i, term(i))
		if got.Index != want.Index || got.Term != want.Term || got.Type != want.Type || string(got.Data) != string(want.Data) || string(got.Extensions) != string(want.Extensions) || !got.AppendedAt.Equal(want.AppendedAt) {
			t.Fatalf("entry %+v, want %+v", got, *want)
		}
	}
	for _, i := range []uint64{0, from - 1, to + 1} {
		if err := l.GetLog(i, &raft.Log{}); i != 0 && !errors.Is(err, raft.ErrLogNotFound) {
			t.Fatalf("entry %d: %v", i, err)
		}
	}
}

func one(uint64) uint64 { return 1 }

// A log is what its operations say, also after it was opened again.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir := must.Get(os.MkdirTemp("", "raftlog"))(t)
		defer os.RemoveAll(dir)
		l := must.Get(Open(dir))(t)
		defer func() { must.Do(t, l.Close()) }()
		l.segment = 200
		first, last, terms := uint64(1), uint64(0), map[uint64]uint64{}
		compare := func() {
			gotFirst, gotLast := must.Get(l.FirstIndex())(t), must.Get(l.LastIndex())(t)
			if last < first {
				if gotFirst != 0 || gotLast != 0 {
					t.Fatalf("entries %d to %d, want none", gotFirst, gotLast)
				}
				return
			}
			if gotLast != last || gotFirst != first {
				t.Fatalf("entries %d to %d, want %d to %d", gotFirst, gotLast, first, last)
			}
			for i := first; i <= last; i++ {
				var got raft.Log
				must.Do(t, l.GetLog(i, &got))
				if got.Index != i || got.Term != terms[i] {
					t.Fatalf("entry %d of term %d, want %d of %d", got.Index, got.Term, i, terms[i])
				}
			}
		}
		for range rapid.IntRange(1, 30).Draw(t, "operations") {
			switch rapid.IntRange(0, 6).Draw(t, "operation") {
			case 0, 1, 2:
				term := rapid.Uint64Range(1, 9).Draw(t, "term")
				some := entries(last+1, last+rapid.Uint64Range(1, 8).Draw(t, "more"), term)
				for _, e := range some {
					terms[e.Index] = term
				}
				must.Do(t, l.StoreLogs(some))
				last += uint64(len(some))
			case 3: // the end conflicts
				if last >= first {
					from := rapid.Uint64Range(first, last).Draw(t, "from")
					must.Do(t, l.DeleteRange(from, last))
					last = from - 1
				}
			case 4: // a snapshot has the beginning
				if last >= first {
					to := rapid.Uint64Range(first, last).Draw(t, "to")
					must.Do(t, l.DeleteRange(first, to))
					first = to + 1
				}
			case 5: // a snapshot has more than all
				last += rapid.Uint64Range(2, 9).Draw(t, "gap")
				must.Do(t, l.StoreLog(entry(last, 3)))
				first, terms[last] = last, 3
			case 6:
				must.Do(t, l.Close())
				l = must.Get(Open(dir))(t)
				l.segment = 200
				if got := must.Get(l.FirstIndex())(t); got > 0 && got < first && last >= first { // entries before a snapshot may be back
					first = got
				} else if last < first && got > 0 {
					first, last = got, must.Get(l.LastIndex())(t)
				}
			}
			compare()
		}
	})
}

// What a StoreLogs that did not return leaves at the end of the log is cut off; entries for which one returned are there, and the log goes on.
func TestTornTail(t *testing.T) {
	dir := t.TempDir()
	l := opened(t, dir, 1<<20)
	must.Do(t, l.StoreLogs(entries(1, 5, 1)))
	must.Do(t, l.Close())
	path := segmentPath(dir, 1)
	whole := must.Get(os.ReadFile(path))(t)
	var more []byte
	for _, e := range entries(6, 8, 1) {
		more = appendEntry(more, e)
	}
	one5 := func(n int, tail []byte, whole5 uint64) {
		t.Helper()
		must.Do(t, os.WriteFile(path, append(append([]byte(nil), whole...), tail...), 0o600))
		l := opened(t, dir, 1<<20)
		last := must.Get(l.LastIndex())(t)
		if last < 5 || last > whole5 {
			t.Errorf("tail %d: it ends with entry %d", n, last)
		}
		must.Do(t, l.StoreLogs(entries(last+1, 9, 1)))
		holds(t, l, 1, 9, one)
		must.Do(t, l.Close())
		l = opened(t, dir, 1<<20)
		holds(t, l, 1, 9, one)
		must.Do(t, l.DeleteRange(6, 9))
		must.Do(t, l.Close())
	}
	for n := 0; n < len(more); n += 3 {
		one5(n, more[:n], 7)
		torn := append([]byte(nil), more...)
		clear(torn[n:min(n+20, len(torn))]) // a block that did not get there, and later ones that did
		one5(n, torn, 8)
	}
	one5(-1, make([]byte, 4096), 5)
	torn := append([]byte(nil), more...) // entry 6 is broken, and 7 is behind it: it must not be back when another 6 is stored
	torn[10] ^= 1
	must.Do(t, os.WriteFile(path, append(append([]byte(nil), whole...), torn...), 0o600))
	l = opened(t, dir, 1<<20)
	must.Do(t, l.StoreLog(entry(6, 1)))
	must.Do(t, l.Close())
	l = opened(t, dir, 1<<20)
	holds(t, l, 1, 6, one)
	must.Do(t, l.Close())
}

// An entry before the tail that is not what was written is damage, and so are a segment or a tail that is gone.
func TestDamage(t *testing.T) {
	for name, harm := range map[string]func(dir string) error{
		"a flipped bit in an older segment": func(dir string) error { return flip(segmentPath(dir, 1), 60) },
		"a flipped bit in the name":         func(dir string) error { return flip(segmentPath(dir, 1), 3) },
		"a cut older segment":               func(dir string) error { return os.Truncate(segmentPath(dir, 1), 90) },
		"a missing segment":                 func(dir string) error { return os.Remove(segments(dir)[1]) },
		"a missing newest segment":          func(dir string) error { all := segments(dir); return os.Remove(all[len(all)-1]) },
		"a cut tail":                        func(dir string) error { return os.Truncate(segments(dir)[len(segments(dir))-1], 30) },
		"no segments": func(dir string) (err error) {
			for _, path := range segments(dir) {
				err = errors.Join(err, os.Remove(path))
			}
			return err
		},
	} {
		dir := t.TempDir()
		l := opened(t, dir, 100)
		for _, e := range entries(1, 12, 1) {
			must.Do(t, l.StoreLog(e))
		}
		must.Do(t, l.Close())
		must.Do(t, harm(dir))
		if l, err := Open(dir); !errors.Is(err, mover.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
			if err == nil {
				must.Do(t, l.Close())
			}
		}
	}
}

func segments(dir string) []string {
	all, _ := filepath.Glob(filepath.Join(dir, "*.log"))
	return all
}

func flip(path string, at int) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	b[at] ^= 4
	return os.WriteFile(path, b, 0o600)
}

// Entries that do not follow the last one are refused.
func TestOrder(t *testing.T) {
	l := opened(t, t.TempDir(), 1<<20)
	defer l.Close()
	must.Do(t, l.StoreLogs(entries(1, 3, 1)))
	for _, some := range [][]*raft.Log{entries(3, 4, 1), {entry(4, 1), entry(6, 1)}} {
		if err := l.StoreLogs(some); !errors.Is(err, mover.ErrConflict) {
			t.Errorf("StoreLogs = %v", err)
		}
	}
	if err := l.DeleteRange(2, 2); !errors.Is(err, mover.ErrUsage) {
		t.Errorf("DeleteRange of the middle = %v", err)
	}
	holds(t, l, 1, 3, one)
}

// A full disk is an error, and the log goes on when there is room. Votes need none.
func TestFullDisk(t *testing.T) {
	dir := rig.Tmpfs(t, "size=1m")
	l := opened(t, dir, 1<<20)
	defer l.Close()
	s := must.Get(OpenStable(dir))(t)
	defer s.Close()
	must.Do(t, l.StoreLogs(entries(1, 3, 1)))
	big := entry(4, 1)
	big.Data = make([]byte, 2<<20)
	if err := l.StoreLogs([]*raft.Log{big, entry(5, 1)}); !errors.Is(err, mover.ErrFull) || !errors.Is(err, unix.ENOSPC) {
		t.Errorf("StoreLogs = %v", err)
	}
	holds(t, l, 1, 3, one)
	rest := must.Get(os.Create(filepath.Join(dir, "other")))(t)
	for chunk := make([]byte, 4096); ; {
		if _, err := rest.Write(chunk); err != nil {
			break
		}
	}
	must.Do(t, rest.Close())
	must.Do(t, s.SetUint64([]byte("term"), 7))
	must.Do(t, os.Remove(rest.Name()))
	must.Do(t, l.StoreLogs(entries(4, 6, 1)))
	holds(t, l, 1, 6, one)
}

// After a failed sync nothing is known of the disk: nothing is taken.
func TestBroken(t *testing.T) {
	l := opened(t, t.TempDir(), 1<<20)
	must.Do(t, l.StoreLogs(entries(1, 3, 1)))
	bad := errors.New("input/output error")
	_ = l.breaks(bad)
	for _, err := range []error{l.StoreLog(entry(4, 1)), l.DeleteRange(1, 2)} {
		if !errors.Is(err, bad) {
			t.Errorf("it takes more: %v", err)
		}
	}
	must.Do(t, l.Close())
}

// Values are there after each Set, whatever the next one has left in the other slot.
func TestStable(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, stableName)
	for turn := range uint64(6) {
		s := must.Get(OpenStable(dir))(t)
		if got := must.Get(s.GetUint64([]byte("term")))(t); got != turn {
			t.Fatalf("%d after %d", got, turn)
		}
		must.Do(t, s.Set([]byte("vote"), fmt.Append(nil, "member ", turn)))
		for range 1 + turn%2 {
			must.Do(t, s.SetUint64([]byte("term"), turn+1))
		}
		must.Do(t, s.Close())
		whole := must.Get(os.ReadFile(path))(t)
		for at := range slotBytes / 64 { // the next write goes to the slot that is not the newest
			torn := append([]byte(nil), whole...)
			begin := int((s.turn + 1) % 2 * slotBytes)
			copy(torn[begin:begin+at*64], "torn torn torn torn torn torn torn torn torn torn torn torn torn torn torn")
			must.Do(t, os.WriteFile(path, torn, 0o600))
			s := must.Get(OpenStable(dir))(t)
			if got := must.Get(s.Get([]byte("vote")))(t); string(got) != fmt.Sprint("member ", turn) {
				t.Fatalf("vote %q in turn %d", got, turn)
			}
			must.Do(t, s.Close())
		}
		must.Do(t, os.WriteFile(path, whole, 0o600))
	}
	must.Do(t, os.WriteFile(path, []byte("both slots"), 0o600))
	if _, err := OpenStable(dir); !errors.Is(err, mover.ErrCorrupt) {
		t.Errorf("OpenStable = %v", err)
	}
	garbage := make([]byte, 2*slotBytes)
	for i := range garbage {
		garbage[i] = byte(i)
	}
	must.Do(t, os.WriteFile(path, garbage, 0o600))
	if _, err := OpenStable(dir); !errors.Is(err, mover.ErrCorrupt) {
		t.Errorf("OpenStable = %v", err)
	}
}
