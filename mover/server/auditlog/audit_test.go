package auditlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"datamove.dev/mover"
	"datamove.dev/test/kill"
	"datamove.dev/test/must"
)

func TestMain(m *testing.M) {
	kill.Main(map[string]func(string) error{"append": appendMany, "append unsynced": appendUnsynced, "append few": appendFew})
	goleak.VerifyTestMain(m)
}

func opened(t testing.TB, dir string, o Options) *Log {
	t.Helper()
	l := must.Get(Open(dir, o))(t)
	t.Cleanup(func() { _ = l.Close() }) // again, where a test has closed it
	return l
}

// clock gives a time that is another one at each call.
func clock() func() time.Time {
	now := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	return func() time.Time {
		now = now.Add(time.Second + time.Nanosecond)
		return now
	}
}

func submit(reason string) Record {
	return Record{HasUID: true, UID: 1000, Actor: "ada", Peer: "unix", Method: "/datamove.v1.TaskService/SubmitTask",
		Locations: []string{"/data/run-7", "s3://archive/run-7"}, Allowed: true, Reason: reason}
}

// reasons returns what is in the log in dir, which must be whole.
func reasons(t testing.TB, dir string) (found []string) {
	t.Helper()
	for e, err := range Entries(context.Background(), dir) {
		must.Do(t, err)
		if e.Kind == Decision {
			found = append(found, e.Reason)
		}
	}
	return found
}

func whole(t testing.TB, dir string, heads ...Head) Summary {
	t.Helper()
	s := must.Get(Verify(context.Background(), dir, heads...))(t)
	return s
}

func appended(t testing.TB, l *Log, reasons ...string) {
	t.Helper()
	for _, reason := range reasons {
		must.Do(t, l.Append(context.Background(), submit(reason)))
	}
}

// TestGoesOn opens a log again and again: one chain, whose heads all stay good.
func TestGoesOn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "audit")
	var want []string
	var heads []Head
	for life := range 4 {
		l := opened(t, dir, Options{})
		if life > 0 && l.Head() != heads[len(heads)-1] {
			t.Errorf("life %d begins at %v", life, l.Head())
		}
		for n := range 3 {
			want = append(want, fmt.Sprint(life, "-", n))
			appended(t, l, want[len(want)-1])
			heads = append(heads, l.Head())
		}
		must.Do(t, l.Close())
		must.Do(t, l.Close())
	}
	if got := reasons(t, dir); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	s := whole(t, dir, heads...)
	if s.Files != 1 || s.Decisions != 12 || s.Denied != 0 || s.Cuts != 0 || s.First != 1 || s.Head != heads[11] || s.InUse {
		t.Errorf("%+v", s)
	}
	for name, want := range map[string]fs.FileMode{"": fs.ModeDir | 0o700, fileName(1): 0o600, lockName: 0o600} {
		st := must.Get(os.Stat(filepath.Join(dir, name)))(t)
		if st.Mode() != want {
			t.Errorf("%s has the mode %v", name, st.Mode())
		}
	}
}

func TestOneAtATime(t *testing.T) {
	dir := t.TempDir()
	l := opened(t, dir, Options{})
	appended(t, l, "a")
	if _, err := Open(dir, Options{}); !errors.Is(err, mover.ErrHeld) {
		t.Errorf("a second one: %v", err)
	}
	if s := whole(t, dir, l.Head()); !s.InUse {
		t.Error("it is not in use")
	}
	must.Do(t, l.Close())
	if s := whole(t, dir); s.InUse {
		t.Error("it is in use")
	}
	opened(t, dir, Options{})
}

// TestRotation writes small files, and one more on demand. Those that are not the
// last one never change again.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	l := opened(t, dir, Options{RotateBytes: 1000})
	before := map[uint64]string{}
	var want []string
	for n := range 10 {
		want = append(want, fmt.Sprint(n))
		appended(t, l, want[n])
		files := must.Get(list(dir))(t)
		for _, first := range files[:len(files)-1] {
			text := must.Get(os.ReadFile(filepath.Join(dir, fileName(first))))(t)
			if was, known := before[first]; known && was != string(text) {
				t.Errorf("%s has changed", fileName(first))
			}
			before[first] = string(text)
		}
	}
	must.Do(t, l.Rotate())
	files, head := whole(t, dir).Files, l.Head()
	must.Do(t, l.Rotate()) // nothing in it: it stays
	if files < 4 || l.Head() != head || whole(t, dir, head).Files != files {
		t.Errorf("%d files", files)
	}
	appended(t, l, "last")
	must.Do(t, l.Close())
	if got := reasons(t, dir); !slices.Equal(got, append(want, "last")) {
		t.Errorf("%q", got)
	}
}

func TestLocationsAreADigest(t *testing.T) {
	for _, keep := range []bool{false, true} {
		dir := t.TempDir()
		l := opened(t, dir, Options{KeepLocations: keep})
		appended(t, l, "a")
		must.Do(t, l.Append(t.Context(), Record{Method: "lease.expire", Object: "lease/4"}))
		for e, err := range Entries(t.Context(), dir) {
			must.Do(t, err)
			switch {
			case e.Method == "lease.expire" && (e.Digest != Hash{} || e.Locations != nil || e.HasUID || e.Allowed):
				t.Errorf("%+v", e)
			case e.Actor != "" && (len(e.Locations) > 0) != keep:
				t.Errorf("keep %v: %q", keep, e.Locations)
			// printf '%s\0' /data/run-7 s3://archive/run-7 | sha256sum
			case e.Actor != "" && e.Digest.String() != "f30df887343d14051d433871629160772eb4f655a0ceb05ffbf448dffb000a6c":
				t.Errorf("digest %v", e.Digest)
			}
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, row := range []struct {
		name string
		make func(dir string) error
		want error
	}{
		{"where others may write", func(dir string) error { return os.Chmod(dir, 0o777) }, mover.ErrPermission},
		{"a lock that leads elsewhere", func(dir string) error { return os.Symlink("/etc/passwd", filepath.Join(dir, lockName)) }, nil},
		{"a file that leads elsewhere", func(dir string) error { return os.Symlink("/etc/passwd", filepath.Join(dir, fileName(1))) }, mover.ErrCorrupt},
		{"a folder in place of a file", func(dir string) error { return os.Mkdir(filepath.Join(dir, fileName(1)), 0o700) }, mover.ErrCorrupt},
		{"an empty file", func(dir string) error { return os.WriteFile(filepath.Join(dir, fileName(1)), nil, 0o600) }, mover.ErrCorrupt},
		{"a file of others", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, fileName(1)), []byte("hello\nworld\n"), 0o600)
		}, mover.ErrCorrupt},
	} {
		dir := t.TempDir()
		must.Do(t, row.make(dir))
		l, err := Open(dir, Options{})
		if err == nil {
			must.Do(t, l.Close())
		}
		if err == nil || row.want != nil && !errors.Is(err, row.want) {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}

// TestDamagedLogIsLeftAlone shows that Open does not mend what no kill has done.
func TestDamagedLogIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	l := opened(t, dir, Options{})
	appended(t, l, "first", "second", "third")
	must.Do(t, l.Close())
	path := filepath.Join(dir, fileName(1))
	text, err := os.ReadFile(path)
	must.Do(t, err)
	forged := strings.Replace(string(text), "second", "Second", 1)
	must.Do(t, os.WriteFile(path, []byte(forged), 0o600))
	_, err = Open(dir, Options{})
	var b *Break
	if !errors.As(err, &b) || b.Line != 3 || !errors.Is(err, mover.ErrCorrupt) {
		t.Errorf("%v", err)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != forged {
		t.Errorf("it was touched: %v", err)
	}
}

func TestVerifyOfNothing(t *testing.T) {
	for _, dir := range []string{t.TempDir(), "/nowhere"} {
		if _, err := Verify(t.Context(), dir); !errors.Is(err, mover.ErrNotExist) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

func TestVerifyStops(t *testing.T) {
	dir := t.TempDir()
	appended(t, opened(t, dir, Options{}), "a", "b")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Verify(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for e, err := range Entries(t.Context(), dir) {
		must.Do(t, err)
		if e.Sequence > 1 {
			t.Error("it goes on when its reader has left")
		}
		break
	}
}

func TestHeadText(t *testing.T) {
	want := Head{7, hashOf([]byte("x"))}
	if got, err := ParseHead(want.String()); err != nil || got != want {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "7", "7:", ":" + want.Hash.String(), "0:" + want.Hash.String(), "-1:" + want.Hash.String(),
		"7:" + want.Hash.String()[1:], "7:" + want.Hash.String() + "00", "x:" + want.Hash.String(), want.String() + "\n"} {
		if _, err := ParseHead(text); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
