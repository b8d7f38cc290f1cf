package local

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/fault"
	"datamove.dev/mover/location"
	"datamove.dev/mover/posix"
)

// slow is a directory whose traits are those of a file system that has stable storage.
type slow struct {
	*posix.Place
	late, syncs bool
}

func (s slow) Traits() mover.Traits {
	t := s.Place.Traits()
	t.CommitBytes, t.CommitEvery = 1<<30, time.Minute
	t.LateErrors, t.FinishSyncs = s.late, s.syncs
	return t
}

// TestLostInStagedDirectory: a run ends when it has finished what it was to publish, and
// where a finished draft may lose bytes without a word, the target loses some. Files are read
// before they count. Of what is in a directory that was built under a temporary name no
// checksums are recorded, so all of it is moved again, unless Finish has synced it.
func TestLostInStagedDirectory(t *testing.T) {
	for _, row := range []struct {
		name        string
		late, syncs bool
		loses       []string
		moved       int64 // by the second run
	}{
		{"nothing is lost unseen", false, false, nil, 0},
		{"what is finished is safe", true, true, nil, 0},
		{"nothing was lost", true, false, nil, 3},
		{"a file two directories down", true, false, []string{"dir/in/b"}, 3},
		{"a file by itself, too", true, false, []string{"dir/a", "file"}, 4},
	} {
		t.Run(row.name, func(t *testing.T) {
			source, target, state := t.TempDir(), t.TempDir(), t.TempDir()
			names := []string{"dir/a", "dir/in/b", "dir/in/c", "file"}
			for _, name := range names {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(source, name)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(source, name), []byte("content of "+name), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			run := func(published fault.Fault) (Report, error) {
				task, err := Start(t.Context(), Request{
					Work: Copy, Source: location.Location{Scheme: location.POSIX, Path: source}, Target: location.Location{Scheme: location.POSIX, Path: target},
					StateDir: state, Reflink: ReflinkNever,
				}, func(_ context.Context, l location.Location, o OpenOptions) (mover.Place, error) {
					p, err := posix.Open(l.Path, posix.Options{Create: o.Write})
					if err != nil || !o.Write {
						return p, err
					}
					return fault.New(slow{p, row.late, row.syncs}, fault.Options{Script: func(c fault.Call) fault.Fault {
						if c.Op == fault.Publish {
							return published
						}
						return fault.None
					}}), nil
				})
				if err != nil {
					t.Fatal(err)
				}
				return task.Wait()
			}
			if _, err := run(fault.Unreachable); err == nil {
				t.Fatal("the target could not be reached, and the run says nothing")
			}
			lose(t, target, row.loses)
			report, err := run(fault.None)
			if err != nil || report.Files != row.moved || report.Files+report.Kept < int64(len(names)) {
				t.Errorf("the second run: %v, %d files moved and %d entries kept; want %d moved", err, report.Files, report.Kept, row.moved)
			}
			for _, name := range names {
				if got, err := os.ReadFile(filepath.Join(target, name)); err != nil || string(got) != "content of "+name {
					t.Errorf("%s is %q: %v", name, got, err)
				}
			}
			for _, name := range files(t, target) {
				if strings.Contains(name, ".datamove-") {
					t.Errorf("%s is left", name)
				}
			}
		})
	}
}

// lose makes zeros of the contents of files under temporary names. Sizes and times stay.
func lose(t *testing.T, target string, names []string) {
	t.Helper()
	lost := 0
	for _, file := range files(t, target) {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(string(content), "content of ")
		if !slices.Contains(names, name) {
			continue
		}
		if file == filepath.Join(target, name) {
			t.Fatalf("%s is published", name)
		}
		lost++
		was, err := os.Stat(file)
		if err == nil {
			err = os.WriteFile(file, make([]byte, len(content)), 0o644)
		}
		if err == nil {
			err = os.Chtimes(file, time.Time{}, was.ModTime())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if lost != len(names) {
		t.Fatalf("of %q, %d were there", names, lost)
	}
}

func files(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
