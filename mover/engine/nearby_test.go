package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/mover/location"
	"datamove.dev/mover/remedy"
	"datamove.dev/test/must"
)

// TestNotThere: a location that does not exist is an error of its own before anything is read. It names the location, the cause, and the one beside it that
// has almost the same name.
func TestNotThere(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, errors.Join(os.MkdirAll(filepath.Join(dir, "data/run-7"), 0o755), os.Mkdir(filepath.Join(dir, "empty"), 0o755),
		os.WriteFile(filepath.Join(dir, "data/run-7/file"), []byte("x"), 0o644)))
	var reads atomic.Int64
	open := func(_ context.Context, l location.Location, o OpenOptions) (mover.Backend, error) {
		p, err := posix.Open(l.Path, posix.Options{Create: o.Write})
		if err != nil {
			return nil, err
		}
		return &reading{p, &reads}, nil
	}
	at := func(name string) location.Location {
		return location.Location{Scheme: location.POSIX, Path: filepath.Join(dir, name)}
	}
	state := filepath.Join(dir, "state")
	start := func(r Request) error {
		r.StateDir = state
		task, err := Start(t.Context(), r, open)
		if err == nil {
			_, err = task.Wait()
		}
		return err
	}
	verify := func(source, target string) func() error {
		return func() error { return start(Request{Work: Verify, Source: at(source), Target: at(target)}) }
	}
	listed := func(name string) func() error {
		return func() error {
			for _, err := range List(t.Context(), at(name), false, open) {
				return err
			}
			return nil
		}
	}
	for _, row := range []struct {
		name string
		do   func() error
		want string // "" is anything else than that it does not exist
		near string // "" is none
	}{
		{"the target of a verify", verify("data", "dta"), "dta", "data"},
		{"one of which all that is above is misspelled", verify("data/run-7", "dta/run-7"), "dta/run-7", "data"},
		{"one with no other beside it", verify("data", "elsewhere"), "elsewhere", ""},
		{"one of another number", verify("data/run-7", "data/run-8"), "data/run-8", "data/run-7"},
		{"a file", verify("data/run-7/file", "data/run-7/flie"), "data/run-7/flie", "data/run-7/file"},
		{"a file in a folder that is not there", verify("data/run-7/file", "dta/file"), "dta", "data"},
		{"the source of a verify", verify("dta", "data"), "dta", "data"},
		{"the source of a copy", func() error { return start(Request{Work: Copy, Source: at("dta"), Target: at("new")}) }, "dta", "data"},
		{"a listing", listed("dta"), "dta", "data"},
		{"what is to be removed", func() error {
			_, err := RemoveAll(t.Context(), at("dta"), Request{StateDir: state}, open)
			return err
		}, "dta", "data"},
		{"a manifest of it", func() error { return WriteManifest(t.Context(), at("dta"), new(strings.Builder), open) }, "dta", "data"},
		{"a file that lacks in a folder", verify("data/run-7/file", "empty"), "", ""},
		{"a folder that is empty", verify("data", "empty"), "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			reads.Store(0)
			err := row.do()
			if row.want == "" {
				if errors.Is(err, mover.ErrNotExist) || !errors.Is(err, mover.ErrCorrupt) {
					t.Errorf("%v", err)
				}
				return
			}
			question := ""
			if row.near != "" {
				question = fmt.Sprintf("; did you mean %s?", filepath.Join(dir, row.near))
			}
			if !errors.Is(err, mover.ErrNotExist) || !strings.Contains(err.Error(), " "+filepath.Join(dir, row.want)+": no such file or directory"+question) ||
				strings.Contains(err.Error(), "did you mean") != (question != "") {
				t.Errorf("%v, want %s", err, question)
			}
			if remedy.About(err) == "" {
				t.Error("it has no remedy")
			}
			if n := reads.Load(); n != 0 {
				t.Errorf("%d contents were opened before", n)
			}
		})
	}
	if _, err := os.Lstat(filepath.Join(dir, "new")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the target of the copy: %v", err)
	}
}

// reading counts the contents that are opened.
type reading struct {
	*posix.Backend
	opened *atomic.Int64
}

func (r *reading) Open(ctx context.Context, e mover.Entry) (mover.Content, error) {
	r.opened.Add(1)
	return r.Backend.Open(ctx, e)
}

// TestMissingLink: a name that lacks is missing, also where it is a hard link of another one that lacks.
func TestMissingLink(t *testing.T) {
	dir := t.TempDir()
	source, target := filepath.Join(dir, "source"), filepath.Join(dir, "target")
	must.Do(t, errors.Join(os.Mkdir(source, 0o755), os.Mkdir(target, 0o755), os.WriteFile(filepath.Join(source, "a"), []byte("x"), 0o644),
		os.Link(filepath.Join(source, "a"), filepath.Join(source, "b"))))
	open := func(_ context.Context, l location.Location, o OpenOptions) (mover.Backend, error) {
		return posix.Open(l.Path, posix.Options{Create: o.Write})
	}
	task := must.Get(Start(t.Context(), Request{Work: Verify, Source: location.Location{Scheme: location.POSIX, Path: source},
		Target: location.Location{Scheme: location.POSIX, Path: target}, StateDir: filepath.Join(dir, "state")}, open))(t)
	report, _ := task.Wait()
	missing := 0
	for _, it := range report.Failures {
		if it.Name != "" && strings.HasSuffix(it.Err.Error(), "/"+it.Name+": missing") {
			missing++
		}
	}
	if missing != 2 {
		t.Errorf("%+v", report.Failures)
	}
}
