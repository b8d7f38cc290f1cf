package shelf

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/test/kill"
	"datamove.dev/test/must"
	"datamove.dev/tiering/burst"
	"datamove.dev/tiering/burst/pricing"
)

func TestMain(m *testing.M) {
	kill.Main(map[string]func(string) error{"keep": keep, "keep three": keepThree, "hold": hold})
	os.Exit(m.Run())
}

const declared = "kind: Burst\nmetadata: {name: NAME}\nspec:\n  team: a\n  job: {kind: training, gpus: 1}\n  cloud: {tier: c, region: us-east-1}\n  link: {kind: vpn, rate: 1GB}\n  lasts: 1h\n  results: [{path: r, home: /home/r}]\n"

// record is one of a burst, with the n-th of its contents.
func record(name burst.Name, id string, n int64) *burst.Record {
	at := time.Unix(1_800_000_000, 0).UTC()
	return &burst.Record{ID: id, Declaration: strings.Replace(declared, "NAME", string(name), 1), State: burst.Ready, Made: at, Changed: at.Add(time.Duration(n) * time.Second), Reserved: pricing.Money(n),
		Trouble: strings.Repeat(fmt.Sprint(n%10), int(n*977%20_000))}
}

// keep keeps a record after the other and says which.
func keep(dir string) error { return keepMany(dir, math.MaxInt64) }

// keepThree ends after three.
func keepThree(dir string) error { return keepMany(dir, 3) }

func keepMany(dir string, many int64) error {
	s, err := Open(dir)
	if err != nil {
		return err
	}
	h, err := s.Hold("x")
	if err != nil {
		return err
	}
	r, err := h.Record()
	if errors.Is(err, mover.ErrNotExist) {
		r, err = record("x", "0123456789abcdef", 0), nil
	}
	if err != nil {
		return err
	}
	for n := int64(r.Reserved) + 1; n <= many; n++ {
		if err := h.Keep(record("x", "0123456789abcdef", n)); err != nil {
			return err
		}
		kill.Say(n)
	}
	return nil
}

// hold holds a burst until its standard input ends.
func hold(dir string) error {
	s, err := Open(dir)
	if err != nil {
		return err
	}
	h, err := s.Hold("x")
	if err != nil {
		kill.Say(err)
		return nil
	}
	kill.Say("held")
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, h.Release())
}

func is(t testing.TB, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) || kind == nil && err != nil {
		t.Fatalf("the error is %v, and not %v", err, kind)
	}
}

// TestKeep: what was kept is there, the same, and the newest of a name is found.
func TestKeep(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s := must.Get(Open(dir))(t)
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	h := must.Get(s.Hold("x"))(t)
	_, err := h.Record()
	is(t, err, mover.ErrNotExist)
	if all, err := s.All(); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	first, second := record("x", "1", 7), record("x", "2", 8)
	first.State, second.Made = burst.Gone, first.Made.Add(time.Hour)
	for _, r := range []*burst.Record{second, first} {
		is(t, h.Keep(r), nil)
	}
	if got := must.Get(h.Record())(t); !reflect.DeepEqual(got, second) {
		t.Errorf("%+v", got)
	}
	second.Reserved = 9
	is(t, h.Keep(second), nil)
	other := must.Get(s.Hold("y"))(t)
	is(t, other.Keep(record("y", "3", 1)), nil)
	all := must.Get(s.All())(t)
	if len(all) != 3 || all[0].ID != "1" || all[2].ID != "2" || all[2].Reserved != 9 {
		t.Errorf("%+v", all)
	}
	if st, err := os.Stat(filepath.Join(dir, "2.json")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	for _, held := range []*Held{h, other} {
		is(t, held.Release(), nil)
	}
}

// TestNewest: of a name the one that is not over, whatever clocks said; and a record that can not be read stops everything.
func TestNewest(t *testing.T) {
	gone := func(id string, at int) *burst.Record {
		r := record("x", id, 1)
		r.State, r.Made = burst.Gone, time.Unix(int64(at), 0)
		return r
	}
	open := func(id string, at int) *burst.Record { r := gone(id, at); r.State = burst.Ready; return r }
	broken := record("x", "9", 1)
	broken.Declaration = "kind: Burst"
	for _, test := range []struct {
		what string
		all  []*burst.Record
		want string
		kind error
	}{
		{"none", nil, "", mover.ErrNotExist},
		{"others", []*burst.Record{record("y", "1", 1)}, "", mover.ErrNotExist},
		{"the last that is over", []*burst.Record{gone("1", 1), gone("2", 2), record("y", "3", 1)}, "2", nil},
		{"the one that is not", []*burst.Record{gone("1", 1), open("2", 2)}, "2", nil},
		{"also where the clock was set back", []*burst.Record{open("2", 1), gone("1", 2)}, "2", nil},
		{"one that can not be read", []*burst.Record{broken, gone("1", 1)}, "", mover.ErrCorrupt},
	} {
		r, err := Newest(test.all, "x")
		if !errors.Is(err, test.kind) || test.kind == nil && (err != nil || r.ID != test.want) {
			t.Errorf("%s: %+v, %v", test.what, r, err)
		}
	}
}

// TestRefused: what is no record of the burst that is held is not kept, and what was there stays.
func TestRefused(t *testing.T) {
	s := must.Get(Open(t.TempDir()))(t)
	h := must.Get(s.Hold("x"))(t)
	is(t, h.Keep(record("x", "1", 1)), nil)
	nameless, lost := record("x", "2", 1), record("x", "2", 1)
	nameless.Declaration, lost.State = "", ""
	large := record("x", "1", 1)
	large.Trouble = strings.Repeat("x", textMost)
	for _, r := range []*burst.Record{record("x", "", 1), record("x", "../1", 1), record("x", ".", 1), record("x", "A", 1), record("x", "1/2", 1), record("x", strings.Repeat("1", 99), 1), record("y", "2", 1), nameless, lost, large} {
		is(t, h.Keep(r), mover.ErrUsage)
	}
	all := must.Get(s.All())(t)
	if len(all) != 1 || !reflect.DeepEqual(all[0], record("x", "1", 1)) {
		t.Errorf("%+v", all)
	}
	is(t, h.Release(), nil)
}

// TestKilled kills a process that keeps records. Each time the record is whole: the one that was told last, or one after it.
func TestKilled(t *testing.T) {
	random := kill.Random(t)
	dir, told := t.TempDir(), int64(0)
	for range kill.Times(3, 80) {
		kill.AtLine(t, "keep", dir, "", 1+random.IntN(20), func(string) { told++ })
		told = kept(t, dir, told)
	}
}

// TestKilledInside kills it at each call, and in the middle of each write.
func TestKilledInside(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "shelf")
	is(t, os.Mkdir(dir, 0o700), nil)
	kill.Prefixes(t, "keep three", dir, dir, func(t testing.TB, left string, said []string) {
		n := kept(t, left, int64(len(said))) + 1
		h := must.Get(must.Get(Open(left))(t).Hold("x"))(t)
		is(t, h.Keep(record("x", "0123456789abcdef", n)), nil) // the next one goes on
		is(t, h.Release(), nil)
		kept(t, left, n)
	})
}

// kept returns which record a process has left that has told of so many.
func kept(t testing.TB, dir string, told int64) (n int64) {
	t.Helper()
	s := must.Get(Open(dir))(t)
	h, err := s.Hold("x") // the lock of who was killed is gone
	is(t, err, nil)
	r, err := h.Record()
	if !errors.Is(err, mover.ErrNotExist) {
		is(t, err, nil)
		n = int64(r.Reserved)
	}
	if n < told || n > told+1 || n > 0 && !reflect.DeepEqual(r, record("x", "0123456789abcdef", n)) {
		t.Fatalf("record %d is there, and %d was told", n, told)
	}
	is(t, h.Release(), nil)
	return n
}

// TestHold: one process has a burst at a time, and who wants it, too, hears which. A name of its own is another lock.
func TestHold(t *testing.T) {
	dir := t.TempDir()
	s := must.Get(Open(dir))(t)
	c := kill.Start(t, "hold", dir)
	if line, err := c.Line(); line != "held" {
		t.Fatal(line, err)
	}
	for range 2 {
		_, err := s.Hold("x")
		if is(t, err, mover.ErrHeld); !strings.Contains(err.Error(), fmt.Sprintf("process %d works on it", c.Process.Pid)) {
			t.Error(err)
		}
	}
	is(t, must.Get(s.Hold("y"))(t).Release(), nil)
	if _, err := s.All(); err != nil {
		t.Errorf("reading needs no lock: %v", err)
	}
	is(t, c.In.Close(), nil)
	is(t, c.Wait(), nil)
	h := must.Get(s.Hold("x"))(t)
	_, err := s.Hold("x")
	if is(t, err, mover.ErrHeld); !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("in one process, too: %v", err)
	}
	second := kill.Start(t, "hold", dir)
	if line, err := second.Line(); !strings.Contains(line, fmt.Sprintf("process %d works on it", os.Getpid())) {
		t.Errorf("%q, %v", line, err)
	}
	is(t, second.Wait(), nil)
	is(t, h.Release(), nil)

	is(t, os.WriteFile(filepath.Join(dir, "z.lock"), []byte("\x1b[2J1234567890123456789012345678901234567890"), 0o600), nil)
	z := must.Get(s.Hold("z"))(t)
	if text, err := os.ReadFile(filepath.Join(dir, "z.lock")); err != nil || string(text) != fmt.Sprintln(os.Getpid()) {
		t.Errorf("%q, %v", text, err)
	}
	is(t, os.WriteFile(filepath.Join(dir, "z.lock"), []byte("\x1b[2J"), 0o600), nil)
	if _, err := s.Hold("z"); !errors.Is(err, mover.ErrHeld) || strings.ContainsRune(err.Error(), '\x1b') {
		t.Errorf("%q", err)
	}
	is(t, z.Release(), nil)
}

// TestHostile: files that are none of ours. What is no record is passed over; what says that it is one, and is not, is told of, and nothing is answered.
func TestHostile(t *testing.T) {
	text := func(id string) string {
		r := record("x", id, 1)
		return fmt.Sprintf(`{"id": %q, "declaration": %q, "state": %q}`, r.ID, r.Declaration, r.State)
	}
	outside := filepath.Join(t.TempDir(), "outside")
	is(t, os.WriteFile(outside, []byte(text("2")), 0o600), nil)
	for _, test := range []struct {
		what string
		put  func(dir string) error
		kind error
	}{
		{"a foreign file", func(dir string) error { return os.WriteFile(filepath.Join(dir, "budget.jsonl"), []byte("x"), 0o600) }, nil},
		{"a record that is being written", func(dir string) error { return os.WriteFile(filepath.Join(dir, "2.json.new"), []byte("{"), 0o600) }, nil},
		{"a link to a record", func(dir string) error { return os.Symlink(outside, filepath.Join(dir, "2.json")) }, nil},
		{"a directory", func(dir string) error { return os.Mkdir(filepath.Join(dir, "2.json"), 0o700) }, nil},
		{"a pipe", func(dir string) error { return unix.Mkfifo(filepath.Join(dir, "2.json"), 0o600) }, nil},
		{"nothing", func(dir string) error { return os.WriteFile(filepath.Join(dir, "2.json"), nil, 0o600) }, mover.ErrCorrupt},
		{"torn", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "2.json"), []byte(text("2")[:40]), 0o600)
		}, mover.ErrCorrupt},
		{"of another ID", func(dir string) error { return os.WriteFile(filepath.Join(dir, "2.json"), []byte(text("3")), 0o600) }, mover.ErrCorrupt},
		{"of no ID", func(dir string) error { return os.WriteFile(filepath.Join(dir, ".json"), []byte(text("")), 0o600) }, mover.ErrCorrupt},
		{"of an odd ID", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "a\x1b[2J.json"), []byte(text("a\x1b[2J")), 0o600)
		}, mover.ErrCorrupt},
		{"of no state", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "2.json"), []byte(strings.Replace(text("2"), `"ready"`, `"done"`, 1)), 0o600)
		}, mover.ErrCorrupt},
		{"another kind of JSON", func(dir string) error { return os.WriteFile(filepath.Join(dir, "2.json"), []byte("[1]"), 0o600) }, mover.ErrCorrupt},
		{"more than is read", func(dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, "2.json"), []byte(text("2")), 0o600), os.Truncate(filepath.Join(dir, "2.json"), textMost+1))
		}, mover.ErrCorrupt},
		{"it may not be read", func(dir string) error { return os.WriteFile(filepath.Join(dir, "2.json"), []byte(text("2")), 0) }, mover.ErrPermission},
	} {
		if test.kind == mover.ErrPermission && os.Geteuid() == 0 {
			continue // root may
		}
		dir := t.TempDir()
		s := must.Get(Open(dir))(t)
		h := must.Get(s.Hold("x"))(t)
		is(t, h.Keep(record("x", "1", 1)), nil)
		is(t, test.put(dir), nil)
		all, err := s.All()
		if !errors.Is(err, test.kind) || test.kind == nil && (err != nil || len(all) != 1) || err != nil && strings.ContainsRune(err.Error(), '\x1b') {
			t.Errorf("%s: %+v, %q", test.what, all, err)
		}
		is(t, h.Release(), nil)
	}
}

// TestLinks: nothing is written through a link, and a directory in which others may write is refused.
func TestLinks(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	is(t, os.WriteFile(outside, []byte("precious"), 0o600), nil)
	s := must.Get(Open(dir))(t)
	h := must.Get(s.Hold("x"))(t)
	for _, name := range []string{"1.json", "1.json.new", "y.lock"} {
		is(t, os.Symlink(outside, filepath.Join(dir, name)), nil)
	}
	is(t, h.Keep(record("x", "1", 1)), nil)
	if _, err := s.Hold("y"); !errors.Is(err, unix.ELOOP) {
		t.Errorf("%v", err)
	}
	if got := must.Get(h.Record())(t); got.ID != "1" {
		t.Errorf("%+v", got)
	}
	is(t, os.WriteFile(filepath.Join(dir, "1.json.new"), []byte("torn"), 0o600), nil) // of who was killed
	is(t, h.Keep(record("x", "1", 2)), nil)
	if text := must.Get(os.ReadFile(outside))(t); string(text) != "precious" {
		t.Errorf("%q", text)
	}
	is(t, h.Release(), nil)
	for _, mode := range []os.FileMode{0o720, 0o702, 0o777} {
		is(t, os.Chmod(dir, mode), nil)
		_, err := Open(dir)
		is(t, err, mover.ErrPermission)
	}
}
