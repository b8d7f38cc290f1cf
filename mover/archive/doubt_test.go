package archive_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/archive"
	"datamove.dev/test/must"
)

// TestCorrupt: a copy whose bytes or length differ, or that nobody sealed, does not come back.
//
//safety:2 with cmd/datamoved/daemon TestHSMSpoilt
func TestCorrupt(t *testing.T) {
	dir := t.TempDir()
	v := open(t, directory(t, dir), t.TempDir(), 1)
	get := func(size int64) error {
		return v.Get(t.Context(), archive.Item{Key: key, File: file(t, nil), Size: size})
	}
	for _, size := range []int{5000, 17 << 20} {
		must.Do(t, put(t, v, content(size)))
		if err := get(int64(size) - 1); !errors.Is(err, mover.ErrCorrupt) {
			t.Errorf("of another size: %v", err)
		}
		path := filepath.Join(dir, key)
		f := must.Get(os.OpenFile(path, os.O_RDWR, 0))(t)
		b := make([]byte, 1)
		if _, err := f.ReadAt(b, int64(size)-7); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 4
		if _, err := f.WriteAt(b, int64(size)-7); err != nil {
			t.Fatal(err)
		}
		if err := get(int64(size)); !errors.Is(err, mover.ErrCorrupt) {
			t.Errorf("one bit of %d bytes: %v", size, err)
		}
		must.Do(t, errors.Join(f.Close(), os.Remove(path), os.WriteFile(path, content(size), 0o600)))
		if err := get(int64(size)); !errors.Is(err, mover.ErrCorrupt) || !strings.Contains(err.Error(), "no checksum") {
			t.Errorf("nobody sealed it: %v", err)
		}
	}
}

// TestNextProcess: what a process had begun when it was killed is dropped by the next one
// of the same owner; what others are writing is not touched.
func TestNextProcess(t *testing.T) {
	for _, s := range shelves {
		t.Run(s.name, func(t *testing.T) {
			process := s.open(t)
			state := t.TempDir()
			must.Do(t, put(t, open(t, process(), state, 1), content(9)))
			begin(t, process(), mover.WriterID{Task: "vault", Epoch: 1}, state)
			if n := len(strays(t, process())); n != 1 {
				t.Fatalf("%d drafts", n)
			}
			holds(t, open(t, process(), state, 2), content(9))
			if left := strays(t, process()); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			if notes, err := filepath.Glob(filepath.Join(state, "*.writing")); err != nil || len(notes) > 0 {
				t.Errorf("notes %v, %v", notes, err)
			}
			if s.name == "store" {
				return // uploads have no owners
			}
			begin(t, process(), mover.WriterID{Task: "another", Epoch: 1}, state)
			open(t, process(), state, 3)
			if n := len(strays(t, process())); n != 1 {
				t.Errorf("%d drafts of somebody else are left", n)
			}
		})
	}
}

// begin leaves a draft with a part in it, and the note of it, as a process that is killed does.
func begin(t *testing.T, p mover.Backend, by mover.WriterID, state string) {
	t.Helper()
	e := mover.Entry{Name: key, Kind: mover.File, Size: 1 << 30}
	d := must.Get(p.Draft(t.Context(), e, mover.Hints{By: by}))(t)
	must.Do(t, d.Suspend())
	must.Do(t, os.WriteFile(filepath.Join(state, "0000.writing"), []byte(key), 0o600))
}

// TestIdentity: a place that is empty although copies were put there is no vault, nor is
// another one; whoever comes with no memory takes what is there.
//
//safety:1 with lustre/copytool TestRemoveGivenUp
func TestIdentity(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	must.Do(t, put(t, open(t, directory(t, dir), state, 1), content(3)))
	holds(t, open(t, directory(t, dir), state, 2), content(3))
	holds(t, open(t, directory(t, dir), t.TempDir(), 2), content(3))
	empty := t.TempDir()
	opened := func(dir string) error {
		_, err := archive.Open(t.Context(), directory(t, dir), archive.Options{By: mover.WriterID{Task: "vault"}, StateDir: state})
		return err
	}
	if err := opened(empty); !errors.Is(err, mover.ErrNotExist) || !strings.Contains(err.Error(), "is it mounted?") {
		t.Errorf("an empty place: %v", err)
	}
	if files, err := os.ReadDir(empty); err != nil || len(files) > 0 {
		t.Errorf("something was put there: %v, %v", files, err)
	}
	open(t, directory(t, empty), t.TempDir(), 1)
	if err := opened(empty); !errors.Is(err, mover.ErrConflict) {
		t.Errorf("another vault: %v", err)
	}
	remembered := filepath.Join(state, archive.IdentityKey)
	if err := os.Truncate(remembered, 0); err != nil { // as a power cut leaves what was not synced
		t.Fatal(err)
	}
	bare := t.TempDir()
	if err := opened(bare); !errors.Is(err, mover.ErrConflict) || !strings.Contains(err.Error(), remembered) {
		t.Errorf("with a memory that was lost, an empty place: %v", err)
	}
	if files, err := os.ReadDir(bare); err != nil || len(files) > 0 {
		t.Errorf("something was put there: %v, %v", files, err)
	}
	must.Do(t, os.Remove(remembered))
	if err := opened(empty); err != nil {
		t.Errorf("as its error says: %v", err)
	}
}

// TestFor: whose keys may be those of another is not let in where the other's copies are.
//
//safety:1 with cmd/datamoved/daemon TestHSMOther
func TestFor(t *testing.T) {
	each(t, func(t *testing.T, p mover.Backend) {
		opened := func(whose string) error {
			v, err := archive.Open(t.Context(), p, archive.Options{By: mover.WriterID{Task: "vault"}, StateDir: t.TempDir(), For: whose})
			if err == nil {
				err = put(t, v, content(3))
			}
			return err
		}
		for _, row := range []struct {
			whose string
			want  error
		}{{"lab, made 2024", nil}, {"lab, made 2024", nil}, {"lab, made 2025", mover.ErrConflict}, {"", nil}} {
			if err := opened(row.whose); !errors.Is(err, row.want) || row.want != nil && !strings.Contains(err.Error(), row.whose) {
				t.Errorf("%q: %v", row.whose, err)
			}
		}
	})
}

// TestHostileKeys: no key and no note leads out of the place.
func TestHostileKeys(t *testing.T) {
	state := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(state, "1.writing"), []byte("../../etc"), 0o600))
	v := open(t, directory(t, t.TempDir()), state, 1)
	for _, bad := range []string{"", "../x", "/x", "a//b", "a/\x00"} {
		it := item(file(t, nil), 0)
		it.Key = bad
		if err := v.Put(t.Context(), it); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("put %q: %v", bad, err)
		}
		if err := v.Get(t.Context(), it); err == nil {
			t.Errorf("get %q", bad)
		}
		if err := v.Delete(t.Context(), bad); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("delete %q: %v", bad, err)
		}
	}
}
